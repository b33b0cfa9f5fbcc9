"""What the engine learns from rows of the store, and keeps."""

from __future__ import annotations

import msgspec
import pytest

from moiety.pool.engine import learning
from moiety.pool.engine.learning import PoolMemory
from moiety.pool.engine.snapshot import workload_of
from moiety.pool.model.project_rows import ProjectRow
from moiety.pool.model.projects import queues_of
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState

HOUR = 3600.0
QUEUES = queues_of([ProjectRow(name="default"), ProjectRow(name="nlp")])


def row(number: int, state: WorkState = WorkState.PENDING, **values: object) -> WorkRow:
    plain = WorkRow(
        id=number, name="w", project="default", uid=0, user="ann", state=state,
        gpus=1, gpu_milli=1000, submitted_s=float(number),
    )  # fmt: skip
    return msgspec.structs.replace(plain, **values)


def told(memory: PoolMemory, now_s: float, *rows: WorkRow, change: int = 1) -> PoolMemory:
    """The memory after it has seen these rows, which are all that there is."""
    memory.divide(2, QUEUES, 0.0)
    live = {each.id: each for each in rows if each.state is WorkState.PENDING}
    memory.learn(rows, lambda each: workload_of(each, ["A"]), live, now_s, change)
    return memory


def ended(number: int, began_s: float, ended_s: float, **values: object) -> WorkRow:
    return row(number, WorkState.DONE, began_s=began_s, ended_s=ended_s, **values)


def test_it_learns_how_long_work_ran_while_it_was_not_suspended() -> None:
    memory = told(PoolMemory(), 5 * HOUR, ended(1, 10.0, 2 * HOUR + 10.0, suspended_s=HOUR), row(2))
    again = told(PoolMemory(), 5 * HOUR, ended(1, 10.0, HOUR + 10.0), row(2))
    left_s = memory.memory.left_s("2", 5 * HOUR)
    assert left_s == again.memory.left_s("2", 5 * HOUR)
    assert left_s > told(PoolMemory(), 5 * HOUR, ended(1, 10.0, 20.0), row(2)).memory.left_s(
        "2", 5 * HOUR
    )


def test_what_was_cancelled_before_it_ran_teaches_nothing() -> None:
    cancelled = [row(n, WorkState.CANCELLED, ended_s=30.0) for n in range(2, 50)]
    memory = told(PoolMemory(), 20.0, *(row(n) for n in range(1, 50)))
    before_s = memory.memory.left_s("1", 20.0)
    told(memory, 40.0, *cancelled)
    assert memory.memory.left_s("1", 40.0) == before_s
    assert not memory.memory.knows("2")


def test_work_that_begins_waits_again_and_rests() -> None:
    memory = told(PoolMemory(), 10.0, row(1))
    told(memory, 20.0, row(1, WorkState.STARTING, began_s=15.0))
    assert memory.memory.since_s("1") == 15.0
    told(memory, 40.0, row(1, WorkState.SUSPENDED, began_s=15.0, suspended_since_s=35.0))
    assert memory.memory.since_s("1") is None
    assert memory.memory.attained_s("1", 90.0) == 20.0
    told(memory, 100.0, row(1, WorkState.RUNNING, began_s=15.0, suspended_s=60.0))
    assert memory.memory.attained_s("1", 100.0) == 25.0
    told(memory, 110.0, row(1, WorkState.PENDING))
    assert memory.memory.attained_s("1", 200.0) == 0.0, "what ended before its time begins anew"


def test_a_project_that_has_less_than_its_part_gains_credit_and_keeps_it() -> None:
    rows = [
        row(1, WorkState.RUNNING, began_s=10.0, gpus=2),
        row(2, project="nlp"),
    ]
    memory = told(PoolMemory(), 10.0, *rows)
    told(memory, 10.0 + HOUR, *rows)
    credit = memory.memory.credit
    assert credit is not None
    assert credit["nlp"] > 0.9 * HOUR > -0.9 * HOUR > credit["default"]
    content = memory.dump(10.0 + HOUR)
    again = told(PoolMemory(content), 10.0 + HOUR, *rows)
    assert again.change == 1
    assert again.memory.credit == pytest.approx(credit)


def test_it_is_kept_now_and_then_and_only_if_it_has_learned() -> None:
    memory = told(PoolMemory(), 100.0, row(1))
    assert memory.dump(100.0)
    assert memory.dump(1000.0) == b"", "nothing is new"
    told(memory, 1010.0, row(2))
    assert memory.dump(1010.0)
    told(memory, 1011.0, row(3))
    assert memory.dump(1012.0) == b"", "that is too soon"
    assert memory.dump(1080.0)


@pytest.mark.parametrize("content", [b"", b"\x00", b"nonsense", msgspec.msgpack.encode({"a": 1})])
def test_what_cannot_be_read_is_as_if_it_were_not_there(content: bytes) -> None:
    assert PoolMemory(content).change == 0


def test_a_clock_that_is_set_back_loses_no_end() -> None:
    memory = told(PoolMemory(), 5000.0, row(1, WorkState.RUNNING, began_s=10.0), row(2))
    told(memory, 100.0, ended(1, 10.0, 90.0), row(2))
    told(memory, 6000.0, row(2))
    assert memory.memory.knows("2")
    assert not memory.memory.knows("1")


def test_after_a_clock_was_ahead_projects_gain_credit_at_once() -> None:
    rows = [row(1, WorkState.RUNNING, began_s=10.0, gpus=2), row(2, project="nlp")]
    memory = told(PoolMemory(), 10.0, *rows)
    ahead = dict(told(memory, 10.0 + 2 * HOUR, *rows).memory.credit or {})
    assert told(memory, 20.0, *rows).memory.credit == ahead
    after = told(memory, 20.0 + HOUR, *rows).memory.credit
    assert after is not None
    assert after["nlp"] > ahead["nlp"] + 0.9 * HOUR


def test_of_much_work_that_is_alike_the_oldest_has_a_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "KNOWN_MAX", 2)
    waiting = [row(n) for n in range(1, 6)]
    other = row(9, user="bob")
    memory = told(PoolMemory(), 10.0, *waiting, other)
    assert [n for n in range(1, 10) if memory.memory.knows(str(n))] == [1, 2, 9]
    began = row(1, WorkState.STARTING, began_s=11.0)
    live = {each.id: each for each in (began, *waiting[1:], other)}
    del live[3]  # it was cancelled
    memory.learn([began], lambda each: workload_of(each, ["A"]), live, 12.0, 2)
    assert [n for n in range(1, 10) if memory.memory.knows(str(n))] == [1, 2, 4, 9]
