"""How a step is told to the pool: beside the step, and again where the pool is away."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from moiety.model.errors import MoietyError, NoPool, NotAllowed, PoolSilent
from moiety.slurm.step import record, report
from moiety.slurm.step.ranks import StepShape
from moiety.slurm.step.report import StepTeller, cpus_of, gpus_of

JOB = {"SLURM_JOB_ID": "12", "MOIETY_JOB_ATTEMPT": "2"}
CONTENT = {"name": "sh", "command": "sh -c x", "tasks": 1, "cpus": 1, "gpus": 0, "began_s": 5.0}


class FakePool:
    """A pool that refuses with these errors first."""

    def __init__(self) -> None:
        self.refusals: list[MoietyError] = []
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.has_refused = threading.Event()
        self.has_answered = threading.Event()

    def __call__(self) -> FakePool:
        return self

    def post(self, path: str, body: dict[str, Any]) -> None:
        if self.refusals:
            self.has_refused.set()
            raise self.refusals.pop(0)
        self.told.append((path, body))
        self.has_answered.set()

    def close(self) -> None:
        pass


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> FakePool:
    found = FakePool()
    monkeypatch.setattr(report, "SlurmPool", found)
    return found


def test_a_step_is_told_when_it_begins_and_at_its_end(pool: FakePool, tmp_path: Path) -> None:
    step = record.begin(str(tmp_path), CONTENT)
    teller = StepTeller(step, JOB)
    assert pool.has_answered.wait(30)
    step.write(ended_s=6.0, exit_code=3, exit_signal=0)
    teller.finish()
    end = {"ended_s": 6.0, "exit_code": 3, "exit_signal": 0}
    assert pool.told == [
        ("/workloads/12/steps", {"attempt": 2, "step": CONTENT | {"number": 0}}),
        ("/workloads/12/steps", {"attempt": 2, "step": CONTENT | {"number": 0} | end}),
    ]


def test_a_pool_that_is_away_is_asked_again(pool: FakePool, tmp_path: Path) -> None:
    pool.refusals = [NoPool("/run"), PoolSilent("reset")]
    step = record.begin(str(tmp_path), CONTENT)
    teller = StepTeller(step, JOB)
    assert pool.has_refused.wait(30)
    step.write(ended_s=6.0, exit_code=0, exit_signal=9)
    teller.finish()
    assert [body["step"]["exit_signal"] for _, body in pool.told] == [9]


def test_a_step_waits_only_so_long_for_a_pool(
    pool: FakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "LAST_WAIT_S", 0.05)
    pool.refusals = [NoPool("/run")] * 100
    teller = StepTeller(record.begin(str(tmp_path), CONTENT), JOB)
    began_s = time.monotonic()
    teller.finish()
    assert time.monotonic() - began_s < 5
    assert pool.told == []
    pool.refusals.clear()  # its thread ends with the next try
    assert pool.has_answered.wait(30)


def test_the_next_step_tells_what_could_not_be_told(
    pool: FakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "LAST_WAIT_S", 30.0)
    for name in ("first", "refused", "damaged", "number"):
        record.begin(str(tmp_path), CONTENT | {"name": name}).write(ended_s=6.0)
    (tmp_path / "steps" / "2.json").write_text('{"ended_s": 6.0}')
    (tmp_path / "steps" / "3.json").write_text('{"ended_s": 6.0, "name": 5, "command": "x"}')
    told = pool.post

    def post(path: str, body: dict[str, Any]) -> None:
        if body["step"]["name"] == "refused":
            raise NotAllowed("not yours")
        told(path, body)

    monkeypatch.setattr(pool, "post", post)
    for _ in range(2):  # the second has nothing left to tell but itself
        step = record.begin(str(tmp_path), CONTENT | {"name": "next"})
        teller = StepTeller(step, JOB)
        step.write(ended_s=7.0)
        teller.finish()
    found = {(each["step"]["number"], each["step"].get("ended_s")) for _, each in pool.told}
    assert {(0, 6.0), (4, 7.0), (5, 7.0)} <= found
    assert {number for number, _ in found} == {0, 4, 5}
    assert sum(each["step"]["number"] == 0 for _, each in pool.told) == 1


def test_a_pool_that_refuses_is_not_asked_again(pool: FakePool, tmp_path: Path) -> None:
    pool.refusals = [NotAllowed("not yours")]
    step = record.begin(str(tmp_path), CONTENT)
    teller = StepTeller(step, JOB)
    assert pool.has_refused.wait(30)
    teller.finish()
    assert pool.told == []


@pytest.mark.parametrize(
    "variables", [{}, {"SLURM_JOB_ID": "12"}, {"SLURM_JOB_ID": "x", "MOIETY_JOB_ATTEMPT": "1"}]
)
def test_what_is_no_job_of_a_pool_tells_nothing(
    pool: FakePool, tmp_path: Path, variables: dict[str, str]
) -> None:
    StepTeller(record.begin(str(tmp_path), CONTENT), variables).finish()
    StepTeller(record.begin("", CONTENT), JOB).finish()
    assert pool.told == []


def test_names_that_json_cannot_hold_are_changed(pool: FakePool, tmp_path: Path) -> None:
    content = CONTENT | {"name": "a\udcff" + "x" * 2000, "command": "\udcff"}
    StepTeller(record.begin(str(tmp_path), content), JOB).finish()
    told = pool.told[0][1]["step"]
    assert (told["name"], told["command"]) == ("a?" + "x" * 1022, "?")


def test_what_a_step_has_of_its_job() -> None:
    job = {"SLURM_CPUS_ON_NODE": "8", "CUDA_VISIBLE_DEVICES": "0,1,2"}
    assert cpus_of(StepShape(0, 2), job, is_exact=False) == 8
    assert cpus_of(StepShape(0, 2), job, is_exact=True) == 2
    assert cpus_of(StepShape(0, 2, cpus_per_task=3), job, is_exact=False) == 6
    assert cpus_of(StepShape(0, 9, cpus_per_task=3), job, is_exact=False) == 8
    assert cpus_of(StepShape(0, 2), {}, is_exact=False) == 2
    assert gpus_of(StepShape(0, 2), job) == 3
    assert gpus_of(StepShape(0, 2, gpus=1), job) == 1
    assert gpus_of(StepShape(0, 2, gpus_per_task=1), job) == 2
    assert gpus_of(StepShape(0, 2), {}) == 0
