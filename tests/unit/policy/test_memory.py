from __future__ import annotations

import json
from dataclasses import replace

import pytest

from moiety.policy import memory as memories
from moiety.policy.cycle import decide
from moiety.policy.memory import (
    Began,
    Divided,
    Ended,
    Passed,
    PolicyMemory,
    Stopped,
    Submitted,
    learn,
)
from moiety.policy.model.decisions import Placement
from moiety.policy.model.queues import Amounts, Queue, Window
from moiety.policy.model.snapshot import Snapshot
from tests.unit.policy.build import node, work

HOUR = 3600.0


def past(short: int = 20, *, name: str = "short", run_s: float = 60.0) -> PolicyMemory:
    """A memory of jobs of one user that each ran for the same time, one after the other."""
    memory = PolicyMemory()
    for at in range(short):
        job = work(f"{name}-{at}", user=name, submitted_s=at * HOUR)
        learn(memory, Submitted(job))
        learn(memory, Began(job.name, at * HOUR))
        learn(memory, Ended(job.name, run_s))
    return memory


def submitted(memory: PolicyMemory, name: str, user: str, at_s: float, count: float = 1) -> None:
    learn(memory, Submitted(work(name, count=count, user=user, submitted_s=at_s)))


def test_work_like_short_work_is_worth_more_than_unknown_work_and_large_work_less() -> None:
    memory, now_s = past(), 20 * HOUR
    submitted(memory, "known", "short", now_s)
    submitted(memory, "unknown", "stranger", now_s)
    submitted(memory, "large", "stranger", now_s, count=4)
    worth = memory.worth(now_s)
    assert list(worth) == ["known", "unknown", "large"]
    assert worth["known"] > 1.2 * worth["unknown"]
    assert worth["unknown"] == pytest.approx(4 * worth["large"])
    assert memory.left_s("known", now_s) < memory.left_s("unknown", now_s)


def test_worth_falls_while_work_runs_and_grows_while_it_waits() -> None:
    memory = PolicyMemory()
    submitted(memory, "w", "u", 0)
    fresh = memory.worth(0)["w"]
    assert memory.worth(24 * HOUR)["w"] == pytest.approx(2 * fresh)
    learn(memory, Began("w", 0))
    learn(memory, Passed(HOUR))
    old = memory.worth(HOUR)["w"]
    assert old < fresh
    learn(memory, Stopped("w", HOUR))
    assert memory.worth(HOUR)["w"] == pytest.approx(old, rel=0.5)
    learn(memory, Ended("w", HOUR))
    assert memory.worth(HOUR) == {}


def test_the_next_look_is_at_the_next_span_or_in_ten_minutes() -> None:
    memory = PolicyMemory()
    submitted(memory, "w", "u", 0)
    assert memory.look_s(0) == 600
    learn(memory, Began("w", 5))
    assert memory.look_s(0) == 65
    learn(memory, Passed(65))
    assert memory.look_s(65) == 95
    learn(memory, Passed(10 * HOUR))
    assert memory.look_s(10 * HOUR) == 10 * HOUR + 600
    learn(memory, Stopped("w", 10 * HOUR))
    assert memory.look_s(10 * HOUR) == 10 * HOUR + 600


def test_a_span_that_begins_a_moment_later_is_looked_at_once_and_then_again() -> None:
    memory, now_s = PolicyMemory(), 15138.003
    submitted(memory, "w", "u", 15000)
    learn(memory, Began("w", 15003.004))  # for 134.9989999999998 s, and a span begins at 135
    learn(memory, Passed(now_s))
    assert now_s < memory.look_s(now_s) < now_s + 0.002
    learn(memory, Passed(now_s + 0.002))
    assert memory.look_s(now_s + 0.002) > now_s + 1


def test_time_alone_matters_only_once_work_yields() -> None:
    memory = past()
    submitted(memory, "runs", "stranger", 20 * HOUR)
    learn(memory, Began("runs", 20 * HOUR))
    assert not memory.is_moved(20 * HOUR)
    submitted(memory, "waits", "short", 20 * HOUR)
    assert not memory.is_moved(20 * HOUR)
    learn(memory, Passed(30 * HOUR))
    assert memory.is_moved(30 * HOUR)


def test_it_is_plain_values_and_back() -> None:
    memory, now_s = past(), 20 * HOUR
    submitted(memory, "runs", "short", now_s)
    submitted(memory, "waits", "stranger", now_s)
    learn(memory, Began("runs", now_s, 30.0))
    again = PolicyMemory.load(json.loads(json.dumps(memory.dump())))
    for each in (memory, again):
        learn(each, Passed(now_s + HOUR))
    assert again.worth(now_s + HOUR) == pytest.approx(memory.worth(now_s + HOUR))
    assert again.look_s(now_s + HOUR) == memory.look_s(now_s + HOUR)
    learn(again, Ended("runs", HOUR))


def test_it_forgets_the_oldest_work_and_never_what_waits_or_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memories, "WORK_MAX", 10)
    memory = PolicyMemory()
    submitted(memory, "first", "u", 0)
    learn(memory, Began("first", 0))
    for at in range(100):
        name = f"w{at}"
        submitted(memory, name, "u", at)
        learn(memory, Began(name, at))
        learn(memory, Ended(name, 60.0 + at))
        assert len(memory.dump()["work"]) <= 10
    kept = [row[0] for row in memory.dump()["work"]]
    assert kept[0] == "first"
    assert kept[-1] == "w99"
    learn(memory, Passed(HOUR))
    assert set(memory.worth(HOUR)) == {"first"}
    learn(memory, Ended("first", HOUR))


QUEUES = (
    Queue("small", quota=Amounts(gpu_milli=1000), weight=1),
    Queue("large", quota=Amounts(gpu_milli=3000), weight=3),
)


def divided(now_s: float = 0.0) -> PolicyMemory:
    """The large queue has all 4 GPUs, and work of the small one waits, until `now_s`."""
    memory = PolicyMemory()
    learn(memory, Divided(4, QUEUES))
    learn(memory, Passed(0))
    learn(memory, Submitted(work("runs", "large", 4)))
    learn(memory, Began("runs", 0))
    learn(memory, Submitted(work("waits", "small", 1)))
    learn(memory, Passed(now_s))
    return memory


def test_a_queue_with_less_than_its_part_gains_what_others_lose_while_work_waits() -> None:
    memory = divided(HOUR)
    assert memory.credit == {"small": HOUR, "large": -HOUR}
    learn(memory, Began("waits", HOUR))
    learn(memory, Passed(8 * 24 * HOUR))
    assert memory.credit is not None
    assert 0 < memory.credit["small"] < HOUR
    assert PolicyMemory().credit is None


def test_credit_counts_by_the_quotas_of_the_time_of_day() -> None:
    early, late = Window(0, 12 * HOUR, Amounts(gpu_milli=4000)), Queue("late", weight=0)
    memory = PolicyMemory()
    learn(memory, Divided(4, (Queue("early", windows=(early,), weight=0), late)))
    learn(memory, Passed(0))
    learn(memory, Submitted(work("waits", "early", 4)))
    learn(memory, Passed(12 * HOUR))
    assert memory.credit is not None
    assert memory.credit["early"] == 48 * HOUR
    assert memory.look_s(12 * HOUR - 60) == 12 * HOUR
    assert memory.is_moved(12 * HOUR, 12 * HOUR - 60)
    assert not memory.is_moved(12 * HOUR + 60, 12 * HOUR)


def test_a_plan_says_when_other_quotas_begin_even_if_nothing_runs() -> None:
    night = Window(20 * HOUR, 24 * HOUR, Amounts(gpu_milli=4000))
    queue = Queue("a", windows=(night,))
    waits = replace(work("waits", count=4), is_preemptible=False)
    monday_s = 7 * 24 * HOUR
    first = Snapshot((node(),), (waits,), queues=(queue,), now_s=8 * HOUR, monday_s=monday_s)
    memory = PolicyMemory()
    learn(memory, Submitted(waits))
    for known in (None, memory):
        plan = decide(first, memory=known)
        assert not plan.actions
        assert plan.look_s == 20 * HOUR
        later = decide(first.at(20 * HOUR), memory=known)
        assert isinstance(later[0], Placement)
        assert later.look_s is None
    assert decide(replace(first, queues=(replace(queue, windows=()),))).look_s is None


def test_credit_outlives_a_dump_and_what_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = divided(HOUR)
    again = PolicyMemory.load(json.loads(json.dumps(memory.dump())))
    learn(again, Divided(4, QUEUES))
    monkeypatch.setattr(memories, "WORK_MAX", 2)
    for each in (memory, again):
        learn(each, Submitted(work("more", "small", 1)))
        learn(each, Passed(2 * HOUR))
        assert each.credit == pytest.approx({"small": 2 * HOUR, "large": -2 * HOUR}, rel=0.01)
