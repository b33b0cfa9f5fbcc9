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


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        (("--repair", "1"), "--fail-every"),
        (("--known",), "--starts"),
        (("--state", "1GiB"), "--stops suspend"),
        (("--host-memory", "1GiB", "--stops", "kill"), "--stops suspend"),
        (("--link", "1GB"), "--stops suspend"),
        (("--network", "1GB"), "--stops suspend"),
    ],
)
def test_an_option_that_says_nothing_alone_is_refused(
    tmp_path: Path, options: tuple[str, ...], needed: str
) -> None:
    code, text = replayed(tmp_path, *options)
    assert code != 0
    assert f"{options[0]} says nothing without {needed}" in text


def test_only_the_engine_is_asked_when_jobs_begin(tmp_path: Path) -> None:
    code, text = replayed(tmp_path, "--starts", "40", "--order", "fifo")
    assert code != 0
    assert "only the order default says when jobs will begin" in text


@pytest.mark.parametrize("option", [("--stops", "kill"), ("--starts", "2"), ("--state", "1GiB")])
def test_a_history_has_no_use_for_stops_and_starts(tmp_path: Path, option: tuple[str, str]) -> None:
    (tmp_path / "nodes.csv").write_text("name,cpu_milli,memory_mib,gpus\nn,1,1,8\n")
    (tmp_path / "jobs.csv").write_text("name,gpus,submitted_s,duration_s,queue\na,8,0,900,q\n")
    (tmp_path / "queues.csv").write_text("name,quota_gpus\nq,8\n")
    found = CliRunner().invoke(sim, ["run", str(tmp_path), *option])
    assert found.exit_code != 0
    assert f"{option[0]} is for a file of jobs with whole GPUs" in str(found.exception)


def test_a_bound_of_waits_and_given_sizes_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS + "a,1,0,600,,u,\nb,2,0,600,,u,\n")
    asked = ["capacity", str(path), "--cluster", "8", "--split", "4@1,4", "--wait", "9"]
    found = CliRunner().invoke(sim, asked)
    assert found.exit_code != 0
    assert "--wait is the bound of a search" in str(found.exception)
