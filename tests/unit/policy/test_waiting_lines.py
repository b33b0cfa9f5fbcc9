"""Work that waits stands in lines of one kind: a cycle costs as much as there are kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from moiety.policy import cycle
from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.memory import Began, Ended, PolicyMemory, Stopped, Submitted, learn
from moiety.policy.model.decisions import Placement, PlacementRefusal
from moiety.policy.model.snapshot import Running, Snapshot
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.queue.queue_usage import Vector
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart, next_piece
from moiety.policy.state.gang_start import start_piece
from moiety.policy.state.queue_order import QueueOrder
from moiety.policy.state.waiting_lines import WaitingLines
from tests.unit.policy.build import A, B, node, work

KNOWN = WorkloadMix(())


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The workloads for which the engine looked for room."""
    found: list[str] = []

    def start(state: ClusterState, piece: GangPart, *more: Any) -> bool:
        found.append(piece.workload.name)
        return start_piece(state, piece, *more)

    monkeypatch.setattr(cycle, "start_piece", start)
    return found


def test_work_that_needs_the_same_room_is_tried_once_when_there_is_none(tried: list[str]) -> None:
    jobs = [work(f"w{at:03}", "ab"[at % 2], 1 + at % 3) for at in range(300)]
    plan = decide(Snapshot((node(count=1),), tuple(jobs), queues=(A, B)))
    assert [each.task.workload for each in plan if isinstance(each, Placement)] == ["w000"]
    assert len(tried) <= 4
    refusals = [each for each in plan if isinstance(each, PlacementRefusal)]
    assert [each.task.workload for each in refusals] == [job.name for job in jobs[1:]]
    texts = {(job.queue, job.subgroups[0].shape): set[str]() for job in jobs}
    for job, refusal in zip(jobs[1:], refusals, strict=True):
        texts[job.queue, job.subgroups[0].shape].add(refusal.text)
    assert [len(each) for each in texts.values()] == [1] * 6


def test_what_a_reservation_bars_is_tried_once_and_what_it_does_not_bar_is_tried(
    tried: list[str],
) -> None:
    large = work("large", count=4)
    jobs = [work(f"w{at:03}", count=1) for at in range(100)]
    short = [replace(work(f"x{at}", count=1), max_run_s=1.0) for at in range(2)]
    long = replace(work("long", count=2), priority=9)
    first = Snapshot((node(),), (long, large, *jobs, *short), now_s=5000.0)
    [task] = [each for each in decide(Snapshot((node(),), (long,))) if isinstance(each, Placement)]
    settings = CycleSettings(runtimes=lambda workload: 9000.0 if workload is long else None)
    running = Running(task.task, long.subgroups[0].shape, task.spot)
    plan = decide(replace(first, running=(running,)), None, settings)
    began = {each.task.workload for each in plan if isinstance(each, Placement)}
    assert began == {"x0", "x1"}
    assert len(tried) < 10


def test_lines_follow_the_state() -> None:
    jobs = [work(f"w{at}", "ab"[at % 2], tasks=2, least=1) for at in range(6)]
    state = ClusterState(Snapshot((node(),), tuple(jobs), queues=(A, B)), KNOWN)
    lines = WaitingLines.current(state)

    def is_right() -> bool:
        found = WaitingLines.current(state)
        assert found is lines
        anew = WaitingLines(state)
        return all_of(found) == all_of(anew) and found.lacking() == anew.lacking()

    assert is_right()
    mark = state.mark()
    for name in ("w0", "w1", "w0"):
        piece = next_piece(state, state.workloads[name])
        assert piece
        assert start_piece(state, piece)
        assert is_right()
    state.stop(state.tasks_of["w1"][0])
    assert is_right()
    state.back(mark)
    assert is_right()


def all_of(lines: WaitingLines) -> dict[tuple[str, object], tuple[Vector, bool, list[str]]]:
    """Each line by its queue and kind: what its work lacks, whether it is extra, and its names."""
    return {
        (queue, kind): (line.lacks, line.is_extra, [name for _, name, _ in line.entries])
        for queue, of in lines.of.items()
        for kind, line in of.items()
    }


def test_the_order_of_a_line_is_by_worth_and_then_by_age() -> None:
    jobs = [work(f"w{at}", submitted_s=float(at)) for at in range(5)]
    memory = PolicyMemory()
    for job in jobs[:3]:
        learn(memory, Submitted(job))
    state = ClusterState(Snapshot((node(),), tuple(jobs)), KNOWN)
    [line] = WaitingLines.current(state).of["a"].values()

    def order(worth: Mapping[str, float]) -> list[str]:
        found = [each.name for each in line.in_order(worth)]
        plain = {name: worth[name] for name in worth}
        assert found == [each.name for each in line.in_order(plain)]
        assert line.first(worth).name == found[0] == line.first(plain).name
        assert line.knows(worth) is line.knows(plain) is (len(worth) == 5)
        return found

    assert order({}) == ["w0", "w1", "w2", "w3", "w4"]
    assert order({"w4": 2.0, "w2": 1.0, "w3": 2.0}) == ["w3", "w4", "w2", "w0", "w1"]
    assert order(memory.worth(9.0)) == ["w0", "w1", "w2", "w3", "w4"]
    for job in jobs[3:]:
        learn(memory, Submitted(job))
    learn(memory, Stopped("w0", 600.0))
    assert order(memory.worth(9.0)) == ["w1", "w2", "w3", "w4", "w0"]
    learn(memory, Began("w1", 9.0))
    learn(memory, Ended("w1", 60.0))
    learn(memory, Submitted(jobs[1]))
    assert set(order(memory.worth(100.0))) == {"w0", "w1", "w2", "w3", "w4"}


def test_a_line_that_was_left_out_comes_back_when_others_have_ended() -> None:
    jobs = [work(name) for name in ("w0", "w1", "w2", "w3")]
    order = QueueOrder(ClusterState(Snapshot((node(),), (*jobs, work("x", count=2))), KNOWN))
    served = []

    def attempt(piece: GangPart) -> None:
        served.append(piece.workload.name)
        if piece.workload.name == "x":
            order.revive()

    for _ in order.serve(attempt, lambda _: False):
        pass
    assert served == ["w0", "x", "w1"]
