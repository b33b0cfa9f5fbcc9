"""Suspended work in the store and in the engine: each step is committed, and it keeps its GPUs."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control import protocol
from moiety.model.errors import ShareTaken, WorkStateWrong
from moiety.pool.control import suspension as module
from moiety.pool.control.suspension import SuspendedWork
from moiety.pool.engine.messages import CardView, CycleRequest, MachineView, ReasonsRequest
from moiety.pool.engine.planner import PoolPlanner
from moiety.pool.model.project_rows import ProjectRow
from moiety.pool.model.records import BY_USER, RESUMES, WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.store import changes, rows, suspension
from tests.support.pool_store import reading_in, store_in, submitted

ONE = MachineView(
    name="box",
    cpu_milli=8000,
    memory_mib=1000,
    arena_mib=2000,
    cards=[CardView(index=0, model="A", memory_mib=1000)],
)
TWO = MachineView(
    name="box",
    cpu_milli=8000,
    memory_mib=1000,
    arena_mib=2000,
    cards=[CardView(index=i, model="A", memory_mib=1000) for i in range(2)],
)


@pytest.fixture
def store(tmp_path: Path) -> sqlite3.Connection:
    return store_in(tmp_path)


@pytest.fixture
def planner(store: sqlite3.Connection, tmp_path: Path) -> PoolPlanner:
    del store  # it is there
    return PoolPlanner(reading_in(tmp_path))


def running(store: sqlite3.Connection, *cards: int, **values: object) -> int:
    """A workload that runs on these GPUs."""
    number = submitted(store, 100.0, **values).id
    changes.begin_attempt(store, number, 1, cards or (0,), 100.0)
    changes.started(store, number, 1, 4711, 1)
    return number


def suspended(store: sqlite3.Connection, number: int, intent: str = RESUMES) -> WorkRow:
    suspension.begin(store, number, intent, "for others")
    found = suspension.is_over(store, number, 1, "for others", 200.0)
    assert found is not None
    return found


def test_each_step_is_a_state_and_the_time_of_it_is_counted(store: sqlite3.Connection) -> None:
    number = running(store)
    assert suspension.begin(store, number, BY_USER, "why").state is WorkState.SUSPENDING
    row = suspension.is_over(store, number, 1, "why", 200.0)
    assert row is not None
    assert (row.state, row.cards, row.suspended_since_s) == (WorkState.SUSPENDED, [0], 200.0)
    assert suspension.resume(store, number, 1) is None, "its user has not said so"
    assert not suspension.is_any_to_resume(store)
    assert suspension.ask_to_resume(store, number, "soon").intent == RESUMES
    assert suspension.is_any_to_resume(store)
    assert suspension.resume(store, number, 2) is None, "another attempt"
    resuming = suspension.resume(store, number, 1)
    assert resuming is not None
    assert resuming.state is WorkState.RESUMING
    row = suspension.resumed(store, number, 1, 260.0)
    assert row is not None
    assert (row.state, row.suspended_s, row.suspended_since_s) == (WorkState.RUNNING, 60.0, None)
    assert row.intent == ""


def test_a_users_word_stands_above_the_engines(store: sqlite3.Connection) -> None:
    number = running(store)
    suspended(store, number)
    before = rows.since(store, 0)[1]
    assert suspension.begin(store, number, BY_USER, "by ann").reason == "by ann"
    assert rows.since(store, before)[0], "the engine reads it again"
    assert suspension.begin(store, number, RESUMES, "engine").intent == BY_USER


def test_a_refused_resume_is_suspended_again_since_it_was_first(store: sqlite3.Connection) -> None:
    number = running(store)
    suspended(store, number)
    suspension.resume(store, number, 1)
    suspension.begin(store, number, RESUMES, "it waits")
    row = suspension.is_over(store, number, 1, "it waits", 500.0)
    assert row is not None
    assert row.suspended_since_s == 200.0


def test_only_what_runs_can_be_suspended(store: sqlite3.Connection) -> None:
    waiting = submitted(store).id
    with pytest.raises(WorkStateWrong, match="only work that runs") as refused:
        suspension.begin(store, waiting, BY_USER, "")
    assert f"moiety hold {waiting}" in refused.value.hint
    with pytest.raises(WorkStateWrong, match="not suspended"):
        suspension.ask_to_resume(store, waiting, "")


def test_what_ends_meanwhile_stays_ended(store: sqlite3.Connection) -> None:
    number = running(store)
    suspension.begin(store, number, RESUMES, "for others")
    changes.transition(store, number, WorkState.ENDING, intent="cancelled")
    assert suspension.is_over(store, number, 1, "for others", 200.0) is None
    assert suspension.resume(store, number, 1) is None
    assert suspension.resumed(store, number, 1, 200.0) is None
    row = changes.end_attempt(store, number, 1, WorkState.PENDING, "preempted", 300.0)
    assert row is not None
    assert (row.suspended_s, row.suspended_since_s) == (0.0, None)


# The engine


def due_and_spare(store: sqlite3.Connection) -> tuple[int, int]:
    """One that runs on what is due to another, and the other one, which waits."""
    changes.apply(store, [ProjectRow(name="due", quota=1), ProjectRow(name="spare", quota=0)])
    return running(store, project="spare"), submitted(store, 110.0, project="due").id


def test_it_suspends_what_it_would_end_where_the_host_has_room(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    spare, _ = due_and_spare(store)
    for carried, room, suspends in (
        ({}, 100, False),
        ({spare: 50}, 40, False),
        ({spare: 50}, 60, True),
    ):
        (end,) = planner.cycle(CycleRequest(ONE, 120.0, carried, room)).ends
        assert (end.number, end.is_suspension) == (spare, suspends)


def test_the_gpu_of_suspended_work_is_given_to_others_once_its_memory_has_left(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    spare, due = due_and_spare(store)
    suspension.begin(store, spare, RESUMES, "for due")
    answer = planner.cycle(CycleRequest(ONE, 120.0))
    assert (answer.ends, answer.starts) == ([], []), "it is told once, and its memory leaves"
    suspension.is_over(store, spare, 1, "for due", 121.0)
    (start,) = planner.cycle(CycleRequest(ONE, 122.0)).starts
    assert (start.number, start.is_resume) == (due, False)


def test_it_goes_on_on_its_own_gpu_when_that_is_free(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    number = running(store, 1)
    suspended(store, number)
    other = running(store, 1)
    assert planner.cycle(CycleRequest(TWO, 300.0)).starts == [], "its own GPU is not free"
    changes.end_attempt(store, other, 1, WorkState.DONE, "exited 0", 301.0)
    (start,) = planner.cycle(CycleRequest(TWO, 302.0)).starts
    assert (start.number, start.attempt, start.cards, start.is_resume) == (number, 1, [1], True)
    suspension.begin(store, number, BY_USER, "by ann")
    assert planner.cycle(CycleRequest(TWO, 303.0)).starts == []


@pytest.mark.parametrize("mine", [0, 1])
def test_it_takes_its_own_gpu_back_where_its_project_is_due_more(
    store: sqlite3.Connection, planner: PoolPlanner, mine: int
) -> None:
    changes.apply(store, [ProjectRow(name="due", quota=1), ProjectRow(name="spare", quota=0)])
    number = running(store, mine, project="due")
    suspended(store, number)
    others = [running(store, card, project="spare") for card in (0, 1)]
    answer = planner.cycle(CycleRequest(TWO, 5000.0, dict.fromkeys(others, 10), 100))
    assert [(end.number, end.is_suspension) for end in answer.ends] == [(others[mine], True)]
    assert answer.starts == [], "others have it still"
    suspension.begin(store, others[mine], RESUMES, "for due")
    suspension.is_over(store, others[mine], 1, "for due", 5001.0)
    (start,) = planner.cycle(CycleRequest(TWO, 5002.0)).starts
    assert (start.number, start.cards, start.is_resume) == (number, [mine], True)


def test_while_others_have_its_gpu_a_free_one_is_left_to_other_work(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    number = running(store, 1)
    suspended(store, number)
    running(store, 1)
    other = submitted(store, 400.0).id
    (start,) = planner.cycle(CycleRequest(TWO, 500.0)).starts
    assert (start.number, start.cards) == (other, [0])
    assert "GPU" in planner.reasons(ReasonsRequest(TWO, 500.0, [number])).reasons[number].text


# The server


class Server:
    """What suspends, with an agent that answers what the test says."""

    def __init__(self, store: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.answers: list[Any] = []
        self.did: list[object] = []
        writer: Any = SimpleNamespace(write=self._write)
        running: Any = SimpleNamespace(
            by_number={1: SimpleNamespace(agent_workload="a1")},
            signal=lambda _, which: self._signal(which.name),
            is_stopped=self._is_stopped,
        )
        paths: Any = SimpleNamespace(agent=None)
        self.work = SuspendedWork(paths, writer, store, running, [], lambda: None)
        monkeypatch.setattr(module, "ask_or_start", self._ask)
        monkeypatch.setattr(module, "AGAIN_S", 0.0)

    def _signal(self, name: str) -> None:
        self.did.append(name)
        self.looks = 3

    def _is_stopped(self, number: int) -> bool:
        """The supervisor passes a signal on after some looks."""
        self.looks -= number
        last = next(each for each in reversed(self.did) if str(each).startswith("SIG"))
        if self.looks == 0:
            self.did.append(f"passed {last}")
        return (last == "SIGSTOP") == (self.looks <= 0)

    def _write(self, work: Any) -> Any:
        import concurrent.futures

        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        done.set_result(work(self.store))
        return done

    def _ask(self, agent: Any, arguments: Any, ask: Any) -> Any:
        del agent, arguments

        def answer(asked: Any, expected: Any) -> Any:
            del expected
            self.did.append(type(asked).__name__)
            found = self.answers.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        return ask(SimpleNamespace(ask=answer))

    def run(self, row: WorkRow) -> WorkRow:
        async def until_done() -> None:
            self.work.go_on(row)
            while self.work._tasks:
                await asyncio.gather(*self.work._tasks.values())

        asyncio.run(until_done())
        return rows.workload(self.store, row.id)


def told(*, is_over: bool, staying: int = 0) -> protocol.WorkloadSuspended:
    return protocol.WorkloadSuspended("a1", "p", 1, is_over, staying, 0, 0)


@pytest.fixture
def server(tmp_path: Path, store: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> Server:
    del tmp_path
    return Server(store, monkeypatch)


def test_processes_are_stopped_only_after_their_memory_has_left(server: Server) -> None:
    number = running(server.store)
    server.answers = [told(is_over=False, staying=9), OSError("agent gone"), told(is_over=True)]
    row = server.run(suspension.begin(server.store, number, BY_USER, "by ann"))
    assert (row.state, row.reason) == (WorkState.SUSPENDED, "by ann")
    assert server.did == ["SuspendWorkload"] * 3 + ["SIGSTOP", "passed SIGSTOP"]


def test_what_cannot_leave_is_said(server: Server) -> None:
    number = running(server.store)
    server.answers = [told(is_over=True, staying=1 << 20)]
    row = server.run(suspension.begin(server.store, number, BY_USER, "by ann"))
    assert row.reason == "by ann; 1 MiB of it stay on the GPU"


def test_after_the_deadline_it_counts_as_suspended_and_is_not_stopped(server: Server) -> None:
    number = running(server.store)
    server.work.deadline_s = 0.0
    server.answers = [told(is_over=False, staying=1 << 20)]
    row = server.run(suspension.begin(server.store, number, BY_USER, "by ann"))
    assert row.state is WorkState.SUSPENDED
    assert "its processes are not stopped" in row.reason
    assert server.did == ["SuspendWorkload"]


def test_processes_go_on_before_they_get_turns(server: Server) -> None:
    number = running(server.store)
    suspended(server.store, number)
    row = suspension.resume(server.store, number, 1)
    assert row is not None
    server.answers = [protocol.WorkloadResumed("a1", "p", 1, was_suspended=True)]
    assert server.run(row).state is WorkState.RUNNING
    assert server.did == ["SIGCONT", "passed SIGCONT", "ResumeWorkload"]


def test_a_refused_one_is_stopped_again_and_waits(server: Server) -> None:
    number = running(server.store)
    suspended(server.store, number)
    row = suspension.resume(server.store, number, 1)
    assert row is not None
    server.answers = [ShareTaken("60 % are promised", "less"), told(is_over=True)]
    row = server.run(row)
    assert (row.state, row.intent) == (WorkState.SUSPENDED, RESUMES)
    assert row.reason.startswith("it waits: 60 % are promised")
    assert server.did == [
        "SIGCONT", "passed SIGCONT", "ResumeWorkload", "SuspendWorkload", "SIGSTOP",
        "passed SIGSTOP",
    ]  # fmt: skip
