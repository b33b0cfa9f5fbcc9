"""What was promised comes before classes: a class goes first within what nobody was promised."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from moiety.arbiter.schedule.class_budget import WINDOW_S, Budget
from moiety.arbiter.schedule.explain import why_behind
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import State
from moiety.model.share import Priority, Share
from tests.support.backlog import Backlog
from tests.support.shares import promise
from tests.support.simulated_node import SimulatedNode

LINK_BYTES_PER_S = 400e9
POINTS = 0.03
LATENCY, HIGH, LOW = (
    Share(latency=True),
    Share(priority=Priority.HIGH),
    Share(priority=Priority.LOW),
)
CLASSES: list[dict[str, Any]] = [
    {},
    {"latency": True},
    {"priority": Priority.HIGH},
    {"priority": Priority.LOW},
]
Tenants = list[tuple[Share, int]]


def begin(tenants: Tenants) -> Backlog:
    backlog = Backlog([], link_bytes_per_s=LINK_BYTES_PER_S)
    for number, (share, size) in enumerate(tenants, start=1):
        backlog.add(number, share, size)
    return backlog


@st.composite
def mixtures(draw: st.DrawFn) -> Tenants:
    """Two to five programs of any class; what is promised is at most the whole GPU."""
    found: Tenants = []
    left = 100
    for _ in range(draw(st.integers(2, 5))):
        asked = draw(st.integers(5, 90))
        gpu = asked / 100 if asked <= left and draw(st.booleans()) else None
        left -= asked if gpu else 0
        size = draw(st.sampled_from([1 << 30, 10 << 30, 45 << 30]))
        found.append((Share(gpu=gpu, **draw(st.sampled_from(CLASSES))), size))
    return found


SMALL = 1 << 30


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mixtures())
@example([(Share(gpu=0.9), SMALL), (LATENCY, SMALL)])
@example([(Share(gpu=0.9), SMALL), (HIGH, SMALL)])
@example([(Share(gpu=0.9, priority=Priority.LOW), SMALL), (Share(), SMALL)])
@example([(Share(gpu=0.5), 60 << 30), (LATENCY, 60 << 30), (Share(), 60 << 30)])
@example([(Share(gpu=0.3), SMALL), (Share(gpu=0.6, priority=Priority.LOW), SMALL),
          (LATENCY, SMALL), (Share(), SMALL)])  # fmt: skip
def test_every_promise_is_kept_whichever_classes_others_have(tenants: Tenants) -> None:
    backlog = begin(tenants)
    backlog.run(20)
    received = backlog.over(120)
    for (share, _), part in zip(tenants, received, strict=True):
        assert part >= (share.gpu or 0.0) - POINTS


@pytest.mark.parametrize("share", [LATENCY, HIGH], ids=["latency", "high"])
def test_a_class_has_all_that_nobody_was_promised(share: Share) -> None:
    backlog = begin([(Share(gpu=0.6), SMALL), (share, SMALL), (Share(), SMALL)])
    backlog.run(20)
    received = backlog.over(150)
    assert received[0] == pytest.approx(0.6, abs=POINTS)
    alone = received[1] if share.latency else received[1] + received[2]  # it joins what it fits
    assert alone == pytest.approx(0.4, abs=POINTS)


def test_without_promises_a_class_goes_first_as_ever() -> None:
    backlog = begin([(Share(), SMALL), (LATENCY, SMALL)])
    assert backlog.over(60)[1] == pytest.approx(1.0, abs=0.01)


def test_what_a_class_itself_was_promised_counts_as_its_own() -> None:
    backlog = begin([(Share(gpu=0.6), SMALL), (Share(gpu=0.4, latency=True), SMALL)])
    backlog.run(20)
    assert backlog.over(150) == pytest.approx([0.6, 0.4], abs=POINTS)


def test_a_light_server_interrupts_at_once_beside_a_large_promise(node: SimulatedNode) -> None:
    training = node.start({0: [60]})
    promise(node, training, Share(gpu=0.9))
    server = node.start({0: [30]})
    promise(node, server, LATENCY)
    for _ in range(100):  # requests of 20 ms: 2 % of the time
        training.touch()
        node.settle()
        server.fall_idle()
        node.settle()
        node.tick(0.98)
        assert training.is_open
        server.touch()
        node.settle()
        assert (training.is_open, server.is_open) == (False, True)
        node.tick(0.02)


def test_a_server_waits_once_it_had_what_nobody_was_promised(node: SimulatedNode) -> None:
    training = node.start({0: [60]})
    promise(node, training, Share(gpu=0.9))
    server = node.start({0: [30]})
    promise(node, server, LATENCY)
    training.touch()
    node.settle()
    node.tick(2.0)  # of ten seconds one was free
    node.settle()
    assert training.is_open
    server.touch()
    node.settle()
    assert not server.is_open
    assert "goes first" not in node.view(server).reason
    node.tick(60.0)
    node.settle()
    server.touch()
    node.settle()
    assert server.is_open


def test_a_promise_nobody_claims_is_not_kept_free(node: SimulatedNode) -> None:
    training = node.start({0: [60]})
    promise(node, training, Share(gpu=0.9))
    training.fall_idle()
    node.settle()
    other = node.start({0: [30]})
    server = node.start({0: [30]})
    promise(node, server, LATENCY)
    other.touch()
    node.settle()
    for _ in range(20):
        node.tick(1.0)
        node.settle()
        assert server.is_open
        assert not other.is_open


def test_who_waits_for_a_promise_is_told_so() -> None:
    training, other = Tenant(1, share=Share(gpu=0.9), state=State.HOLDING), Tenant(2)
    training.usage.rank = LATENCY.rank
    reason = why_behind([training], other)
    assert reason == "tenant 1 holds the GPU and goes first (90 % of the GPU are promised to it)"


def test_a_budget_says_when_it_is_used_up_and_when_it_counts_again() -> None:
    budget = Budget(left_s=1.0, free=0.1, used=1.0)
    after_s = budget.turns_after_s() or 0.0
    assert after_s == pytest.approx(1 / 0.9)
    budget.advance(after_s, lambda: 4.0)
    was_spent = budget.is_spent
    budget.used = 0.0
    after_s = budget.turns_after_s() or 0.0
    assert after_s == pytest.approx(0.25 * 0.9 * WINDOW_S)
    budget.advance(after_s, lambda: 4.0)
    assert (was_spent, budget.is_spent) == (True, False)
    budget.advance(1000.0, lambda: 4.0)
    assert budget.left_s == pytest.approx(0.1 * 0.9 * WINDOW_S)


def test_what_is_owed_has_an_end() -> None:
    budget = Budget(left_s=0.0, free=0.1, used=1.0)
    for _ in range(100):
        budget.advance(1.0, lambda: 4.0)
    assert -budget.left_s == pytest.approx(4.9)
    budget.is_wanted = False  # what was owed before is not forgotten at once
    budget.advance(1.0, lambda: 4.0)
    assert -budget.left_s == pytest.approx(4.9)


def test_what_no_promise_wants_is_not_charged() -> None:
    budget = Budget(left_s=0.5, free=0.1, used=1.0, is_wanted=False)
    budget.advance(100.0, lambda: 4.0)
    assert (budget.left_s, budget.is_spent) == (0.5, False)
    budget.used = 0.0
    budget.advance(1.0, lambda: 4.0)
    assert budget.left_s == pytest.approx(0.6)


def test_a_server_pays_for_no_time_that_the_promise_did_not_want(node: SimulatedNode) -> None:
    training = node.start({0: [60]})
    promise(node, training, Share(gpu=0.6))
    server = node.start({0: [30]})
    promise(node, server, Share(gpu=0.3, latency=True))
    for _ in range(2000):  # each works for a moment in every 5.4 ms
        server.touch()
        node.settle()
        assert (training.is_open, server.is_open) == (False, True)
        node.tick(0.0028)  # it is silent, and keeps the GPU for as long as it is alone
        training.touch()
        node.settle()
        node.tick(0.001)
        server.fall_idle()
        node.settle()
        assert (training.is_open, server.is_open) == (True, False)
        training.fall_idle()
        node.settle()
        node.tick(0.0016)  # 60 % of the last 2.6 ms


def test_a_silence_that_a_program_only_claims_costs_its_class_as_any_time(
    node: SimulatedNode,
) -> None:
    """It says at once that it is silent, and asks again at once: it works all the time."""
    training = node.start({0: [60]})
    promise(node, training, Share(gpu=0.9))
    server = node.start({0: [30]})
    promise(node, server, LATENCY)
    had_s = 0.0
    for _ in range(3000):
        server.touch()
        node.settle()
        training.touch()
        node.settle()
        node.tick(0.001)
        had_s += 0.001 * server.is_open
        server.fall_idle()
        node.settle()
    assert had_s < 1.5, "of 3 s; it may go first for a tenth of ten seconds"


def test_all_is_promised_and_a_class_gets_the_rest_of_starved_tenants() -> None:
    backlog = begin([(Share(gpu=0.5), SMALL), (Share(gpu=0.5), SMALL), (LATENCY, SMALL)])
    backlog.run(20)
    received = backlog.over(150)
    assert received[:2] == pytest.approx([0.5, 0.5], abs=POINTS)
    assert 0.005 < received[2] < 0.03
