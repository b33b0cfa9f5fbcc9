"""Draws results: allocation and fragments over arrived load, or GPUs in use and tasks that wait."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from moiety.model.errors import BadArgument, PlotMissing
from moiety.sim.results import Result

SUFFIXES = (".png", ".svg", ".pdf")
NO_DATE: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
"""Leaves the date out of an SVG: the same plot is the same file."""


def check(path: Path) -> None:
    """Raises BadArgument or PlotMissing if no plot can be written there: before the work."""
    if path.suffix not in SUFFIXES:
        raise BadArgument(
            f"{path.name} is no name of a plot", f"one that ends in {', '.join(SUFFIXES)}"
        )
    if find_spec("matplotlib") is None:
        raise PlotMissing


def draw(results: Sequence[Result], path: Path) -> None:
    """One line for each result; the upper axes as above, the lower ones below them."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 1, figsize=(8, 7), sharex=True, layout="constrained")
    first = results[0]
    if first.live:
        _live(axes, results)
    else:
        _fill(axes, results)
    axes[0].set_title(f"{first.trace}: {first.nodes} nodes, {first.gpus:g} GPUs")
    axes[0].legend()
    for each in axes:
        each.grid(alpha=0.3)
    # The same plot is the same file.
    as_text: dict[Any, Any] = {"svg.hashsalt": "moiety", "svg.fonttype": "none"}
    with mpl.rc_context(as_text):
        figure.savefig(path, metadata=NO_DATE if path.suffix == ".svg" else None)
    plt.close(figure)


def _fill(axes: Any, results: Sequence[Result]) -> None:
    for result in results:
        load = [bucket.arrived_percent for bucket in result.buckets]
        axes[0].plot(load, [b.allocation_percent for b in result.buckets], label=result.placing)
        useless = [(b.arrived_percent, b.fragments_percent) for b in result.buckets]
        known = [(x, y) for x, y in useless if y is not None]
        axes[1].plot([x for x, _ in known], [y for _, y in known], label=result.placing)
    axes[0].set_ylabel("GPUs allocated (%)")
    axes[1].set_ylabel("GPUs free, but of no use (%)")
    axes[1].set_xlabel("GPUs that have been asked for (% of all)")


def _live(axes: Any, results: Sequence[Result]) -> None:
    for result in results:
        assert result.live
        hours = [when / 3600 for when, *_ in result.live.timeline]
        axes[0].step(
            hours, [used for _, used, _ in result.live.timeline], where="post", label=result.placing
        )
        axes[1].step(
            hours,
            [queued for *_, queued in result.live.timeline],
            where="post",
            label=result.placing,
        )
    axes[0].set_ylabel("GPUs in use")
    axes[1].set_ylabel("tasks that wait")
    axes[1].set_xlabel("hours")
