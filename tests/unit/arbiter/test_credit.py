"""What may be allocated without asking: who gets it, what it counts as, and how it comes back."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.model.share import Share
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant

ALLOWED = 20
"""of a GPU with 200 bytes"""


@pytest.fixture
def node() -> SimulatedNode:
    """Two GPUs with 200 bytes for data and 20 for contexts each."""
    gpus = [GpuSpec(gpu, total_bytes=220, capacity_bytes=200) for gpu in range(2)]
    settings = Settings(
        arena_bytes=1000, allowance_bytes=ALLOWED, allowance_part=8, allowance_step=1
    )
    return SimulatedNode(gpus, settings)


def churning(node: SimulatedNode, *sizes: int) -> SimulatedTenant:
    """A process that asked for memory twice in a row."""
    tenant = node.start({0: [sizes[0]]})
    for size in sizes[1:]:
        tenant.allocate(0, [size])
        node.settle()
    tenant.touch()
    return tenant


def recalls(node: SimulatedNode) -> list[int]:
    return [told.tenant for told in node.told if isinstance(told, do.CreditRevoke)]


def revokes(node: SimulatedNode) -> list[int]:
    return [told.tenant for told in node.told if isinstance(told, do.Revoke)]


def test_who_asks_once_gets_none(node: SimulatedNode) -> None:
    tenant = churning(node, 10)
    node.tick(1.0)
    tenant.allocate(0, [10])
    node.settle()
    assert not tenant.allowed_most


def test_who_asks_again_at_once_may_then_allocate_without_asking(node: SimulatedNode) -> None:
    tenant = churning(node, 10, 10)
    assert tenant.allowed == {0: ALLOWED}
    block = tenant.allocate(0, [15])
    assert block.admitted
    node.settle()
    on = node.view(tenant).gpus[0]
    assert (on.allocated_bytes, on.resident_bytes, on.allowed_bytes) == (35, 35, 5)
    tenant.allocate(0, [10])
    node.settle()
    assert tenant.allowed == {0: ALLOWED}, "it asked, and may have as much again"


def test_people_see_what_is_used_only(node: SimulatedNode) -> None:
    tenant = churning(node, 10, 10)
    on, gpu = node.view(tenant).gpus[0], node.arbiter.gpus()[0]
    assert (on.allocated_bytes, on.resident_bytes) == (20, 20)
    assert (gpu.allocated_bytes, gpu.resident_bytes, gpu.free_bytes) == (20, 20, 180)
    assert node.arbiter.resident_bytes(tenant.number, 0) == 20


def test_what_is_freed_is_allowed_again_and_known_to_be_spare(node: SimulatedNode) -> None:
    tenant = churning(node, 10, 10)
    block = tenant.allocate(0, [8, 8])
    tenant.touch()
    tenant.free(block)
    node.settle()
    on = node.view(tenant).gpus[0]
    assert (on.allocated_bytes, on.allowed_bytes, on.spare_bytes) == (20, ALLOWED, 16)
    assert node.arbiter.spare_bytes(tenant.number, 0) == 16
    again = tenant.allocate(0, [8, 8])
    assert again.resident == [True, True], "with the memory that was spare"
    node.settle()
    assert node.view(tenant).gpus[0].spare_bytes == 0


def test_no_more_is_kept_than_was_allowed(node: SimulatedNode) -> None:
    tenant = churning(node, 10, 10)
    first = tenant.blocks[0]
    tenant.free(first)
    node.settle()
    on = node.view(tenant).gpus[0]
    assert (on.allocated_bytes, on.allowed_bytes, on.spare_bytes) == (10, ALLOWED, 0)


def test_it_comes_back_before_somebody_is_refused_or_has_to_wait(node: SimulatedNode) -> None:
    other = node.start({0: [10]})
    tenant = churning(node, 10, 10)
    node.told.clear()
    block = other.allocate(0, [170])
    while other.sent:
        node.hear(other)
    assert recalls(node) == [tenant.number]
    assert node.view(other).gpus[0].allocated_bytes == 10, "it is not decided yet"
    node.settle()
    assert block.admitted
    assert not revokes(node)
    assert not tenant.allowed_most
    assert node.arbiter.gpus()[0].free_bytes == 0


def test_what_fits_beside_it_does_not_wait(node: SimulatedNode) -> None:
    other = node.start({0: [10]})
    churning(node, 10, 10)
    node.told.clear()
    block = other.allocate(0, [50])
    node.settle()
    assert block.admitted
    assert not recalls(node)


def test_a_newcomer_has_it_come_back(node: SimulatedNode) -> None:
    tenant = churning(node, 10, 10)
    newcomer = node.join()
    newcomer.attach(0, 5, 200)
    node.settle()
    assert recalls(node) == [tenant.number]
    assert 0 in newcomer.contexts


def test_none_is_given_for_a_moment_after_that(node: SimulatedNode) -> None:
    tenant = churning(node, 10, 10)
    node.join().attach(0, 5, 200)
    node.settle()
    for _ in range(3):
        tenant.allocate(0, [5])
        node.settle()
    assert not tenant.allowed_most
    node.tick(1.5)
    for _ in range(2):
        tenant.allocate(0, [5])
        node.settle()
    assert tenant.allowed_most


def test_who_does_not_give_it_back_is_not_waited_for_long(node: SimulatedNode) -> None:
    other = node.start({0: [10]})
    tenant = churning(node, 10, 10)
    tenant.hung = True
    block = other.allocate(0, [170])
    node.settle()
    assert not block.admitted
    node.tick(2)
    node.settle()
    assert not block.admitted, "there is no room as long as it has what it was allowed"
    assert node.view(other).asks
    tenant.hung = False
    node.settle()
    assert block.admitted


def test_credit_that_is_late_once_makes_no_further_request_wait(node: SimulatedNode) -> None:
    other = node.start({0: [1]})
    tenant = churning(node, 60, 60)
    assert tenant.allowed == {0: ALLOWED}
    credit = node.arbiter._context.credit
    tenant.hung = True
    other.allocate(0, [70])
    node.settle()
    assert credit._held, "until it is returned, or is late"
    node.tick(node.settings.allowance_wait_s + 0.1)
    node.settle()
    assert not credit._held
    other.allocate(0, [30])
    node.settle()
    assert not credit._held
    tenant.hung = False
    node.settle()
    node.tick(10.0)
    assert node.view(tenant).gpus[0].allowed_bytes == 0
    assert not any(on.credit.is_late for _, on in node.arbiter._context.ledger.on(0))


def test_the_limit_counts_what_is_used(node: SimulatedNode) -> None:
    tenant = node.join()
    tenant.attach(0, 0, 50)
    for _ in range(4):
        node.settle()
        tenant.allocate(0, [10])
    node.settle()
    tenant.touch()
    block = tenant.allocate(0, [10])
    node.settle()
    assert block.admitted
    assert not tenant.refusals
    assert node.view(tenant).gpus[0].allocated_bytes == 50
    tenant.allocate(0, [1])
    node.settle()
    assert [refusal.code for refusal in tenant.refusals] == ["limit"]


def test_a_driver_that_runs_out_gets_it_first(node: SimulatedNode) -> None:
    tenant = churning(node, 10, 10)
    block = tenant.allocate(0, [8, 8])
    tenant.touch()
    tenant.free(block)
    node.settle()
    assert tenant.spare_bytes(0) == 16
    serial = 99
    tenant.needing[serial] = (0, 16)
    node.feed(ev.DriverOom(tenant.number, 0, serial, 16, free_bytes=0))
    node.settle()
    assert recalls(node) == [tenant.number]
    assert serial not in tenant.needing, "what was spare is free now, and that is enough"
    assert not tenant.refusals


@pytest.mark.parametrize("why", ["pinned", "gang", "share"])
def test_who_is_not_what_it_was_gives_it_back(node: SimulatedNode, why: str) -> None:
    tenant = churning(node, 10, 10)
    if why == "pinned":
        tenant.pin("cuIpcGetMemHandle")
    elif why == "gang":
        node.band(tenant, "g")
    else:
        node.feed(ev.ShareSet(tenant.number, Share(memory_bytes=10)))
    node.settle()
    assert recalls(node) == [tenant.number]
    assert not tenant.allowed_most


def test_none_is_given_where_somebody_was_promised_a_part_of_the_time(node: SimulatedNode) -> None:
    first = node.start({0: [10]})
    node.feed(ev.ShareSet(first.number, Share(gpu=0.5)))
    tenant = churning(node, 10, 10, 10)
    assert not tenant.allowed_most


def test_none_is_given_where_little_is_left(node: SimulatedNode) -> None:
    tenant = churning(node, 160, 30, 5)
    assert not tenant.allowed_most


def test_credit_stays_within_the_limit_of_the_user(node: SimulatedNode) -> None:
    node.feed(ev.UserLimitsSet({1: (30, "alice may have there, 30 B (/etc/f:1)")}))
    first, second = node.start({0: [5]}, uid=1), node.start({0: [5]}, uid=1)
    first.allocate(0, [10])
    node.settle()
    assert first.allowed == {0: 10}, "20 of 30 bytes are allocated"
    second.allocate(0, [8])
    node.settle()
    assert second.blocks[-1].admitted, "credit that is not used is no obstacle"
    assert not second.refusals
    on = [node.view(tenant).gpus[0].allocated_bytes for tenant in (first, second)]
    assert sum(on) <= 30


@pytest.mark.parametrize(
    "smaller",
    [
        ev.UserLimitsSet({1: (25, "alice may have there, 25 B (/etc/f:1)")}),
        ev.UserLimitsSet({}, {1: (0.125, "alice may have there, 12.5 % (/etc/f:1)")}),
    ],
)
def test_a_smaller_limit_of_the_user_takes_credit_back(
    node: SimulatedNode, smaller: ev.UserLimitsSet
) -> None:
    tenant = node.start({0: [10]}, uid=1)
    tenant.allocate(0, [10])
    node.settle()
    assert tenant.allowed == {0: ALLOWED}
    node.feed(smaller)
    node.settle()
    assert recalls(node) == [tenant.number]
    tenant.allocate(0, [10])
    node.settle()
    (refused,) = tenant.refusals
    assert refused.code == "limit"


def test_whoever_is_sent_away_gives_it_back_first(node: SimulatedNode) -> None:
    tenant = churning(node, 10, 10)
    newcomer = node.join()
    node.feed(ev.ShareSet(newcomer.number, Share(latency=True)))
    newcomer.attach(0, 0, 200)
    node.settle()
    newcomer.touch()
    node.settle()
    assert newcomer.is_open
    assert not tenant.is_open
    assert not tenant.allowed_most
    assert node.view(tenant).gpus[0].allowed_bytes == 0


def test_a_process_that_dies_takes_it_along(node: SimulatedNode) -> None:
    tenant = churning(node, 10, 10)
    block = tenant.allocate(0, [8, 8])
    tenant.touch()
    tenant.free(block)
    node.settle()
    node.kill(tenant)
    gpu = node.arbiter.gpus()[0]
    assert (gpu.allocated_bytes, gpu.resident_bytes, gpu.free_bytes) == (0, 0, 200)


def test_more_than_was_allowed_is_not_counted(node: SimulatedNode) -> None:
    tenant = churning(node, 10, 10)
    for amount in (30, 1 << 60):
        node.feed(ev.CreditUsed(tenant.number, 0, amount))
    on = node.view(tenant).gpus[0]
    assert (on.allocated_bytes, on.allowed_bytes) == (20 + ALLOWED, 0)


def test_a_new_agent_knows_what_was_used_and_of_no_allowance(node: SimulatedNode) -> None:
    tenant = churning(node, 10, 10)
    tenant.allocate(0, [15])
    tenant.touch()
    node.restart()
    node.resume(tenant)
    node.feed(ev.Settled())
    node.settle()
    on = node.view(tenant).gpus[0]
    assert (on.allocated_bytes, on.resident_bytes, on.allowed_bytes) == (35, 35, 0)
    assert not tenant.allowed_most
