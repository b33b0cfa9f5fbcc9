"""The reasons of a wait name the tenant that others wait for, and what it does."""

from __future__ import annotations

import pytest

from moiety.arbiter.schedule.explain import why_apart, why_behind, why_late
from moiety.arbiter.state.drain import Drain
from moiety.arbiter.state.tenant import Tenant, TenantGang
from moiety.arbiter.state.usage import TenantUsage
from moiety.arbiter.states import State
from moiety.model.share import Priority, Share


@pytest.mark.parametrize(
    ("tenant", "expected"),
    [
        (Tenant(1, state=State.HOLDING), ""),
        (Tenant(1, state=State.DRAINING), ""),
        (Tenant(1, state=State.DRAINING, drain=Drain(stopped=True, silent=True)), "is stopped"),
        (Tenant(1, state=State.DRAINING, drain=Drain(silent=True)), "its last work does not end"),
        (Tenant(1, state=State.DRAINING, drain=Drain(gave_up=1)), "is being tried again"),
        (Tenant(1, state=State.FENCED), "is fenced"),
        (
            Tenant(1, state=State.UNDRAINABLE, drain=Drain(stuck_until_s=1.0)),
            "cannot be drained: its work",
        ),
    ],
)
def test_why_a_tenant_does_not_give_the_gpu_back(tenant: Tenant, expected: str) -> None:
    reason = why_late(tenant)
    assert expected in reason
    assert bool(reason) == bool(expected)


def test_a_detained_tenant_names_the_member_that_is_silent() -> None:
    silent = Tenant(1, name="trainer (7)", state=State.DRAINING, drain=Drain(silent=True))
    detained = Tenant(2, state=State.DRAINING, drain=Drain(answered=True, detained=True))
    silent.gang = detained.gang = TenantGang("job", 2, [silent, detained], is_begun=True)
    reason = why_late(detained)
    assert reason.startswith("waits for its gang's trainer (7), which cannot be drained")


def test_a_gang_waits_for_members_that_have_not_started() -> None:
    one = Tenant(1, state=State.QUEUED)
    one.gang = gang = TenantGang("job", 3, [one])
    assert why_apart(gang).startswith("its gang job waits for 2 of 3 members")
    gang.is_begun = True
    assert why_apart(gang) == ""


def test_a_gang_waits_for_a_member_that_drains() -> None:
    gang = TenantGang("job", 2, [Tenant(1), Tenant(2, state=State.DRAINING)], is_begun=True)
    assert why_apart(gang) == "tenant 2, of its gang, is giving the GPU back"


def test_who_holds_the_gpu_is_named() -> None:
    waiting = Tenant(9, state=State.QUEUED)
    holders = [Tenant(number, state=State.HOLDING) for number in (1, 2)]
    assert why_behind([], waiting) == "room is being made for others"
    assert why_behind(holders[:1], waiting) == "tenant 1 holds the GPU"
    assert why_behind(holders, waiting) == "tenants 1, 2 hold the GPU"


def test_a_higher_class_goes_first() -> None:
    share = Share(priority=Priority.HIGH)
    higher = Tenant(1, state=State.HOLDING, share=share, usage=TenantUsage(rank=share.rank))
    reason = why_behind([higher], Tenant(2, state=State.QUEUED))
    assert reason == f"tenant 1 holds the GPU and goes first (priority {share.priority})"
