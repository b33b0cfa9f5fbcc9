"""The steps of workloads: how they are told, kept, shown and bounded."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moiety.model.errors import BadArgument, WorkStateWrong, WorkUnknown
from moiety.pool.model.states import WorkState
from moiety.pool.model.steps import StepReport, StepRow
from moiety.pool.store import changes, steps
from moiety.pool.store.retention import delete_old
from tests.support.pool_store import store_in, submitted


@pytest.fixture
def store(tmp_path: Path) -> sqlite3.Connection:
    return store_in(tmp_path)


def running(store: sqlite3.Connection, attempt: int = 1) -> int:
    number = submitted(store).id
    changes.begin_attempt(store, number, attempt, [0], 101.0)
    changes.transition(store, number, WorkState.RUNNING, began_s=101.0)
    return number


def report(attempt: int = 1, **values: Any) -> StepReport:
    usual: dict[str, Any] = {"number": 0, "name": "sh", "began_s": 102.0}
    return StepReport(attempt=attempt, step=StepRow(**(usual | values)))


def end(store: sqlite3.Connection, number: int, at_s: float = 110.0) -> None:
    changes.end_attempt(store, number, 1, WorkState.DONE, "done", at_s, exit_code=0)


def test_a_step_is_told_when_it_begins_and_when_it_has_ended(store: sqlite3.Connection) -> None:
    number, other = running(store), running(store)
    steps.tell(store, number, report(command="sh -c x", tasks=2, cpus=4, gpus=1))
    steps.tell(store, number, report(number=1, began_s=103.0))
    began = steps.of(store, [number, other])
    assert [(step.number, step.tasks, step.ended_s) for step in began[number]] == [
        (0, 2, None), (1, 1, None),
    ]  # fmt: skip
    assert other not in began
    ended = report(command="sh -c x", tasks=2, cpus=4, gpus=1, ended_s=104.0, exit_code=3)
    steps.tell(store, number, ended)
    steps.tell(store, number, ended)  # an answer may have been lost
    steps.tell(store, number, report(ended_s=109.0, exit_signal=9))
    assert steps.of(store, [number])[number][0] == ended.step, "what has ended stays as it is"


def test_an_end_may_come_after_that_of_the_job_but_no_beginning(store: sqlite3.Connection) -> None:
    number = running(store)
    steps.tell(store, number, report())
    end(store, number)
    steps.tell(store, number, report(ended_s=111.0, exit_signal=15))
    assert steps.of(store, [number])[number][0].exit_signal == 15
    with pytest.raises(WorkStateWrong, match="no step of it begins"):
        steps.tell(store, number, report(number=1))
    with pytest.raises(WorkUnknown):
        steps.tell(store, 99, report())


def test_steps_of_an_earlier_start_are_not_shown_and_go(store: sqlite3.Connection) -> None:
    number = running(store)
    steps.tell(store, number, report(number=0))
    steps.tell(store, number, report(number=1))
    changes.end_attempt(store, number, 1, WorkState.PENDING, "again", 105.0)
    changes.begin_attempt(store, number, 2, [0], 106.0)
    assert steps.of(store, [number]) == {}
    with pytest.raises(WorkStateWrong, match="earlier start"):
        steps.tell(store, number, report(attempt=1, ended_s=107.0))
    steps.tell(store, number, report(attempt=2, name="anew"))
    assert [step.name for step in steps.of(store, [number])[number]] == ["anew"]
    assert store.execute("SELECT count(*) FROM step").fetchone() == (1,)


def test_steps_are_deleted_with_their_workload(store: sqlite3.Connection) -> None:
    number = running(store)
    steps.tell(store, number, report())
    end(store, number)
    running(store)
    delete_old(store, 9000.0)
    assert store.execute("SELECT id FROM workload WHERE id = ?", (number,)).fetchone() is None
    assert store.execute("SELECT count(*) FROM step").fetchone() == (0,)
    assert store.execute("PRAGMA foreign_key_check").fetchall() == []


def test_a_page_has_only_so_many_steps(store: sqlite3.Connection) -> None:
    numbers = [running(store) for _ in range(3)]
    for number in numbers:
        for at in range(2):
            steps.tell(store, number, report(number=at))
    fit = {most: steps.how_many_fit(store, numbers, most) for most in (1, 2, 3, 4, 6)}
    assert fit == {1: 1, 2: 1, 3: 1, 4: 2, 6: 3}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"number": -1}, "number of a step"),
        ({"number": 40_000}, "number of a step"),
        ({"tasks": 1 << 20}, "number of processes"),
        ({"cpus": 1 << 40}, "number of processors"),
        ({"gpus": 65}, "number of GPUs"),
        ({"exit_code": 256}, "exit code"),
        ({"exit_signal": 65}, "no signal"),
        ({"name": "x" * 1025}, "too long"),
        ({"command": "x" * 4097}, "too long"),
        ({"began_s": 0.0}, "ends before"),
        ({"ended_s": 101.0}, "ends before"),
        ({"ended_s": 1e12}, "ends before"),
    ],
)
def test_what_makes_no_sense_is_refused(values: dict[str, Any], text: str) -> None:
    report().check()
    with pytest.raises(BadArgument, match=text):
        report(**values).check()


def test_a_report_has_no_other_fields() -> None:
    text = msgspec.json.encode(report())
    assert msgspec.json.decode(text, type=StepReport) == report()
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text.replace(b"attempt", b"bogus"), type=StepReport)
