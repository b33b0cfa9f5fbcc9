"""The store and the machine as a snapshot, and a plan as orders."""

from __future__ import annotations

import msgspec
import pytest

from moiety.policy.cycle import decide
from moiety.policy.model.snapshot import Snapshot, Spot
from moiety.pool.engine.messages import CardView, MachineView, WaitReason
from moiety.pool.engine.planner import NO_MOVES
from moiety.pool.engine.snapshot import (
    nodes_of,
    orders_of,
    reasons_of,
    snapshot_of,
    whole_memory_mib,
    workload_of,
)
from moiety.pool.model.project_rows import ProjectRow
from moiety.pool.model.projects import FIRST_MONDAY_S, queues_of
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState

NOW_S = 1000.0


def machine(*cards: CardView, count: int = 2) -> MachineView:
    found = list(cards) or [CardView(index=i, model="A", memory_mib=1000) for i in range(count)]
    return MachineView(name="box", cpu_milli=8000, memory_mib=64000, cards=found)


def row(number: int, **values: object) -> WorkRow:
    plain = WorkRow(
        id=number, name="w", project="default", uid=0, user="ann", state=WorkState.PENDING,
        gpus=1, gpu_milli=1000, submitted_s=float(number),
    )  # fmt: skip
    return msgspec.structs.replace(plain, **values)


def running(number: int, *cards: int, **values: object) -> WorkRow:
    state = values.pop("state", WorkState.RUNNING)
    found = row(number, state=state, cards=list(cards), attempt=1, began_s=10.0, **values)
    return msgspec.structs.replace(found, gpus=len(cards))


def made(view: MachineView, *found: WorkRow, projects: tuple[ProjectRow, ...] = ()) -> Snapshot:
    models = sorted({card.model for card in view.cards})
    workloads = {each.id: workload_of(each, models, whole_memory_mib(view)) for each in found}
    queues = queues_of(projects or (ProjectRow(name="default"),))
    return snapshot_of(nodes_of(view), found, workloads, queues, NOW_S)


def test_what_waits_and_runs_is_in_the_snapshot() -> None:
    rows = [
        running(1, 1, gpu_milli=500),
        running(2, 0, state=WorkState.ENDING),
        row(3),
        row(4, state=WorkState.HELD),
        row(5, not_before_s=NOW_S + 1),
        row(6, not_before_s=NOW_S),
    ]
    snapshot = made(machine(), *rows)
    assert [each.name for each in snapshot.workloads] == ["1", "2", "3", "6"]
    assert [(each.task.workload, each.spot) for each in snapshot.running] == [
        ("1", Spot("box", (1,), 500)),
        ("2", Spot("box", (0,), 1000)),
    ]
    assert FIRST_MONDAY_S % (7 * 86400) == 4 * 86400, "1970 began on a Thursday"


def test_what_others_have_cannot_be_given_or_taken() -> None:
    view = machine(
        CardView(index=0, model="A", memory_mib=1000, outside_milli=600, outside_mib=100),
        CardView(index=1, model="A", memory_mib=1000, usable=False),
        CardView(index=2, model="A", memory_mib=1000, outside_mib=400),
    )
    rows = [row(1), row(2, gpu_milli=500), row(3, gpu_milli=400, gpu_memory_mib=200)]
    snapshot = made(view, *rows)
    plan = decide(snapshot, settings=NO_MOVES)
    answer = orders_of(plan, {each.id: each for each in rows}, nodes_of(view))
    assert not answer.ends
    assert {start.number: start.cards for start in answer.starts} == {2: [2], 3: [0]}


def test_a_machine_with_two_models_is_two_nodes() -> None:
    cards = [CardView(index=i, model="AB"[i % 2], memory_mib=1000 * (i % 2 + 1)) for i in range(4)]
    nodes = nodes_of(machine(*cards))
    assert [(node.model, node.cpu_milli, len(node.gpus)) for node in nodes.nodes] == [
        ("A", 4000, 2),
        ("B", 4000, 2),
    ]
    spot = nodes.spot([1, 3], 1000)
    assert (spot.node, spot.gpus) == ("box/1", (0, 1))
    assert nodes.indices(spot) == [1, 3]
    wanted = workload_of(row(1, gpu_model="b"), ["A", "B"])
    assert wanted.subgroups[0].shape.models == frozenset({"B"})


def test_a_machine_without_gpus_runs_what_needs_none() -> None:
    view = MachineView(name="box", cpu_milli=1000, memory_mib=1000, cards=[])
    rows = {1: row(1, gpus=0, gpu_milli=0, cpu_milli=800), 2: row(2)}
    answer = orders_of(decide(made(view, *rows.values())), rows, nodes_of(view))
    assert [(start.number, start.cards) for start in answer.starts] == [(1, [])]


def test_what_ends_on_gpus_that_others_have_by_now_has_nothing_of_them() -> None:
    """It was suspended, say, when it was cancelled."""
    ends = running(1, 0, state=WorkState.ENDING, intent="cancelled")
    rows = {1: ends, 2: running(2, 0), 3: row(3)}
    snapshot = made(machine(), *rows.values())
    has = {each.task.workload: each.spot.gpu_milli for each in snapshot.running}
    assert has == {"1": 0, "2": 1000}
    answer = orders_of(decide(snapshot), rows, nodes_of(machine()), arena_mib=1 << 20)
    assert [(start.number, start.cards) for start in answer.starts] == [(3, [1])]


def test_a_program_outside_and_the_pools_work_have_no_more_than_a_gpu() -> None:
    """A program that came later, say: the time of the GPU is promised already."""
    for milli in (50, 600, 1000):
        used = CardView(index=0, model="A", memory_mib=1000, outside_milli=milli)
        view = machine(used, CardView(index=1, model="A", memory_mib=1000))
        for runs in (running(1, 0), running(1, 0, gpu_milli=500)):
            snapshot = made(view, runs, row(3))
            taken = sum(each.spot.gpu_milli for each in snapshot.running)
            assert taken == min(runs.gpu_milli + milli, 1000)
            answer = orders_of(decide(snapshot), {1: runs, 3: row(3)}, nodes_of(view))
            assert [(start.number, start.cards) for start in answer.starts] == [(3, [1])]


def test_a_card_that_is_drained_under_running_work_stops_nothing_else() -> None:
    for card in (
        CardView(index=0, model="A", memory_mib=1000, usable=False),
        CardView(index=0, model="A", memory_mib=1000, usable=False, outside_milli=300),
    ):
        view = machine(card, CardView(index=1, model="A", memory_mib=1000))
        rows = {1: running(1, 0), 2: row(2)}
        answer = orders_of(decide(made(view, *rows.values())), rows, nodes_of(view))
        assert [(start.number, start.cards) for start in answer.starts] == [(2, [1])]


def test_a_start_waits_for_the_end_that_makes_its_room() -> None:
    projects = (ProjectRow(name="a", quota=1), ProjectRow(name="b", quota=1))
    rows = {
        1: running(1, 0, project="b"),
        2: running(2, 1, project="b", state=WorkState.RUNNING),
        3: row(3, project="a"),
    }
    plan = decide(made(machine(), *rows.values(), projects=projects))
    answer = orders_of(plan, rows, nodes_of(machine()))
    assert len(answer.ends) == 1
    assert answer.starts == [], "the GPU is not free yet"
    assert "project b has 2 of a fair share of 1" in answer.ends[0].reason
    ended = answer.ends[0].number
    rows[ended] = msgspec.structs.replace(rows[ended], state=WorkState.ENDING)
    plan = decide(made(machine(), *rows.values(), projects=projects))
    again = orders_of(plan, rows, nodes_of(machine()))
    assert (again.ends, again.starts) == ([], []), "it is told once"


def test_memory_alone_takes_as_large_a_part_of_the_time() -> None:
    rows = {1: row(1, gpu_milli=0, gpu_memory_mib=250)}
    answer = orders_of(decide(made(machine(), rows[1])), rows, nodes_of(machine()))
    assert [start.gpu_milli for start in answer.starts] == [250]


@pytest.mark.parametrize("count", [1, 8])
def test_the_queue_is_served_as_far_as_it_fits(count: int) -> None:
    rows = {number: row(number) for number in range(1, 21)}
    view = machine(count=count)
    answer = orders_of(decide(made(view, *rows.values())), rows, nodes_of(view))
    assert [start.number for start in answer.starts] == list(range(1, count + 1))
    assert sorted(card for start in answer.starts for card in start.cards) == list(range(count))
    assert all(start.attempt == 1 for start in answer.starts)


def test_reasons_are_the_engines_own() -> None:
    rows = {1: running(1, 0), 2: running(2, 1), 3: row(3), 4: row(4, gpus=3)}
    found = reasons_of(decide(made(machine(), *rows.values())))
    assert set(found) == {"3", "4"}
    assert found["3"].kind == "gpus-full"
    assert found["4"].is_final
    assert "project default has 2" in found["3"].text


def test_opportunistic_work_runs_on_what_is_left() -> None:
    rows = {1: running(1, 0), 2: row(2, opportunistic=True), 3: row(3, opportunistic=True)}
    answer = orders_of(decide(made(machine(), *rows.values())), rows, nodes_of(machine()))
    assert [(start.number, start.cards) for start in answer.starts] == [(2, [1])]


def test_an_idle_process_of_others_keeps_no_work_of_a_whole_gpu_away() -> None:
    small = CardView(index=0, model="A", memory_mib=1000, outside_mib=90)
    large = CardView(index=1, model="A", memory_mib=1000, outside_mib=110)
    busy = CardView(index=2, model="A", memory_mib=1000, outside_mib=10, outside_milli=50)
    view = machine(small, large, busy)
    rows = {n: row(n) for n in (1, 2)}
    answer = orders_of(decide(made(view, *rows.values())), rows, nodes_of(view))
    assert [(start.number, start.cards) for start in answer.starts] == [(1, [0])]
    rows[1] = running(1, 0)
    answer = orders_of(decide(made(view, *rows.values())), rows, nodes_of(view))
    assert answer.starts == [], "one has too much memory, the other works"
    wide = {3: row(3, gpus=2)}
    both = machine(small, CardView(index=1, model="A", memory_mib=1000))
    answer = orders_of(decide(made(both, *wide.values())), wide, nodes_of(both))
    assert [start.cards for start in answer.starts] == [[0, 1]]


def test_work_whose_memory_limit_finds_no_place_waits_with_that_reason() -> None:
    rows = {
        1: running(1, 0, gpu_milli=500, memory_limit_mib=1000),
        2: row(2, gpu_milli=500, gpu_memory_mib=100, memory_limit_mib=600),
    }
    view, beyond = machine(count=1), dict[int, WaitReason]()
    plan = decide(made(view, *rows.values()))
    answer = orders_of(plan, rows, nodes_of(view), None, 599, beyond)
    assert answer.starts == []
    assert beyond[2].kind == "memory-limits"
    assert "1 MiB too little" in beyond[2].text
    beyond.clear()
    answer = orders_of(plan, rows, nodes_of(view), None, 600, beyond)
    assert [start.number for start in answer.starts] == [2]
    assert not beyond
