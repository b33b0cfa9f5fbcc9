from __future__ import annotations

from pathlib import Path

import pytest

from moiety.model.errors import BadArgument, PlotMissing
from moiety.policy.model.cluster import Placing
from moiety.sim import plot
from moiety.sim.replay import ReplaySettings, fill, live
from moiety.sim.tables import open_trace


def test_a_name_that_is_no_plot_is_refused_before_the_work() -> None:
    with pytest.raises(BadArgument, match=r"x\.txt is no name of a plot"):
        plot.check(Path("x.txt"))


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot, "find_spec", lambda _: None)
    with pytest.raises(PlotMissing) as refused:
        plot.check(Path("x.png"))
    assert "moiety[plot]" in refused.value.hint


def test_plots_show_every_rule(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib draws plots: moiety[plot]")
    trace = open_trace(None, None, 0)
    rules = (Placing.DEFAULT, Placing.BEST_FIT)
    filled = [fill(trace, ReplaySettings(rule, load_percent=10)) for rule in rules]
    plot.draw(filled, tmp_path / "a.svg")
    plot.draw(filled, tmp_path / "b.svg")
    drawn = (tmp_path / "a.svg").read_text()
    assert drawn == (tmp_path / "b.svg").read_text()
    assert ">best-fit</text>" in drawn
    assert ">openb-tenth: 122 nodes, 626 GPUs</text>" in drawn
    plot.draw([live(trace, ReplaySettings())], tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
