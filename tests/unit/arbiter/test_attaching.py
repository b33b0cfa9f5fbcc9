"""A holder that attaches one more GPU, or its first, goes before nobody who waits there."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.settings import GpuSpec, OverduePolicy, Settings
from moiety.model.share import NOTHING_ASKED, Share
from tests.support.backlog import GPU_BYTES, Backlog
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant

SIZE = 60 << 30
LIAR = 9
PAUSE_S = 0.02
"""Between two messages of the liar."""
LIES = ("want", "drain", "detach", "attach", "alloc")


class Barging(Backlog):
    """The tenant LIAR attaches its GPU anew with a lease that it got without one.

    After each revoke, and after each lease, it says these things, each after a pause.
    """

    after_revoke: list[str]
    after_grant: list[str]
    epoch = 0

    def _do(self, told: do.Instruction) -> None:
        if told.tenant != LIAR or not isinstance(told, do.Revoke | do.Grant):
            super()._do(told)
            return
        self.epoch = told.epoch
        says = self.after_revoke if isinstance(told, do.Revoke) else self.after_grant
        for place, what in enumerate(says, start=1):
            self._then(place * PAUSE_S, partial(self._say, what))

    def _say(self, what: str) -> None:
        view = next(v for v in self.arbiter.tenants() if v.tenant == LIAR)
        if what == "want":
            self.tell(ev.LeaseRequest(LIAR))
        elif what == "drain":
            self.tell(ev.Drained(LIAR, self.epoch, 0, self._resident[LIAR] if view.gpus else 0))
        elif what == "detach" and view.gpus:
            self._resident[LIAR] = 0
            self.tell(ev.Detach(LIAR, 0))
        elif what == "attach" and not view.gpus:
            self.tell(ev.Attach(LIAR, 0, 1, 0, GPU_BYTES))
        elif what == "alloc" and view.gpus and not view.gpus[0].allocated_bytes:
            self.tell(ev.AllocRequest(LIAR, 0, 2, SIZE))


def parts(
    share: Share, others: int, after_revoke: list[str], after_grant: list[str]
) -> list[float]:
    """What a tenant with this share, and `others` without one, receive beside LIAR."""
    made = Barging([], link_bytes_per_s=400e9)
    made.after_revoke, made.after_grant = after_revoke, after_grant
    for number in range(1, 2 + others):
        made.add(number, share if number == 1 else NOTHING_ASKED, SIZE)
    made.add(LIAR, NOTHING_ASKED, SIZE)
    made.run(15)
    return made.over(60)[:-1]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([None, 0.3, 0.5, 0.8]),
    st.integers(0, 2),
    st.lists(st.sampled_from(LIES), max_size=5),
    st.lists(st.sampled_from(LIES), max_size=3),
)
@example(0.5, 0, ["want", "drain", "detach"], ["attach", "alloc"])
@example(0.8, 1, ["want", "drain", "detach"], ["attach", "alloc"])
@example(None, 2, ["want", "drain", "detach"], ["attach", "alloc"])
@example(0.5, 0, ["want", "drain", "detach", "attach", "alloc"], [])
@example(0.5, 1, ["detach", "drain", "want"], ["attach", "alloc"])
def test_no_order_of_messages_costs_others_their_part(
    part: float | None, others: int, after_revoke: list[str], after_grant: list[str]
) -> None:
    after_revoke = [*after_revoke, "drain"]  # else it is overdue
    as_slow = ["drain" if said == "drain" else "" for said in after_revoke]
    honest = parts(Share(gpu=part), others, ["want", *as_slow], [])
    beside = parts(Share(gpu=part), others, after_revoke, after_grant)
    due = honest if part is None else [min(part, honest[0])]
    assert all(got >= at - 0.04 for got, at in zip(beside, due, strict=False)), (honest, beside)


# One GPU of two


def two(policy: OverduePolicy = OverduePolicy.REPORT) -> tuple[SimulatedNode, SimulatedTenant]:
    """A node of two GPUs, and a holder of the second."""
    made = Settings(1000, turn_factor=0.0, revoke_deadline_s=1.0, overdue=policy)
    node = SimulatedNode([GpuSpec(0, 120, 100), GpuSpec(1, 120, 100)], made)
    holder = node.start({1: [60]})
    assert holder.is_open
    return node, holder


def start(node: SimulatedNode, share: Share) -> SimulatedTenant:
    """A tenant with a share that holds the first GPU."""
    tenant = node.join()
    node.feed(ev.ShareSet(tenant.number, share))
    tenant.attach(0, 0, 100)
    node.settle()
    tenant.allocate(0, [60])
    tenant.touch()
    node.settle()
    assert tenant.is_open
    return tenant


def revokes(node: SimulatedNode, tenant: SimulatedTenant) -> int:
    return sum(isinstance(t, do.Revoke) and t.tenant == tenant.number for t in node.told)


def test_where_nobody_waits_a_holder_keeps_its_lease() -> None:
    node, holder = two()
    beside = start(node, NOTHING_ASKED)
    idle = node.join()
    node.feed(ev.ShareSet(idle.number, Share(gpu=0.5)))
    idle.attach(0, 0, 100)
    node.settle()
    holder.attach(0, 0, 100)
    node.settle()
    assert 0 in holder.contexts
    assert not revokes(node, holder)
    assert holder.is_open
    assert beside.is_open


def test_a_first_gpu_that_nobody_uses_is_attached_with_the_lease_that_there_is() -> None:
    node, holder = two()
    holder.detach(1)
    node.settle()
    holder.attach(0, 0, 100)
    node.settle()
    assert 0 in holder.contexts
    assert (holder.is_open, revokes(node, holder)) == (True, 0)


@pytest.mark.parametrize("share", [Share(gpu=0.5), Share(latency=True)])
def test_a_holder_waits_for_its_turn_on_a_gpu_of_one_whom_it_may_not_hold_beside(
    share: Share,
) -> None:
    node, holder = two()
    other = start(node, share)
    node.tick(0.05)
    holder.attach(0, 0, 100)
    holder.wanted = True
    node.settle()
    assert 0 in holder.contexts, "once it has given back its lease"
    assert (revokes(node, holder), holder.is_open) == (1, False)
    assert (revokes(node, other), other.is_open) == (0, True)
    node.feed(ev.LeaseRequest(holder.number))
    node.kill(other)
    node.settle()
    assert holder.is_open, "and it is in the queue"


@pytest.mark.parametrize("policy", [OverduePolicy.REPORT, OverduePolicy.FENCE])
def test_one_whose_work_waits_for_the_context_is_fenced_first(policy: OverduePolicy) -> None:
    """The context is made once the deadline is over: the work may end only after it."""
    node, holder = two(policy)
    start(node, Share(gpu=0.5))
    holder.depends = 1 << 40
    holder.attach(0, 0, 100)
    node.settle()
    assert 0 not in holder.contexts
    node.tick(1.1)
    node.settle()
    assert 0 in holder.contexts


def test_a_holder_that_gives_up_the_gpu_or_ends_meanwhile_leaves_nothing() -> None:
    node, holder = two()
    start(node, Share(gpu=0.5))
    holder.depends = 1 << 40
    for _ in range(2):
        holder.attach(0, 0, 100)
        node.settle()
        node.feed(ev.Detach(holder.number, 0))
    holder.attach(0, 0, 100)
    node.settle()
    node.kill(holder)
    node.tick(5.0)
    node.settle()
    assert [view.allocated_bytes for view in node.arbiter.gpus()] == [60, 0]
