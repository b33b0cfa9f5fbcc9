"""Steps that run: which are listed, and what is said of each."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moiety.slurm.pool import SlurmPool
from moiety.slurm.show import jobids, selection, squeue, steps
from moiety.slurm.show.account_lines import AccountLine
from moiety.slurm.show.jobs import SlurmJob
from moiety.slurm.show.selection import Wanted
from tests.support.slurm_rows import STEP, job_of, ran

RUNS = STEP | {"ended_s": None, "exit_code": None, "exit_signal": None}


def job(**values: Any) -> SlurmJob:
    own = ran("running") | {"ended_s": None} | values
    return replace(job_of(**own), steps=[STEP | {"number": 0}, RUNS | {"number": 1}])


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[SlurmJob]:
    """The jobs that the pool is taken to have."""
    jobs: list[SlurmJob] = []
    monkeypatch.setattr(selection, "find", lambda *_: iter(jobs))
    return jobs


def ids(*only: str) -> list[str]:
    named = [each for word in only for each in jobids.parse_list(word)]
    return [steps.id_of(line) for line in steps.running(cast("SlurmPool", None), Wanted(), named)]


def test_only_what_has_not_ended_is_listed(found: list[SlurmJob]) -> None:
    found += [job(), replace(job_of(**ran()), steps=[RUNS])]
    assert ids() == ["7.1", "7.batch"]


def test_steps_can_be_named(found: list[SlurmJob]) -> None:
    found += [job(), job(id=21, array_id=20, array_index=1)]
    assert ids("7.1") == ["7.1"]
    assert ids("7.batch", "20_1.1") == ["7.batch", "20_1.1"]
    assert ids("7.0") == []
    assert ids("7") == ["7.1", "7.batch"]


def test_a_step_has_slurms_keys() -> None:
    lines = steps.lines_of(AccountLine(job(), "1", RUNS | {"tasks": 2}), 77)
    assert lines[0].startswith("StepId=7.1 UserId=0 StartTime=")
    assert lines[1].strip().startswith("State=RUNNING Partition=pool NodeList=")
    assert lines[-2:] == [
        "   CPUFreqReq=Default Dist=Block", f"   SrunHost:Pid={job().nodes}:77",
    ]  # fmt: skip
    batch = steps.lines_of(AccountLine(job(), "batch"), 0)
    assert batch[3] == "   TRES=(null)"
    assert batch[-1] == "   SrunHost:Pid=(null):0"


def test_only_processes_of_the_jobs_user_are_its_steps(tmp_path: Path) -> None:
    folder = tmp_path / "spool" / "7" / "steps"
    folder.mkdir(parents=True)
    mine = {"pid": os.getpid(), "start_ticks": 5}
    (folder / "0.json").write_text(json.dumps(mine))
    (folder / "1.json").write_text(json.dumps(mine | {"ended_s": 9_000.0}))
    (folder / "2.json").write_text(json.dumps({"pid": "one"}))
    (folder / "3.json").symlink_to(folder / "0.json")
    os.mkfifo(folder / "4.json")
    pool = SimpleNamespace(
        paths=SimpleNamespace(
            agent=SimpleNamespace(path=tmp_path), socket=tmp_path / "elsewhere" / "socket"
        )
    )
    for uid, numbers in ((os.getuid(), [0]), (os.getuid() + 1, [])):
        runners = steps.runners_of(cast("SlurmPool", pool), job(uid=uid))
        assert [(each.number, each.start_ticks) for each in runners] == [(n, 5) for n in numbers]


def test_a_word_that_names_no_step_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, text in (
        (["-s", "7"], "squeue: error: Invalid job_step id: 7.??\n"),
        (["--steps=7"], "squeue: error: Invalid job_step id: 7.??\n"),
        (["-s7.x"], "squeue: error: Invalid job_step id: 7.x\n"),
        (["7.0"], "squeue: error: Unrecognized option: 7.0\n"),
    ):
        assert squeue.main(words) == 1
        assert capsys.readouterr().err == text
