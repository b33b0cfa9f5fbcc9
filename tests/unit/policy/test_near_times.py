"""Sums of seconds are not exact: what is due at a moment happens at that moment."""

from __future__ import annotations

import pytest

from moiety.policy.cycle import decide
from moiety.policy.model.decisions import Eviction
from moiety.policy.model.queues import Amounts, Queue, Window
from moiety.policy.model.snapshot import Snapshot
from tests.unit.policy.build import B, evicted, node, placed, runs, work

HOUR_S = 3600.0
NIGHT = Window(HOUR_S, 2 * HOUR_S, Amounts(gpu_milli=4000))
DAY = Queue("a", quota=Amounts(gpu_milli=0), windows=(NIGHT,))
SUBMITTED_S = [10.0, 496.4]
"""After 496.4 s, the next border is 3599.9999999999995 s after midnight, as sums go."""


@pytest.mark.parametrize("submitted_s", SUBMITTED_S)
def test_a_quota_that_begins_to_hold_now_holds(submitted_s: float) -> None:
    job = work("n", is_preemptible=False, submitted_s=submitted_s)
    waits = decide(Snapshot((node(),), (job,), (), (DAY,), now_s=submitted_s))
    assert placed(waits) == {}
    assert waits.look_s == pytest.approx(HOUR_S)
    assert waits.look_s is not None
    at_night = Snapshot((node(),), (job,), (), (DAY,), now_s=waits.look_s)
    assert list(placed(decide(at_night))) == ["n/main/0"]


@pytest.mark.parametrize("since_s", [24.0, 24.1])
def test_work_ends_when_it_has_run_for_as_long_as_it_may(since_s: float) -> None:
    gang = work("gang", queue="b", tasks=2, least=1, max_run_s=1000.0)
    running = tuple(runs(gang, (0,), since_s=since_s))
    now_s = since_s + 1000.0
    decisions = decide(Snapshot((node(count=1),), (gang,), running, (B,), now_s=now_s))
    assert evicted(decisions) == ["gang/main/0"]
    assert all(each.is_final for each in decisions if isinstance(each, Eviction))
    early = decide(Snapshot((node(count=1),), (gang,), running, (B,), now_s=now_s - 1.0))
    assert evicted(early) == []
