"""The options of `moiety sim run` about stops and about begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from moiety.cli.sim.command import sim
from moiety.cli.sim.replay_options import STOPS
from moiety.sim.suspension import Stops

JOBS = "name,gpus,submitted_s,duration_s,queue,user,state_mib\n"


def replayed(folder: Path, *options: str) -> tuple[int, str]:
    path = folder / "jobs.csv"
    lines = [f"g{at},{1 + at % 8},{60 * at},{600 + 97 * (at * 7 % 11)},,u,\n" for at in range(40)]
    path.write_text(JOBS + "".join(lines))
    found = CliRunner().invoke(sim, ["run", str(path), "--cluster", "8", *options])
    return found.exit_code, found.output + str(found.exception or "")


def test_the_names_are_those_of_the_simulator() -> None:
    assert tuple(Stops) == STOPS


def test_killed_and_suspended_are_shown_side_by_side(tmp_path: Path) -> None:
    code, text = replayed(tmp_path, "--stops", "kill", "--stops", "suspend")
    assert code == 0, text
    assert "default, kill" in text
    assert "default, suspend" in text
    assert "SUSPENDED" in text
    assert "GPU-h" in text


def test_what_was_said_of_begins_is_compared(tmp_path: Path) -> None:
    code, text = replayed(tmp_path, "--starts", "40", "--known")
    assert code == 0, text
    assert "asked when they will begin:" in text
    assert "in the median" in text


def test_only_the_engine_suspends(tmp_path: Path) -> None:
    code, text = replayed(tmp_path, "--stops", "suspend", "--order", "fifo")
    assert code != 0
    assert "only the order default suspends" in text


@pytest.mark.parametrize("stops", ["kill", "suspend"])
def test_orders_of_histories_have_no_kinds_of_stops(tmp_path: Path, stops: str) -> None:
    code, text = replayed(tmp_path, "--stops", stops, "--order", "drf")
    assert code != 0
    assert "keep their work" in text or "only the order default suspends" in text
