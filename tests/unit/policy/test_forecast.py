"""The engine decides ahead of time: when waiting work begins."""

from __future__ import annotations

from dataclasses import replace

from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.explain.explanation import explain
from moiety.policy.explain.forecast import expected_start
from moiety.policy.memory import Began, Ended, Foreseen, PolicyMemory, Submitted, learn
from moiety.policy.model.snapshot import Snapshot
from tests.unit.policy.build import A, B, node, runs, work


def crowded() -> Snapshot:
    """Two run on a node of two GPUs, and two of two GPUs wait."""
    have = [work("one"), work("two"), work("first", count=2, submitted_s=1)]
    have.append(work("second", count=2, submitted_s=2))
    running = (*runs(have[0], (0,), since_s=0.0), *runs(have[1], (1,), since_s=0.0))
    return Snapshot((node(count=2),), tuple(have), running, (A, B), now_s=100.0)


TAKES = {"one": 400.0, "two": 700.0, "first": 1000.0, "second": 50.0}
KNOWN = CycleSettings(runtimes=lambda workload: TAKES[workload.name])


def remembers(snapshot: Snapshot) -> PolicyMemory:
    memory = PolicyMemory()
    begun = {each.task.workload: each.since_s for each in snapshot.running}
    for each in snapshot.workloads:
        learn(memory, Submitted(each))
        if each.name in begun:
            learn(memory, Began(each.name, begun[each.name]))
    return memory


def test_work_begins_when_those_before_it_have_ended() -> None:
    assert expected_start(crowded(), "first", settings=KNOWN).expected_s == 600  # two ends at 700
    assert expected_start(crowded(), "second", settings=KNOWN).expected_s == 1600


def test_asking_teaches_a_memory_nothing() -> None:
    snapshot = crowded()
    memory = remembers(snapshot)
    before, worth = memory.dump(), memory.worth(100.0)
    found = expected_start(snapshot, "first", None, KNOWN, memory)
    assert found.expected_s is not None
    assert found.expected_s <= 600  # by worth it may begin before those that run have ended
    assert (memory.dump(), memory.worth(100.0)) == (before, worth)


def test_room_that_is_made_for_it_counts() -> None:
    """Work of higher priority comes to its turn when the one below yields, not when that ends."""
    snapshot = crowded()
    urgent = replace(snapshot.workloads[2], priority=9, max_run_s=60.0)
    others = tuple(each for each in snapshot.workloads if each.name != "first")
    snapshot = replace(snapshot, workloads=(*others, urgent))
    found = expected_start(snapshot, "second", settings=KNOWN)
    assert found.expected_s is not None
    assert found.expected_s < 1600


def test_past_errors_correct_the_answer_and_its_words() -> None:
    snapshot = crowded()
    memory = remembers(snapshot)
    foreseen_s = expected_start(snapshot, "first", None, KNOWN, memory).foreseen_s
    assert foreseen_s is not None
    for at in range(40):
        memory.starts.told(f"past{at}", 0.0, foreseen_s)
        memory.starts.began(f"past{at}", 1262.0 + 20.0 * (at % 5))
    found = explain(snapshot, "first", settings=KNOWN, memory=memory)
    assert found.start is not None
    assert (found.start.earliest_s, found.start.latest_s) == (1260, 1380)
    assert "; it starts in 21 min to 23 min, most likely 2" in found.sentence


def test_a_memory_learns_from_what_was_said_and_what_came() -> None:
    memory = PolicyMemory()
    for at in range(20):
        learn(memory, Submitted(work(f"w{at}")))
        learn(memory, Foreseen(f"w{at}", 0.0, 600.0))
        assert not memory.starts.is_known
        learn(memory, Began(f"w{at}", 900.0))
        learn(memory, Ended(f"w{at}", 60.0))
    assert memory.starts.is_known
    again = PolicyMemory.load(memory.dump())
    assert again.starts.corrected(600.0, 1e4) == memory.starts.corrected(600.0, 1e4)


def test_work_that_nothing_lets_begin_has_no_start() -> None:
    snapshot = crowded()
    wide = work("wide", count=3)
    snapshot = replace(snapshot, workloads=(*snapshot.workloads, wide))
    settings = CycleSettings(runtimes=lambda _: 60.0)
    assert expected_start(snapshot, "wide", settings=settings).expected_s is None
