"""Steps that run: which are listed, and what is said of each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moiety.agent.system import processes
from moiety.model.errors import NotAllowed
from moiety.slurm import step_requests
from moiety.slurm.pool import SlurmPool
from moiety.slurm.show import acts, jobids, scancel, selection, squeue, steps
from moiety.slurm.show.account_lines import AccountLine
from moiety.slurm.show.jobs import SlurmJob
from tests.support.slurm_rows import STEP, job_of, ran

RUNS = STEP | {"ended_s": None, "exit_code": None, "exit_signal": None}


def job(**values: Any) -> SlurmJob:
    own = ran("running") | {"ended_s": None} | values
    return replace(job_of(**own), steps=[STEP | {"number": 0}, RUNS | {"number": 1}])


def ids(jobs: list[SlurmJob], *only: str) -> list[str]:
    named = [each for word in only for each in jobids.parse_list(word)]
    return [steps.id_of(line) for line in steps.running(jobs, named)]


def test_only_what_has_not_ended_is_listed() -> None:
    assert ids([job(), replace(job_of(**ran()), steps=[RUNS])]) == ["7.1", "7.batch"]


def test_steps_can_be_named() -> None:
    jobs = [job(), job(id=21, array_id=20, array_index=1)]
    assert ids(jobs, "7.1") == ["7.1"]
    assert ids(jobs, "7.batch", "20_1.1") == ["7.batch", "20_1.1"]
    assert ids(jobs, "7.0") == []
    assert ids(jobs, "7") == ["7.1", "7.batch"]


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


class Refused:
    """A pool that has one folder for records, and says who the process of a job is, or refuses."""

    def __init__(self, folder: Path, refusal: NotAllowed | None = None) -> None:
        agent, self.refusal = SimpleNamespace(path=folder), refusal
        self.paths = SimpleNamespace(agent=agent, socket=folder / "socket")

    def get(self, path: str) -> dict[str, int]:
        if self.refusal:
            raise self.refusal
        return {"pid": 0, "start_ticks": 0}


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as found:
        yield found
        found.kill()


@pytest.fixture
def records(tmp_path: Path) -> Path:
    folder = tmp_path / "spool" / "7" / "steps"
    folder.mkdir(parents=True)
    return folder


def test_a_record_that_its_user_has_changed_is_none(tmp_path: Path, records: Path) -> None:
    mine = {"pid": 5, "start_ticks": 6}
    (records / "0.json").write_text(json.dumps(mine))
    (records / "1.json").write_text(json.dumps(mine | {"ended_s": 9_000.0}))
    for at, text in enumerate(('{"pid": "one"}', "[" * 60_000, '{"pid": Infinity}', "[]", "\0")):
        (records / f"{at + 2}.json").write_text(text)
    (records / "7.json").symlink_to(records / "0.json")
    os.mkfifo(records / "8.json")
    (records / "x.json").write_text(json.dumps(mine))
    found = list(steps.runners_of(cast("SlurmPool", Refused(tmp_path)), job()))
    assert [(each.number, each.pid, each.start_ticks) for each in found] == [(0, 5, 6)]


def test_what_a_record_names_gets_a_signal_only_if_it_is_of_the_jobs_user(
    tmp_path: Path, records: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    ticks = processes.start_time(sleeper.pid)
    (records / "1.json").write_text(json.dumps({"pid": sleeper.pid, "start_ticks": ticks}))
    pool = cast("SlurmPool", Refused(tmp_path))
    other = job(uid=os.getuid() + 1)
    assert not acts.send_to_step(pool, other, "1", None)
    assert not acts.send(pool, other, signal.SIGTERM, to="steps")
    assert not acts.send_to_step(pool, job(uid=os.getuid()), "2", None)
    assert sleeper.poll() is None
    assert acts.send_to_step(pool, job(uid=os.getuid()), "1", None)
    assert sleeper.wait(60) == -step_requests.CANCEL


def test_a_step_of_another_user_is_refused(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], sleeper: subprocess.Popen[bytes],
) -> None:  # fmt: skip
    ticks = processes.start_time(sleeper.pid)
    (records / "1.json").write_text(json.dumps({"pid": sleeper.pid, "start_ticks": ticks}))
    refusal = NotAllowed("it is not yours", "your own work")
    monkeypatch.setattr(scancel, "SlurmPool", lambda: Refused(tmp_path, refusal))
    monkeypatch.setattr(Refused, "close", lambda _: None, raising=False)
    monkeypatch.setattr(selection, "find", lambda *_: iter([job(uid=os.getuid())]))
    assert scancel.main(["7.1"]) == 1
    assert capsys.readouterr().err == (
        "scancel: error: Kill job error on job step id 7.1: "
        "Access/permission denied (it is not yours)\n"
    )
    assert sleeper.poll() is None


def test_a_word_that_names_no_step_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, text in (
        (["-s", "7"], "squeue: error: Invalid job_step id: 7.??\n"),
        (["--steps=7"], "squeue: error: Invalid job_step id: 7.??\n"),
        (["-s7.x"], "squeue: error: Invalid job_step id: 7.x\n"),
        (["7.0"], "squeue: error: Unrecognized option: 7.0\n"),
    ):
        assert squeue.main(words) == 1
        assert capsys.readouterr().err == text
