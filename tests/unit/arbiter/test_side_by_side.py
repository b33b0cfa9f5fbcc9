"""Tenants that fit share a card that divides its time equally: promises hold, no time is lost."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.schedule.parts import parts
from moiety.model.share import NOTHING_ASKED, Share
from tests.support.divided_card import DividedCard
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant

SECONDS = 4.0


def alone(card: DividedCard, seconds: float) -> float:
    """The part of the time in which one process holds alone."""
    found = 0
    steps = round(seconds / 0.005)
    for _ in range(steps):
        card.run(0.005)
        found += len(card.open) == 1
    return found / steps


@pytest.mark.parametrize(
    "asked", [(0.5, 0.5), (0.7, 0.3), (0.1, 0.9), (0.2, 0.3, 0.5), (0.05, 0.05, 0.9)]
)
def test_promises_hold_in_every_few_seconds(asked: tuple[float, ...]) -> None:
    card = DividedCard([Share(gpu=part) for part in asked])
    card.run(2)
    for _ in range(5):
        assert card.parts(SECONDS) == pytest.approx(asked, abs=0.03)
    assert card.unused_s < 0.01
    assert card.revokes / card.now_s < 8 * len(asked)


@pytest.mark.parametrize(
    ("asked", "most"),
    [((0.5, 0.5), 0.0), ((0.7, 0.3), 0.4), ((0.2, 0.3, 0.5), 0.2), ((0.1, 0.2, 0.7), 0.5)],
)
def test_one_is_alone_only_as_far_as_promises_need(asked: tuple[float, ...], most: float) -> None:
    card = DividedCard([Share(gpu=part) for part in asked])
    card.run(2)
    assert alone(card, 10) <= most + 0.06


def test_equal_promises_need_no_windows() -> None:
    card = DividedCard([Share(gpu=0.5), Share(gpu=0.5)])
    card.run(60)
    assert card.revokes == 0


@pytest.mark.parametrize("promised", [0.9, 0.6])
def test_a_busy_tenant_of_the_latency_class_leaves_another_its_promise(promised: float) -> None:
    card = DividedCard([Share(gpu=promised), Share(latency=True)])
    card.run(8)  # what the class may have at once is used up by then
    for _ in range(5):
        assert card.parts(SECONDS) == pytest.approx((promised, 1 - promised), abs=0.03)


def test_a_promise_survives_short_pauses_beside_a_busy_tenant_of_the_latency_class() -> None:
    """Both pause for 2 ms fifty times a second, and change classes each time."""
    card = DividedCard([Share(gpu=0.9), Share(latency=True)])
    card.run(8)
    before = dict(card.used_s)
    for _ in range(200):
        for number in (1, 2):
            card.nap(number, 0.001 + 0.0004 * (card.revokes % 5))
        card.run(0.02)
    used = [card.used_s[number] - before[number] for number in (1, 2)]
    assert used[0] / sum(used) > 0.85


@pytest.mark.parametrize("limit", [0.1, 0.3, 0.45])
def test_a_limit_holds_beside_another(limit: float) -> None:
    card = DividedCard([Share(gpu_limit=limit), Share()])
    card.run(2)
    assert card.parts(SECONDS) == pytest.approx([limit, 1 - limit], abs=0.03)
    assert card.unused_s < 0.01


def test_a_limit_above_an_equal_part_costs_nothing() -> None:
    card = DividedCard([Share(gpu_limit=0.8), Share()])
    card.run(10)
    assert card.revokes == 0


def test_a_change_is_kept_within_two_seconds() -> None:
    card = DividedCard([Share(gpu=0.3), Share(gpu=0.7)])
    card.run(20)
    card.tell(ev.ShareSet(1, Share(gpu=0.1)))
    card.tell(ev.ShareSet(2, Share(gpu=0.9)))
    card.run(1)
    assert card.parts(2) == pytest.approx([0.1, 0.9], abs=0.03)


def test_who_sits_out_comes_as_soon_as_the_others_are_silent() -> None:
    card = DividedCard([Share(gpu=0.9), Share(gpu=0.1)])
    card.run(2)
    for _ in range(20):
        card.nap(1, 0.1)
        card.run(0.2)
    assert card.unused_s < 20 * 0.008


def test_a_process_that_never_says_it_is_silent_harms_only_itself() -> None:
    card = DividedCard([Share(gpu=0.5), Share(gpu=0.2), Share(gpu=0.3)])
    card.never_idle.add(1)
    card.run(1)
    before = dict(card.used_s)
    for _ in range(100):
        card.nap(1, 0.05)
        card.run(0.1)
    got = [(card.used_s[n] - before[n]) / 10 for n in (1, 2, 3)]
    assert got[1] >= 0.2 - 0.03
    assert got[2] >= 0.3 - 0.03


def test_a_process_that_says_it_is_always_silent_gains_nothing() -> None:
    card = DividedCard([Share(gpu=0.7), Share(gpu=0.3)])
    card.always_idle.add(2)
    card.run(1)
    got = card.parts(4)
    assert got[0] >= 0.7 - 0.03


def test_promises_keep_turns_where_not_all_fit() -> None:
    card = DividedCard([Share(gpu=0.3), Share(gpu=0.7)], bytes_each=60 << 30)
    card.run(60)
    assert len(card.open) <= 1
    assert card.over(600) == pytest.approx([0.3, 0.7], abs=0.03)


@pytest.mark.parametrize("limits", [(0.3, 1.0), (0.1, 1.0), (0.2, 0.3, 1.0), (0.3, 0.3)])
@pytest.mark.parametrize(("size", "seconds"), [(60 << 30, 800.0), (41 << 20, 20.0)])
def test_a_limit_is_reached_where_not_all_fit(
    limits: tuple[float, ...], size: int, seconds: float
) -> None:
    asked = [Share(gpu_limit=limit) for limit in limits]
    card = DividedCard(asked, bytes_each=size, gpu_bytes=80 << 30 if size > 1 << 30 else 80 << 20)
    card.run(seconds / 4)
    for limit, part in zip(limits, card.parts(seconds), strict=True):
        assert limit == 1.0 or part == pytest.approx(limit, abs=0.02)


def test_hand_offs_of_a_limited_tenant_are_charged_to_it_beyond_its_limit() -> None:
    card = DividedCard([Share(gpu_limit=0.8), Share()], bytes_each=60 << 30, link_bytes_per_s=5e9)
    card.run(500)
    received = card.over(2000)
    assert received == pytest.approx([0.5, 0.5], abs=0.02)


def test_no_lag_of_turns_is_left_once_all_fit() -> None:
    card = DividedCard([Share(gpu=0.3), Share(gpu=0.7)], bytes_each=50 << 30)
    card.run(61)
    card.tell(ev.Free(1, 0, 40 << 30, 0))
    card.run(2)
    assert card.parts(2) == pytest.approx([0.3, 0.7], abs=0.03)


@st.composite
def promises(draw: st.DrawFn) -> list[Share]:
    found, left = [], 100
    for _ in range(draw(st.integers(2, 5))):
        asked = draw(st.integers(5, 60))
        gpu = asked / 100 if asked <= left and draw(st.booleans()) else None
        left -= asked if gpu else 0
        limit = draw(st.sampled_from([1.0, 1.0, 1.0, 0.6]))
        found.append(Share(gpu=gpu, gpu_limit=limit))
    return found


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(promises())
def test_promises_and_limits_hold_whatever_is_asked(shares: list[Share]) -> None:
    card = DividedCard(shares)
    card.run(3)
    lost_s = card.unused_s
    got = card.parts(6)
    for share, part in zip(shares, got, strict=True):
        assert (share.gpu or 0.0) - 0.03 <= part <= share.gpu_limit + 0.03
        assert part > 0.003
    if sum(share.gpu_limit for share in shares) > 1.01:
        assert got == pytest.approx(parts(shares), abs=0.03)
        assert card.unused_s - lost_s <= 0.05 * 6


# Nothing goes round in circles


def wakes(node: SimulatedNode, seconds: float) -> int:
    """How often the arbiter asks to be woken while so much time passes and all go on."""
    until_s, found = node.now_s + seconds, 0
    while (due_s := node.arbiter.deadline_s) is not None and due_s <= until_s:
        node.tick(due_s - node.now_s)
        found += 1
        for tenant in list(node.tenants.values()):
            tenant.touch()
        node.settle()
    node.tick(until_s - node.now_s)
    return found


def behind_elsewhere(
    node: SimulatedNode, *sizes: int, share: Share = NOTHING_ASKED
) -> list[SimulatedTenant]:
    """Tenants of this share that fit on GPU 0 beside one with a promise, which waits for GPU 1."""
    there = [node.start({0: [size]}) for size in sizes]
    for tenant in there:
        node.feed(ev.ShareSet(tenant.number, share))
    keeps = node.start({1: [80]})
    waits = node.start({0: [10], 1: [80]})
    keeps.touch()
    node.settle()
    node.feed(ev.ShareSet(keeps.number, Share(quantum_s=3600.0)))
    node.feed(ev.ShareSet(waits.number, Share(gpu=0.5)))
    for _ in range(1000):
        if keeps.is_open and node.view(waits).state == "queued":
            break
        node.tick(0.05)
        keeps.touch()
        waits.touch()
        node.settle()
    assert keeps.is_open
    assert node.view(waits).state == "queued"
    return there


def test_two_that_are_ahead_do_not_make_each_other_sit_out(node: SimulatedNode) -> None:
    there = behind_elsewhere(node, 10, 10)
    node.tick(1.0)
    node.feed(ev.Tick())
    assert all(node.view(tenant).lag_s < -0.05 for tenant in there)
    told = len(node.told)
    node.tick(1.0)
    node.feed(ev.Tick())
    assert all(tenant.is_open for tenant in there)
    assert not [each for each in node.told[told:] if isinstance(each, do.Revoke)]


def test_one_that_is_ahead_of_nobody_who_could_run_needs_no_rounds(node: SimulatedNode) -> None:
    (only,) = behind_elsewhere(node, 10, share=Share(gpu=0.1))
    node.tick(1.0)
    node.feed(ev.Tick())
    assert node.view(only).lag_s < -0.05
    assert wakes(node, 1.0) < 20
    assert only.is_open


def test_one_idle_timeout_holds_where_idle_tenants_keep_much(node: SimulatedNode) -> None:
    keeps, one, other = (node.start({0: [size]}) for size in (90, 10, 20))
    node.tick(10.0)
    node.settle()
    assert [node.view(t).state for t in (keeps, one, other)] == ["idle", "holding", "holding"]
    node.feed(ev.ShareSet(one.number, Share(gpu=0.9)))
    told = len(node.told)
    wakes(node, 2.0)
    set_s = [each for each in node.told[told:] if isinstance(each, do.SetIdleTimeout)]
    grants = [each for each in node.told[told:] if isinstance(each, do.Grant)]
    assert len(set_s) <= 3 * len(grants) + 2


def test_an_arbiter_that_only_listens_asks_for_no_rounds(node: SimulatedNode) -> None:
    one, _ = node.start({0: [10]}), node.start({0: [10]})
    node.feed(ev.ShareSet(one.number, Share(gpu=0.9)))
    node.restart()
    for tenant in node.tenants.values():
        node.resume(tenant)
        node.feed(ev.ShareSet(tenant.number, Share(gpu=0.1 * tenant.number)))
    assert node.arbiter.deadline_s is None


class AsksLater(DividedCard):
    """A card whose processes ask for their next lease some time after they have drained."""

    later_s = 0.01

    def _later(self, after_s: float, event: ev.Event) -> None:
        if isinstance(event, ev.LeaseRequest):
            after_s += self._drain_s + self.later_s
        super()._later(after_s, event)


@pytest.mark.parametrize("asked", [(0.3, 0.7), (0.1, 0.9)])
def test_who_has_drained_and_not_asked_again_yet_does_not_end_the_turns(
    asked: tuple[float, ...],
) -> None:
    shares = [Share(gpu=part) for part in asked]
    card = AsksLater(shares, bytes_each=50 << 30, link_bytes_per_s=8e12)
    card.run(5)
    assert card.of_all(60) == pytest.approx(asked, abs=0.01)
    assert card.arbiter._context.fair_share.crowded == {0}


@pytest.mark.parametrize("later_s", [0.001, 0.02])
@pytest.mark.parametrize("asked", [(0.3, 0.7), (0.1, 0.9), (0.2, 0.3, 0.5)])
def test_who_has_drained_and_not_asked_again_yet_sits_out_until_it_is_no_longer_ahead(
    asked: tuple[float, ...], later_s: float
) -> None:
    card = AsksLater([Share(gpu=part) for part in asked])
    card.later_s = later_s
    card.run(5)
    assert card.of_all(20) == pytest.approx(asked, abs=0.03)


def test_turns_end_once_all_have_fitted_for_a_while() -> None:
    card = DividedCard([Share(gpu=0.3), Share(gpu=0.7)], bytes_each=30 << 30)
    card.add(3, Share(), 30 << 30)
    card.run(5)
    fair_share = card.arbiter._context.fair_share
    assert fair_share.crowded == {0}
    card.end(3)
    card.run(0.4)
    assert fair_share.crowded == {0}
    card.run(0.2)
    assert fair_share.crowded == set()
    assert card.of_all(10)[:2] == pytest.approx((0.3, 0.7), abs=0.03)
