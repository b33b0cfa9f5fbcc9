"""What a share promises is what its tenant receives of the time in which the GPU works."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter.schedule.parts import LEFT_OVER, parts
from moiety.arbiter.settings import Settings
from moiety.model.share import Priority, Share
from tests.support.backlog import GPU_BYTES, Backlog
from tests.support.divided_card import DividedCard
from tests.support.shares import promise, revoked
from tests.support.simulated_node import SimulatedNode, handle

FITS, FITS_NOT = 1 << 30, 60 << 30


# How parts follow from shares


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([Share(), Share()], [0.5, 0.5]),
        ([Share(gpu=0.3), Share(gpu=0.7)], [0.3, 0.7]),
        ([Share(gpu=0.2), Share(gpu=0.3)], [0.4, 0.6]),
        ([Share(gpu=0.3), Share(), Share()], [0.3, 0.35, 0.35]),
        ([Share(gpu_limit=0.2), Share()], [0.2, 0.8]),
        ([Share(gpu_limit=0.2), Share(gpu_limit=0.3), Share()], [0.2, 0.3, 0.5]),
        ([Share(gpu_limit=0.1), Share(gpu_limit=0.3)], [0.25, 0.75]),
        ([Share(gpu=0.1, gpu_limit=0.1), Share(gpu=0.2)], [0.1, 0.9]),
        ([Share(gpu_limit=0.5)], [1.0]),
    ],
)
def test_requests_are_floors_and_limits_are_caps(
    shares: list[Share], expected: list[float]
) -> None:
    assert parts(shares) == pytest.approx(expected)


def test_whoever_asks_nothing_is_left_a_little() -> None:
    found = parts([Share(gpu=0.6), Share(gpu=0.4), Share(), Share()])
    assert found[2] == found[3] == pytest.approx(LEFT_OVER / 2, rel=0.05)
    assert sum(found) == pytest.approx(1.0)


# What backlogged tenants receive


@pytest.mark.parametrize("bytes_each", [FITS, FITS_NOT], ids=["fits", "fits not"])
@pytest.mark.parametrize(
    "asked", [(0.3, 0.7), (0.1, 0.9), (0.2, 0.3, 0.5), (0.05, 0.05, 0.9), (0.25, 0.75)]
)
def test_received_shares_are_the_asked_ones(asked: tuple[float, ...], bytes_each: int) -> None:
    backlog = Backlog([Share(gpu=part) for part in asked], bytes_each=bytes_each)
    backlog.run(60)
    received = backlog.over(60 if bytes_each == FITS else 2400)
    assert received == pytest.approx(asked, abs=0.03)
    assert sum(received) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("bytes_each", [FITS, 20 << 30, FITS_NOT])
def test_who_asks_nothing_divides_what_is_left(bytes_each: int) -> None:
    backlog = Backlog([Share(gpu=0.4), Share(), Share()], bytes_each=bytes_each)
    backlog.run(60)
    received = backlog.over(60 if bytes_each == FITS else 1200)
    assert received == pytest.approx([0.4, 0.3, 0.3], abs=0.03)


@pytest.mark.parametrize("limit", [0.05, 0.1, 0.5, 0.8, 0.95])
def test_a_limit_holds_for_one_alone(limit: float) -> None:
    backlog = Backlog([Share(gpu_limit=limit)])
    backlog.run(5)
    assert backlog.over(30) == pytest.approx([limit], abs=0.03)
    assert 3 <= backlog.revokes / 35 <= 5  # windows of a quarter of a second


@pytest.mark.parametrize(
    "changed",
    [Share(gpu_limit=0.3, priority=Priority.LOW), Share(gpu_limit=0.29), Share(gpu_limit=0.15)],
)
def test_a_limit_holds_however_often_a_share_changes(changed: Share) -> None:
    backlog = Backlog([before := Share(gpu_limit=0.3)])
    received_s = 0.0
    for _ in range(500):
        backlog.tell(ev.ShareSet(1, changed))
        received_s += 0.02 * sum(backlog.over(0.02))
        backlog.tell(ev.ShareSet(1, before))
        received_s += 0.02 * sum(backlog.over(0.02))
    assert received_s / 20 <= 0.31


@pytest.mark.parametrize("limit", [0.1, 0.5])
@pytest.mark.parametrize("rest_s", [0.02, 0.1])
def test_a_limit_holds_for_one_process_after_another_of_a_workload(
    limit: float, rest_s: float
) -> None:
    backlog = Backlog([])
    received_s = 0.0
    for number in range(1, 200):
        backlog.run(rest_s)
        backlog.add(number, Share(gpu_limit=limit), workload="w")
        received_s += 0.25 * limit * sum(backlog.over(0.25 * limit))
        backlog.end(number)
    assert received_s / backlog.now_s <= limit * 1.03


def test_what_a_workload_owes_is_no_other_workloads_and_is_forgotten() -> None:
    share = Share(gpu_limit=0.1)
    backlog = Backlog([])
    backlog.add(1, share, workload="w")
    backlog.run(0.03)  # all that it may have at once
    backlog.end(1)
    for number, workload, rest_s, part in (
        (2, "other", 0.0, 1.0),
        (3, "w", 0.0, 0.0),
        (4, "w", 1.0, 1.0),
    ):
        backlog.run(rest_s)
        backlog.add(number, share, workload=workload)
        assert sum(backlog.over(0.01)) == pytest.approx(part, abs=0.2), number
        backlog.end(number)


@pytest.mark.parametrize("bytes_each", [FITS, FITS_NOT])
def test_a_limit_holds_beside_others_and_what_it_leaves_is_used(bytes_each: int) -> None:
    card = DividedCard([Share(gpu=0.3, gpu_limit=0.3), Share()], bytes_each=bytes_each)
    card.run(60)
    seconds = 60 if bytes_each == FITS else 2400
    assert card.part(1, seconds) <= 0.31
    assert card.of_all(seconds) == pytest.approx([0.3, 0.7], abs=0.03)


@pytest.mark.parametrize(("bytes_each", "seconds"), [(FITS, 100), (3 << 30, 40), (41 << 30, 2000)])
@pytest.mark.parametrize("share", [Share(), Share(gpu=1 / 64)])
def test_sixty_four_equals_receive_equal_parts(
    share: Share, bytes_each: int, seconds: float
) -> None:
    backlog = Backlog([share] * 64, bytes_each=bytes_each)
    received = backlog.over(seconds)  # several rounds
    jain = sum(received) ** 2 / (64 * sum(part**2 for part in received))
    assert jain >= 0.95


def test_nobody_of_a_class_starves() -> None:
    shares = [Share(gpu=0.99), Share(), Share(gpu_limit=0.5)]
    for bytes_each in (FITS, FITS_NOT):
        received = Backlog(shares, bytes_each=bytes_each).over(1000)
        assert all(part > 0.005 for part in received)


def test_handoffs_are_charged_to_whoever_causes_them() -> None:
    backlog = Backlog([Share(), Share()], bytes_each=FITS_NOT, link_bytes_per_s=5e9)
    backlog.run(1000)
    received = backlog.over(4000)
    assert received == pytest.approx([0.5, 0.5], abs=0.03)
    views = backlog.arbiter.tenants()
    assert all(view.handoffs_s > 0.05 * view.received_s for view in views)


def test_a_newcomer_starts_at_the_present() -> None:
    backlog = Backlog([Share(gpu=0.5)])
    backlog.run(3600)
    backlog.add(2, Share(gpu=0.5))
    assert backlog.over(2)[0] == pytest.approx(0.5, abs=0.06)


def test_who_slept_has_saved_up_nothing() -> None:
    backlog = Backlog([Share(gpu=0.4), Share(gpu=0.6)])
    backlog.run(10)
    backlog.sleep(1)
    backlog.run(600)
    assert backlog.over(10) == pytest.approx([0, 1], abs=0.01)
    backlog.wake(1)
    assert backlog.over(3) == pytest.approx([0.4, 0.6], abs=0.05)


def test_a_moment_of_silence_costs_nobody_its_part() -> None:
    backlog = Backlog([Share(gpu=0.1), Share(gpu=0.9)])
    backlog.run(10)
    before = backlog.received_s()
    for _ in range(50):
        backlog.sleep(2)
        backlog.run(0.003)
        backlog.wake(2)
        backlog.run(0.197)
    received = [b - a for a, b in zip(before, backlog.received_s(), strict=True)]
    assert received == pytest.approx([1, 9], abs=0.3)


@pytest.mark.parametrize("asked", [(0.3, 0.7), (0.1, 0.9), (0.2, 0.3, 0.5)])
def test_shares_of_what_all_receive_converge_within_a_few_rounds(
    asked: tuple[float, ...],
) -> None:
    card = DividedCard([Share(gpu=part) for part in asked], bytes_each=FITS_NOT)
    card.run(300)
    handoff_s = 2 * FITS_NOT / 50e9
    for _ in range(10):
        found = card.of_all(300 * handoff_s)  # ten rounds, or five
        assert found == pytest.approx(asked, abs=0.03)
    assert card.of_all(2000 * handoff_s) == pytest.approx(asked, abs=0.01)
    views = card.arbiter.tenants()
    lost = sum(v.handoffs_s for v in views) / sum(v.received_s for v in views)
    assert lost < 0.15


def test_small_and_large_programs_receive_the_same_time() -> None:
    backlog = Backlog([Share(), Share()], bytes_each=GPU_BYTES - (4 << 30))
    backlog.add(3, Share(), bytes_each=8 << 30)
    backlog.run(1000)
    assert backlog.over(4000) == pytest.approx([1 / 3] * 3, abs=0.03)


def test_one_that_cannot_run_does_not_disturb_how_others_divide(node: SimulatedNode) -> None:
    never = node.start({0: [60]})
    stays = node.start({0: [50]})
    node.tick(1.0)
    node.settle()
    stays.touch()
    stays.pin("cuIpcGetMemHandle")
    node.settle()
    tenants = [node.start({0: [20]}) for _ in range(2)]
    promise(node, tenants[0], Share(gpu=0.6))
    for _ in range(4000):
        for tenant in [never, *tenants]:
            tenant.touch()
        node.settle()
        node.tick(0.01)
    assert "do not fit" in node.view(never).reason
    received = [node.view(tenant).received_s for tenant in tenants]
    assert received[0] / received[1] == pytest.approx(0.6 / 0.2, rel=0.1)


# Who is interrupted, and who is not


def test_without_limits_nobody_is_interrupted_for_nobody() -> None:
    for shares in ([Share()] * 3, [Share(gpu=0.2)], [Share(priority=Priority.LOW), Share()]):
        backlog = Backlog(shares)
        backlog.run(1000)
        assert backlog.revokes == 0


def test_holders_that_fit_need_no_turns_for_equal_parts(node: SimulatedNode) -> None:
    first, second = node.start({0: [30]}), node.start({0: [30]})
    assert first.is_open
    assert second.is_open
    told = promise(node, second, Share(gpu=0.5))
    node.tick(10.0)
    assert revoked(told) == []
    assert first.is_open
    assert second.is_open


def test_those_who_ask_nothing_hold_together_beside_one_who_asks(node: SimulatedNode) -> None:
    asks = node.start({0: [10]})
    promise(node, asks, Share(gpu=0.5))
    others = [node.start({0: [10]}) for _ in range(3)]
    assert asks.is_open
    assert all(tenant.is_open for tenant in others)
    node.tick(0.5)
    node.settle()
    assert [t.is_open for t in [asks, *others]] == [True, False, False, False]


def test_tenants_on_other_gpus_are_left_alone(node: SimulatedNode) -> None:
    here, there = node.start({0: [10]}), node.start({1: [10]})
    promise(node, here, Share(gpu=0.5))
    promise(node, there, Share(gpu=0.5))
    node.tick(100.0)
    assert here.is_open
    assert there.is_open


def test_a_turn_begins_when_the_rival_has_drained(node: SimulatedNode) -> None:
    first, second = node.start({0: [60]}), node.start({0: [60]})
    promise(node, first, Share(gpu=0.5))
    node.settle()
    waiting, holding = (first, second) if second.is_open else (second, first)
    waiting.touch()
    node.settle()
    node.tick(0.2)
    assert (holding.is_open, waiting.is_open) == (False, False)
    node.settle()
    assert waiting.is_open


def test_what_was_moved_in_is_used_before_a_pause() -> None:
    backlog = Backlog([Share(gpu_limit=0.1), Share(gpu=0.9)], bytes_each=FITS_NOT)
    backlog.run(60)
    before = backlog.revokes
    backlog.run(600)
    assert backlog.revokes - before < 600 / 2  # and not four times a second


# Everything changes while it runs


def test_a_changed_share_is_received_from_then_on() -> None:
    backlog = Backlog([Share(gpu=0.3), Share(gpu=0.7)])
    backlog.run(60)
    backlog.tell(ev.ShareSet(1, Share(gpu=0.3, gpu_limit=0.3)))
    backlog.tell(ev.ShareSet(2, Share(gpu=0.1)))
    assert backlog.over(60) == pytest.approx([0.3, 0.7], abs=0.03)
    backlog.tell(ev.ShareSet(1, Share(gpu=0.6)))
    backlog.tell(ev.ShareSet(2, Share(gpu=0.2)))
    assert backlog.over(60) == pytest.approx([0.75, 0.25], abs=0.03)
    backlog.tell(ev.ShareSet(1, Share()))
    backlog.tell(ev.ShareSet(2, Share()))
    backlog.run(1)
    before = backlog.revokes
    backlog.run(60)
    assert backlog.revokes == before


def test_a_limit_of_memory_changes_what_may_still_be_allocated(node: SimulatedNode) -> None:
    tenant = node.start({0: [20]})
    promise(node, tenant, Share(memory_limit_bytes=30))
    tenant.allocate(0, [20])
    node.settle()
    assert "limit of 30 B" in tenant.refusals[0].text
    promise(node, tenant, Share())
    tenant.allocate(0, [20])
    node.settle()
    assert len(tenant.refusals) == 1


def test_settings_change_live() -> None:
    backlog = Backlog([Share(), Share()], bytes_each=GPU_BYTES - 1, link_bytes_per_s=1e15)
    backlog.run(60)
    before = backlog.revokes
    backlog.tell(ev.SettingsSet(Settings(arena_bytes=0, turn_min_s=1.0)))
    backlog.run(60)
    assert before > 500
    assert backlog.revokes - before == pytest.approx(60, abs=3)
    assert handle(backlog.arbiter, backlog.now_s, ev.Tick()) == []


def test_views_say_what_was_received_lately() -> None:
    backlog = Backlog([Share(gpu=0.2), Share(gpu=0.8, priority=Priority.LOW)], bytes_each=FITS)
    backlog.tell(ev.ShareSet(2, Share(gpu=0.8)))
    backlog.run(30)
    first, second = backlog.arbiter.tenants()
    assert first.received == pytest.approx(0.2, abs=0.06)
    assert second.received == pytest.approx(0.8, abs=0.06)
    assert first.share == Share(gpu=0.2)
