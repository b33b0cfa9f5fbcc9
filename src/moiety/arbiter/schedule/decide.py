"""One round of deciding: a fresh look at the whole state, and everything that follows from it."""

from __future__ import annotations

from collections.abc import Iterator

from moiety.arbiter import instructions as do
from moiety.arbiter.admission.driver_reserve import forget
from moiety.arbiter.schedule.attaching import end_uncovered
from moiety.arbiter.schedule.gangs import detain, look_after_gangs
from moiety.arbiter.schedule.host_room import look_after_short
from moiety.arbiter.schedule.overdue import look_after
from moiety.arbiter.schedule.preempt import make_fit
from moiety.arbiter.schedule.queue_depth import pace
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.schedule.select import refuse_outgrown, take_turns
from moiety.arbiter.schedule.shut_out import look_after_pins
from moiety.arbiter.schedule.side_by_side import choose_sitters, end_silences, find_crowded
from moiety.arbiter.schedule.suspension import end_turns, evict_suspended
from moiety.arbiter.schedule.throttle import end_windows, mend, separate
from moiety.arbiter.schedule.transfers import answer_requests, finish_coming, give_room
from moiety.arbiter.schedule.victims import order_evictions
from moiety.arbiter.schedule.visits import look_after_visits
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import WITH_LEASE, State


def decide(round_: Round) -> Iterator[None]:
    """Run every phase of a round, each before the phases that need its result.

    It yields whenever instructions are decided, so that they are carried out before the rest is.
    """
    begin(round_)
    if round_.asking:
        refuse_outgrown(round_)
    yield from finish_coming(round_)
    round_.fair_share.refresh()
    round_.has_rivals = round_.has_rivals or round_.fair_share.is_weighed
    if round_.attaching:
        end_uncovered(round_)
    granted = True
    while granted:  # a new holder may be in the way of queued tenants
        if round_.ledger.gangs:
            mend(round_)
        make_fit(round_)
        if round_.fair_share.uneven or round_.fair_share.sitters:
            choose_sitters(round_)
        if round_.has_rivals:
            separate(round_)
        if round_.has_limited:
            end_windows(round_)
        if round_.asking or round_.ledger.queue:
            yield from take_turns(round_)
        was_given_up = order_evictions(round_)
        if round_.ledger.suspended:
            evict_suspended(round_)
        if round_.asking:
            answer_requests(round_)
        give_room(round_)
        granted = (yield from finish_coming(round_)) or was_given_up
    if round_.fair_share.has_windows:
        end_silences(round_)
    round_.watch_crowded()
    if round_.watched:
        round_.end_watches()
    pace(round_)


def begin(round_: Round) -> None:
    """Look at every tenant: its state, and whether it carries out its orders."""
    if round_.ledger.gangs:
        look_after_gangs(round_)
    _look(round_)
    if round_.ledger.gangs:
        detain(round_)
    round_.balances = round_.ledger.balances()
    if round_.visits.under_way or round_.visits.rests_s:
        look_after_visits(round_)
    find_crowded(round_)
    if round_.ledger.unasked_pins:
        look_after_pins(round_)
    if round_.ledger.suspended:
        end_turns(round_)


def _look(round_: Round) -> None:
    """Sort the tenants by what they do, and look after overdue tenants."""
    for tenant in round_.ledger.tenants.values():
        if tenant.drain.due_s or tenant.drain.stopped:
            round_.wake_at(look_after(round_, tenant))
        state = tenant.state
        if state in WITH_LEASE:
            round_.holding.append(tenant)
        elif state is State.RESTORING:
            round_.coming.append(tenant)
        elif state is State.DRAINING:
            round_.draining.append(tenant)
        if tenant.usage.timed or tenant.share.latency or tenant.usage.apart:
            round_.has_rivals = True
            round_.has_limited = round_.has_limited or tenant.share.gpu_limit < 1
        if tenant.memory.host_short is not None:
            look_after_short(round_, tenant)
        if tenant.memory.needs_until_s:
            _check_needs(round_, tenant)
        if tenant.requests:
            round_.asking.append(tenant)
        if tenant.usage.watched_s or tenant.usage.silent_since_s is not None:
            round_.watched.append(tenant)
        if tenant.drain.stuck_until_s:
            if round_.now_s >= tenant.drain.stuck_until_s:
                tenant.drain.stuck_until_s = 0.0
                round_.ledger.touch(tenant)
            else:
                round_.wake_at(tenant.drain.stuck_until_s)
    if len(round_.coming) > 1:
        round_.coming.sort(key=lambda t: t.since_s)


def _check_needs(round_: Round, tenant: Tenant) -> None:
    """End a driver reserve whose time is over, and refuse the requests that still wait for it."""
    if round_.now_s < tenant.memory.needs_until_s:
        round_.wake_at(tenant.memory.needs_until_s)
        return
    for request in [r for r in tenant.requests if r.is_need]:
        tenant.requests.remove(request)
        text = f"room for the driver itself on GPU {request.gpu} could not be made in time"
        round_.out.append(do.Refused(tenant.number, request.gpu, request.serial, "capacity", text))
    round_.ledger.touch(tenant)
    forget(round_.ledger, tenant)
