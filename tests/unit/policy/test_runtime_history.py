"""Run times that nobody declares: told from what ran before, and what becomes of that."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.estimate.remaining_time import Runtimes, remaining, takes_at_most, unknown
from moiety.policy.estimate.runtime_history import PastRun, RuntimeHistory, runtimes, still_running
from moiety.policy.explain.explanation import explain
from moiety.policy.model.decisions import Reason
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Running, Snapshot, Spot, Task
from moiety.policy.model.workloads import Workload
from tests.unit.policy.build import node, placed, refused, runs, work

HOUR = 3600.0
ALL = Queue("a", quota=Amounts())


def ran(name: str, run_s: float, gpus: int = 1, at: float = 0.0, user: str = "ada") -> PastRun:
    return PastRun(name, user, "a", gpus * 1000, at, run_s)


def sweep(run_s: float, name: str = "sweep", **more: object) -> list[PastRun]:
    return [
        ran(f"{name}-{at}", run_s * (0.9 + 0.02 * at), at=float(at), **more)  # type: ignore[arg-type]
        for at in range(12)
    ]


def ask(past: list[PastRun], workload: Workload, quantile: float = 0.5) -> float | None:
    found = RuntimeHistory(past).distribution(workload)
    return None if found is None else found.left_s(0.0, quantile)


def test_new_work_is_expected_to_run_as_its_like_did() -> None:
    new = work("sweep-99", user="ada")
    assert ask([], new) is None
    expected = ask(sweep(HOUR), new)
    assert expected is not None
    assert HOUR / 2 < expected < 2 * HOUR
    assert ask(sweep(HOUR), work("sweep-99", user="bob")) is None


def test_the_name_says_more_than_the_size_and_the_size_more_than_the_name_alone() -> None:
    past = [*sweep(HOUR), *sweep(30 * HOUR, "train"), *sweep(100.0, "eval", gpus=4)]
    short, long = ask(past, work("sweep-99", user="ada")), ask(past, work("train-99", user="ada"))
    assert short is not None
    assert long is not None
    assert long > 5 * short
    other = ask(past, work("other", user="ada"))  # of one GPU too
    assert other is not None
    assert short < other
    wide = ask(past, work("sweep-99", count=2, user="ada"))  # never so wide
    assert wide == pytest.approx(short, rel=0.5)
    assert ask(past, work("other", count=2, user="ada")) is None


def test_the_order_in_which_the_past_is_told_does_not_matter() -> None:
    past = [*sweep(HOUR), *sweep(9 * HOUR)]
    mixed = Random(3).sample(past, len(past))
    assert ask(past, work("sweep-99", user="ada")) == ask(mixed, work("sweep-99", user="ada"))


def test_what_still_runs_makes_its_like_longer() -> None:
    new = work("sweep-99", user="ada")
    have = [work(f"sweep-{at}", user="ada", submitted_s=100.0 + at) for at in range(4)]
    running = [r for at, each in enumerate(have) for r in runs(each, (at,), since_s=200.0)]
    snapshot = Snapshot((node(),), tuple(have), tuple(running), (ALL,), now_s=200.0 + 5 * HOUR)
    now = still_running(snapshot)
    assert [(each.name, each.run_s, each.is_over) for each in now] == [
        (f"sweep-{at}", 5 * HOUR, False) for at in range(4)
    ]
    before, after = ask(sweep(100.0), new), ask([*sweep(100.0), *now], new)
    assert before is not None
    assert after is not None
    assert after > 2 * before


def test_what_is_left_has_quartiles_and_ends_at_the_maximum() -> None:
    workload = work("sweep-99", user="ada")
    past = [ran(f"sweep-{at}", HOUR * (1 + at % 4), at=float(at)) for at in range(40)]
    expects = runtimes(RuntimeHistory(past), unknown)
    running = Running(Task("sweep-99", "main", 0), workload.subgroups[0].shape, Spot("n"), 0.0)
    left = remaining(workload, running, HOUR, expects)
    assert 0 < left.least_s < left.expected_s < left.most_s < 5 * HOUR
    later = remaining(workload, running, 3 * HOUR, expects)
    assert later.expected_s < 3 * HOUR
    bound = replace(workload, max_run_s=HOUR + 60)
    assert remaining(bound, running, HOUR, expects).most_s <= 60
    takes = takes_at_most(workload, expects)
    assert takes is not None
    assert left.expected_s < takes
    assert takes_at_most(bound, expects) == HOUR + 60


def test_what_is_declared_goes_before_what_the_past_tells() -> None:
    expects = runtimes(RuntimeHistory(sweep(HOUR)), lambda job: {"sweep-99": 7.0}.get(job.name))
    assert expects(work("sweep-99", user="ada")) == 7.0


def waiting_gang(expects: Runtimes) -> tuple[Snapshot, CycleSettings]:
    """Half of the GPUs are in use; a gang has waited long for all, and a sweep comes."""
    have = work("train-7", count=2, user="ada")
    gang = work("gang", count=2, tasks=2)
    late = work("sweep-99", count=1, submitted_s=900.0, user="ada")
    running = tuple(runs(have, (0, 1), on="x", since_s=900.0))
    nodes = (node("x", 2), node("y", 2))
    snapshot = Snapshot(nodes, (have, gang, late), running, (ALL,), now_s=1000.0)
    return snapshot, CycleSettings(runtimes=expects)


def test_room_is_kept_by_the_past_and_who_ended_early_before_runs_there_meanwhile() -> None:
    long = sweep(10 * HOUR, "train", gpus=2)
    snapshot, settings = waiting_gang(runtimes(RuntimeHistory([*long, *sweep(600.0)]), unknown))
    assert list(placed(decide(snapshot, settings=settings))) == ["sweep-99/main/0"]
    snapshot, settings = waiting_gang(runtimes(RuntimeHistory([*long, *sweep(40 * HOUR)]), unknown))
    decisions = decide(snapshot, settings=settings)
    assert placed(decisions) == {}
    assert refused(decisions)["sweep-99"].reason is Reason.RESERVED
    expected_s = refused(decisions)["sweep-99"].numbers["expected_s"]
    assert 5 * HOUR < expected_s < 20 * HOUR


def test_the_expected_start_follows_the_past_with_its_uncertainty() -> None:
    long = sweep(10 * HOUR, "train", gpus=2)
    snapshot, settings = waiting_gang(runtimes(RuntimeHistory(long), unknown))
    found = explain(snapshot, "gang", settings=settings)
    assert found.start is not None
    assert found.start.earliest_s is not None
    assert found.start.expected_s is not None
    assert found.start.latest_s is not None
    assert 5 * HOUR < found.start.earliest_s < found.start.expected_s < found.start.latest_s
    guess = explain(snapshot, "gang")  # as long again as it has run: 100 s
    assert guess.start is not None
    assert guess.start.expected_s == 100
