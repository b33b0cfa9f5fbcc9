"""The sums of the ledger follow every change, and a recount finds what does not."""

from __future__ import annotations

import pytest

from moiety.arbiter.ledger import Ledger
from moiety.arbiter.settings import GpuSpec
from moiety.arbiter.state.residency import Request, Residency
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import Cause, State


@pytest.fixture
def ledger() -> Ledger:
    """One GPU with 100 bytes for data and 20 for contexts."""
    return Ledger([GpuSpec(0, 120, 100)], 1000)


def tenant_of(ledger: Ledger, number: int, state: State = State.IDLE) -> Tenant:
    tenant = Tenant(number, state=state)
    ledger.add(tenant)
    ledger.attach(tenant, 0, Residency(residue_bytes=5, limit_bytes=100, expected_bytes=5))
    return tenant


def test_a_request_is_pending_until_it_is_charged(ledger: Ledger) -> None:
    tenant, request = tenant_of(ledger, 1, State.HOLDING), Request(1, 0, 40)
    ledger.admit(tenant, request)
    balance = ledger.balances()[0]
    assert (balance.allocated_bytes, balance.pending_bytes, balance.charged_bytes) == (40, 40, 0)
    ledger.charge(tenant, request)
    assert (balance.allocated_bytes, balance.pending_bytes, balance.charged_bytes) == (40, 0, 40)
    assert balance.free_bytes == 60
    ledger.recount()


def test_a_request_that_is_withdrawn_leaves_nothing(ledger: Ledger) -> None:
    tenant, request = tenant_of(ledger, 1, State.HOLDING), Request(1, 0, 40, pinned=True)
    before = ledger.balance(0)
    ledger.admit(tenant, request)
    ledger.withdraw(tenant, request)
    assert ledger.balance(0) == before
    ledger.recount()


def test_a_state_decides_what_stays(ledger: Ledger) -> None:
    tenant, request = tenant_of(ledger, 1, State.HOLDING), Request(1, 0, 40)
    ledger.admit(tenant, request)
    ledger.charge(tenant, request)
    ledger.pin(tenant, 0, 10)
    assert ledger.balance(0).staying_bytes == 40
    ledger.transition(tenant, Cause.REVOKED, 1.0)
    assert ledger.balance(0).staying_bytes == 10
    ledger.recount()


def test_an_eviction_is_leaving_until_it_is_done(ledger: Ledger) -> None:
    tenant = tenant_of(ledger, 1)
    ledger.inherit(tenant, 0, 30)
    ledger.order(tenant, 0, 20)
    assert ledger.balance(0).leaving_bytes == 20
    ledger.evict(tenant, 0, 15, 15, last=False)
    assert ledger.balance(0).leaving_bytes == 5
    ledger.disown(tenant, 0, 30)
    ledger.evict(tenant, 0, 5, 0, last=True)
    balance = ledger.balance(0)
    assert (balance.leaving_bytes, balance.charged_bytes) == (0, 0)
    ledger.recount()


def test_nothing_is_left_of_a_tenant_that_leaves(ledger: Ledger) -> None:
    empty = ledger.balance(0)
    tenant = tenant_of(ledger, 1, State.HOLDING)
    ledger.admit(tenant, Request(1, 0, 40))
    ledger.reserve(tenant, 0, 8)
    ledger.grant_credit(tenant, 0, 4, 4)
    ledger.remove(tenant)
    assert ledger.balance(0) == empty
    ledger.recount()


def test_a_recount_finds_bytes_that_somebody_else_wrote(ledger: Ledger) -> None:
    tenant = tenant_of(ledger, 1)
    tenant.gpus[0].allocated_bytes = 7
    with pytest.raises(AssertionError):
        ledger.recount()
