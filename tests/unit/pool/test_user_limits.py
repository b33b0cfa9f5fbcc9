"""What a user may have of the machine: the engine starts nothing that the agent would refuse."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from moiety.pool.engine.messages import CardView, CycleRequest, MachineView, UserView
from moiety.pool.engine.planner import PoolPlanner
from moiety.pool.engine.user_limits import UserBooks
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.store import changes
from tests.support.pool_store import reading_in, store_in, submission
from tests.unit.pool.test_snapshot import row, running

ANN, BOB = 1001, 1002


def machine(limit: UserView, count: int = 4) -> MachineView:
    cards = [CardView(index=i, model="A", memory_mib=1000) for i in range(count)]
    return MachineView(
        name="box", cpu_milli=8000, memory_mib=64000, cards=cards, limits={ANN: limit}
    )


def books(limit: UserView, *rows: WorkRow) -> UserBooks:
    return UserBooks(machine(limit), rows)


def mine(number: int, **values: object) -> WorkRow:
    return row(number, uid=ANN, **values)


@pytest.mark.parametrize(
    ("limit", "has", "asked", "text", "is_final"),
    [
        ({"workloads": 1}, [running(1, 0, uid=ANN)], {}, "has 1 workload with GPUs", False),
        ({"workloads": 0}, [], {}, "and may have 0", True),
        ({"workloads": 2, "outside": 2}, [], {}, "has 2 workloads with GPUs", False),
        ({"gpus": [7]}, [], {}, "may have no GPUs but 7", True),
        ({"gpus": [0, 1]}, [], {"gpus": 3}, "may have no GPUs but 0, 1", True),
        ({"gpu_milli": 500}, [], {}, "may have 50 % of each GPU's time", True),
        (
            {"gpu_milli": 500},
            [running(1, 0, 1, 2, gpu_milli=400, uid=ANN)],
            {"gpus": 2, "gpu_milli": 200},
            "beside its other work that leaves 1 GPU for this",
            False,
        ),
        ({"memory_mib": 300}, [], {"gpu_memory_mib": 400}, "may have 300 MiB of each GPU's", True),
        (
            {"memory_mib": 100, "memory_part": 0.5},
            [],
            {"memory_limit_mib": 501},
            "may have 100 MiB or 50 % of each GPU's memory",
            True,
        ),
    ],
)
def test_what_its_user_may_not_have_waits_and_says_why(
    limit: dict[str, object], has: list[WorkRow], asked: dict[str, object], text: str,
    is_final: bool,
) -> None:  # fmt: skip
    found = UserView(**limit, where={"gpu": "config.toml:3"})  # type: ignore[arg-type]
    why = books(found, *has).why_not(mine(9, **asked))
    assert why is not None
    assert (why.kind, why.is_final) == ("user-limit", is_final)
    assert text in why.text
    assert ("config.toml:3" in why.text) == ("of each GPU's time" in why.text)


@pytest.mark.parametrize(
    ("limit", "asked"),
    [
        ({"workloads": 1}, {"gpus": 0, "gpu_milli": 0}),
        ({"gpu_milli": 500}, {"gpu_milli": 500}),
        ({"gpu_milli": 500}, {"opportunistic": True}),
        ({"memory_part": 0.5}, {"gpu_memory_mib": 500}),
        ({"workloads": 0}, {"uid": BOB}),
    ],
)
def test_what_it_may_have_is_tried(limit: dict[str, object], asked: dict[str, object]) -> None:
    found = UserView(**limit)  # type: ignore[arg-type]
    assert books(found).why_not(msgspec.structs.replace(mine(9), **asked)) is None


@pytest.mark.parametrize("count", [0, 2])
def test_more_gpus_than_there_are_is_left_to_the_engine(count: int) -> None:
    limits = UserBooks(machine(UserView(gpu_milli=1000, workloads=9), count), [])
    assert limits.why_not(mine(9, gpus=3)) is None


def test_gpus_are_taken_once() -> None:
    found = books(UserView(gpu_milli=500, workloads=2))
    half = {"gpu_milli": 300}
    assert found.take(mine(1, **half), [0])
    assert found.take(mine(2, **half), [1])
    assert not found.take(mine(3, **half), [2]), "it has two"
    assert found.take(row(4, uid=BOB), [0])


def test_what_is_due_later_does_not_overtake() -> None:
    found = books(UserView(gpu_milli=500))
    half = {"gpu_milli": 300}
    assert found.take(mine(1, **half), [0])
    assert not found.take(mine(2, **half), [0])
    assert not found.take(mine(3, **half), [1])


def submit(store: sqlite3.Connection, uid: int, at_s: float, **values: object) -> int:
    return changes.submit(store, submission(**values), uid, f"user{uid}", at_s)


@pytest.fixture
def store(tmp_path: Path) -> sqlite3.Connection:
    return store_in(tmp_path)


@pytest.fixture
def planner(store: sqlite3.Connection, tmp_path: Path) -> PoolPlanner:
    del store  # it is there
    return PoolPlanner(reading_in(tmp_path))


def test_gpus_that_a_user_may_not_have_go_to_others_in_the_same_decision(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    mine_ = [submit(store, ANN, float(at)) for at in range(4)]
    theirs = [submit(store, BOB, 10.0 + at) for at in range(3)]
    view = machine(UserView(workloads=2))
    started = planner.cycle(CycleRequest(view, 20.0)).starts
    assert {each.number for each in started} == {*mine_[:2], *theirs[:2]}


def test_parts_of_one_user_are_spread_until_none_is_left(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    view = machine(UserView(gpu_milli=400, gpus=[1, 2, 3]))
    numbers = [submit(store, ANN, float(at), gpu=0.3) for at in range(4)]
    seen: dict[int, list[int]] = {}
    for at in range(6):
        for start in planner.cycle(CycleRequest(view, 10.0 + at)).starts:
            seen[start.number] = start.cards
            changes.begin_attempt(store, start.number, start.attempt, start.cards, 10.0 + at)
    assert sorted(seen) == numbers[:3]
    assert sorted(seen.values()) == [[1], [2], [3]]
    changes.end_attempt(store, numbers[1], 1, WorkState.DONE, "exited 0", 20.0)
    last = planner.cycle(CycleRequest(view, 21.0)).starts
    assert [(each.number, each.cards) for each in last] == [(numbers[3], seen[numbers[1]])]
