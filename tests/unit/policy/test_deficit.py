"""What cannot be divided in space is divided in time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from moiety.policy.cycle import decide
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.queue.deficit import credit_after, parts_of
from moiety.policy.queue.queue_usage import TURN_S, QueueUsage
from moiety.sim.scenario import after
from tests.unit.policy.build import evicted, node, placed, refused, runs, work

HOUR_S = 3600.0
WEEK_S = 7 * 24 * HOUR_S
SMALL = Queue("small", quota=Amounts(gpu_milli=1000), weight=1)
LARGE = Queue("large", quota=Amounts(gpu_milli=3000), weight=3)
QUEUES = (SMALL, LARGE)
GANG = work("gang", "small", 4)
ENOUGH = {"small": 4 * TURN_S, "large": -4 * TURN_S}


def full(**more: object) -> Snapshot:
    """A node of 4 GPUs that the large queue has, and a gang of 4 in the queue of one."""
    jobs = tuple(work(f"l{at}", "large") for at in range(4))
    running = tuple(each for at, job in enumerate(jobs) for each in runs(job, (at,)))
    return Snapshot((node(),), (*jobs, GANG), running, QUEUES, **more)  # type: ignore[arg-type]


def test_parts_are_quotas_and_surplus_by_weight_scaled_down_to_what_there_is() -> None:
    assert parts_of(QueueUsage(QUEUES), 8) == {"small": 2.0, "large": 6.0}
    assert parts_of(QueueUsage(QUEUES), 2) == {"small": 0.5, "large": 1.5}
    tree = (Queue("d", quota=Amounts(gpu_milli=4000)), *(replace(q, parent="d") for q in QUEUES))
    assert parts_of(QueueUsage(tree), 4) == {"d": 4.0, "small": 1.0, "large": 3.0}
    assert parts_of(QueueUsage(()), 4) == {}


def test_whoever_has_less_than_its_part_while_somebody_waits_gains_what_others_lose() -> None:
    assert credit_after(full(), HOUR_S) == {"small": HOUR_S, "large": -HOUR_S}


def test_while_nobody_waits_credit_only_fades() -> None:
    quiet = replace(full(credit=ENOUGH), workloads=full().workloads[:-1])
    half = {name: amount / 2 for name, amount in ENOUGH.items()}
    assert credit_after(quiet, WEEK_S, WEEK_S) == pytest.approx(half)


def test_opportunists_neither_owe_nor_count_as_waiting() -> None:
    idle = work("idle", "large", 2, is_opportunistic=True)
    waits = work("waits", "large", 4, is_opportunistic=True)
    snapshot = Snapshot((node(),), (idle, waits), tuple(runs(idle, (0, 1))), QUEUES)
    assert credit_after(snapshot, HOUR_S) == {"small": 0, "large": 0}
    asked = replace(snapshot, workloads=(idle, GANG))
    assert credit_after(asked, HOUR_S) == {"small": HOUR_S, "large": 3 * HOUR_S}


def test_a_gang_beyond_its_fair_share_takes_no_more_than_is_above_quota() -> None:
    assert evicted(decide(full())) == []
    # Three GPUs of the four are the large queue's quota: on no credit could it lose them.
    assert evicted(decide(full(credit=ENOUGH))) == []


def spread(credit: dict[str, float]) -> Snapshot:
    """Two nodes of 4 GPUs; who has them has a quota of two, and 4 more ask for nothing."""
    queues = (SMALL, replace(LARGE, quota=Amounts(gpu_milli=2000)))
    jobs = tuple(work(f"l{at}", "large") for at in range(8))
    places = [(on, (at,)) for on in "mn" for at in range(4)]
    running = tuple(
        each
        for job, (on, place) in zip(jobs, places, strict=True)
        for each in runs(job, place, on=on)
    )
    nodes = (node("m"), node("n"))
    return Snapshot(nodes, (*jobs, GANG), running, queues, credit=credit)


def test_with_credit_for_a_turn_it_takes_from_who_is_in_debt() -> None:
    assert evicted(decide(spread({}))) == []
    assert len(evicted(decide(spread(ENOUGH)))) == 4
    found = decide(spread(ENOUGH))
    assert list(placed(found)) == ["gang/main/0"]


@pytest.mark.parametrize(
    "credit",
    [
        {"small": 4 * TURN_S - 1, "large": -4 * TURN_S},  # not enough for a turn
        {"small": 4 * TURN_S, "large": 0.0},  # nobody owes
    ],
)
def test_with_less_credit_or_without_a_debtor_it_waits(credit: dict[str, float]) -> None:
    decisions = decide(spread(credit))
    assert evicted(decisions) == []
    assert refused(decisions).keys() == {"gang"}


TURNS = (
    replace(SMALL, quota=Amounts(gpu_milli=0)),
    *(Queue(name, quota=Amounts(gpu_milli=1000)) for name in "ab"),
)
PAIR = work("pair", "small", 2)
SINGLES = tuple(work(f"{name}{at}", name) for name in "ab" for at in range(3))


def test_as_long_as_credit_lasts_a_turn_is_taken_by_quota_only() -> None:
    singles = {job.name: job for job in SINGLES}
    held = [
        *runs(PAIR, (0, 1)),
        *runs(singles["a0"], (2,)),
        *runs(singles["b0"], (3,)),
    ]
    snapshot = Snapshot((node(),), (PAIR, *SINGLES), tuple(held), TURNS)
    assert evicted(decide(snapshot)) == ["pair/main/0"]
    assert evicted(decide(replace(snapshot, credit={"small": 1.0}))) == []
    promised = tuple(replace(queue, quota=Amounts(gpu_milli=2000)) for queue in TURNS[1:])
    by_quota = replace(snapshot, queues=(TURNS[0], *promised), credit={"small": 1.0})
    assert evicted(decide(by_quota)) == ["pair/main/0"]


def test_credit_is_not_for_what_fits_a_fair_share_one_after_the_other() -> None:
    held = [each for job in SINGLES[:2] + SINGLES[3:5] for each in runs(job, (int(job.name[1]),))]
    nodes = (node("m", 2), node("n", 2))
    spots = [
        replace(each, spot=each.spot._replace(node="mn"[at // 2])) for at, each in enumerate(held)
    ]
    credit = {"small": 0.0, "a": 9 * TURN_S, "b": -9 * TURN_S}
    snapshot = Snapshot(nodes, SINGLES, tuple(spots), TURNS, credit=credit)
    assert evicted(decide(snapshot)) == []


def test_over_time_a_gang_too_large_for_its_queue_has_about_its_part() -> None:
    queue_of = {job.name: job.queue for job in (PAIR, *SINGLES)}
    snapshot = Snapshot((node(),), (PAIR, *SINGLES), (), TURNS)
    had: Counter[str] = Counter()
    turns, was_in = 0, False
    hours = 24 * 14
    for _ in range(hours):
        snapshot = after(snapshot, decide(snapshot))
        now: Counter[str] = Counter()
        for each in snapshot.running:
            now[queue_of[each.task.workload]] += len(each.spot.gpus)
        assert all(now[name] >= 1 for name in "ab")
        had.update(now)
        turns += now["small"] > 0 and not was_in
        was_in = now["small"] > 0
        snapshot = replace(snapshot, credit=credit_after(snapshot, HOUR_S))
    part = parts_of(QueueUsage(TURNS), 4)["small"]
    assert part == pytest.approx(2 / 3, abs=0.002)
    assert had["small"] == pytest.approx(part * hours, rel=0.2)
    assert 10 < turns < hours / 3
    assert had.total() >= 0.9 * 4 * hours
