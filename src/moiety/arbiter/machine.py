"""The arbiter: events in, instructions out. Who holds a lease on the GPUs of one node, and when.

It covers all GPUs of a node at once. A process has one lease for everything it uses; two
processes that share no GPU never affect each other, and one that uses several gets them all
together, so nobody can hold one GPU and wait for another (docs/decisions/0003).

A step writes down what happened, here, and then looks at the whole state afresh (round.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.admission.credit import Credit
from moiety.arbiter.admission.driver_reserve import forget as forget_room
from moiety.arbiter.admission.driver_reserve import reserve as make_room
from moiety.arbiter.admission.guarantees import NOTHING, Promised, refuse_share
from moiety.arbiter.admission.host_demand import needs
from moiety.arbiter.admission.memory import (
    refuse_beside_all,
    refuse_bytes,
    refuse_context,
    refuse_gang,
)
from moiety.arbiter.ledger import Change, Ledger
from moiety.arbiter.schedule import gangs
from moiety.arbiter.schedule.decide import decide
from moiety.arbiter.schedule.fair_share import FairShare
from moiety.arbiter.schedule.leases import Leases, OnLease
from moiety.arbiter.schedule.quantum import Quantum
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.arbiter.snapshots import GpuView, TenantView, view_gpu, view_tenant
from moiety.arbiter.state.tenant import Request, Residency, Tenant
from moiety.arbiter.states import REVOKED, Cause, State
from moiety.model.share import Share

ENDLESS_BYTES: Final = 1 << 60
"""more than anybody asks of a GPU that is gone"""


class Arbiter:
    """Decides about one node.

    `settled=False` starts an arbiter that only listens until it is told `Settled`: processes
    that outlived the last agent come back first. `on_change` is told of every stay in a state
    that ends, for whoever keeps a history. `on_lease` carries out leases that are given and
    taken while the step still goes on; without it they are instructions like all others.
    """

    def __init__(
        self,
        gpus: Iterable[GpuSpec],
        settings: Settings,
        *,
        settled: bool = True,
        on_change: Change | None = None,
        on_lease: OnLease | None = None,
    ) -> None:
        self._ledger = Ledger(gpus, settings.arena_bytes, on_change)
        self._settings = settings
        self._quantum = Quantum(settings)
        self._fair_share = FairShare(self._ledger, self._quantum)
        self._settled = settled
        self._put_off: list[ev.AllocRequest | ev.Attach | ev.DriverOom] = []
        self._leases = Leases(self._ledger, on_lease)
        self._credit = Credit(self._ledger)
        self._out: list[do.Instruction] = []
        self._now_s = 0.0
        self._deadline_s: float | None = None

    @property
    def deadline_s(self) -> float | None:
        """When `step(now, Tick())` is due, if nothing happens before; None: never."""
        return self._deadline_s

    def step(self, now_s: float, event: ev.Event) -> list[do.Instruction]:
        """Take in one event; returns what is (still) to be done, in order.

        Events about tenants or GPUs that are not known (any more) are ignored: messages of a
        dead process may still be under way.
        """
        if type(event) is ev.Drained:
            self._leases.ahead(event)
        self._now_s = now_s
        self._out = []
        self._fair_share.advance(now_s)
        if not self._credit.holds_up(event, self._settings, now_s, self._out):
            _APPLY[type(event)](self, event)
        for each in self._credit.released(now_s):
            _APPLY[type(each)](self, each)
        if self._settled and not _is_quiet(event):
            self._credit.look_after(self._settings, now_s, self._out)
            round_ = Round(
                self._ledger,
                self._settings,
                self._quantum,
                self._fair_share,
                now_s,
                self._out,
                self._leases,
                self._credit,
            )
            decide(round_)
            held_s = self._credit.deadline_s
            if held_s < math.inf:
                round_.wake_at(held_s)
            self._deadline_s = round_.deadline_s
            self._leases.check()
        else:
            self._fair_share.refresh()
        self._fair_share.find_rates()
        return self._out

    def tenants(self) -> list[TenantView]:
        """A picture of every tenant, for `ps`."""
        return [view_tenant(self._ledger, t, self._now_s) for t in self._ledger.tenants.values()]

    def gpus(self) -> list[GpuView]:
        """A picture of every GPU, for `status`."""
        return [view_gpu(self._ledger, gpu) for gpu in self._ledger.specs]

    def queue(self) -> list[int]:
        """Tenants that wait for a turn, who came first before who came later."""
        return list(self._ledger.queue)

    def refuse_share(
        self, gpu: int, share: Share, beside: Promised = NOTHING, own: Iterable[int] = ()
    ) -> tuple[str, Share] | None:
        """Why a share cannot be promised on a GPU, with the largest that can; None if it can.

        `own` are the tenants that have it instead of their present shares; `beside` is what was
        promised to processes that are not there yet.
        """
        return refuse_share(self._ledger, gpu, share, beside, frozenset(own))

    def refuse_gang(self, tenants: Iterable[int]) -> str:
        """Why these tenants cannot hold together, and so be a gang; empty if they can."""
        known = (self._ledger.tenants.get(number) for number in tenants)
        return refuse_gang(self._ledger, [tenant for tenant in known if tenant])

    def missing(self, gang: str) -> int:
        """How many processes a gang waits for before it begins; 0 if it has, or is not known."""
        known = self._ledger.gangs.get(gang)
        return known.missing if known else 0

    def resident_bytes(self, tenant: int, gpu: int) -> int:
        """What a tenant has on a GPU, room that it was given included; 0 if it is not there."""
        entry = self._ledger.entry(tenant, gpu)
        return entry.charged_bytes - entry.allowed_bytes if entry else 0

    def spare_bytes(self, tenant: int, gpu: int) -> int:
        """What of it is on a GPU besides, since it may be used again; 0 if it is not there."""
        entry = self._ledger.entry(tenant, gpu)
        return entry.spare_bytes if entry else 0

    def has_work(self, tenant: int) -> bool:
        """Whether work of a tenant may run: it has its lease, or has not drained since."""
        known = self._ledger.tenants.get(tenant)
        return known is not None and (known.holds or known.state in REVOKED)

    def host_needs(self) -> dict[int, int]:
        """Bytes of host memory that each tenant's data could need at one time."""
        return needs(self._ledger)

    def managed_bytes(self, tenant: int, gpu: int) -> int:
        """What a tenant has on a GPU that the driver pages; 0 if it is not there."""
        entry = self._ledger.entry(tenant, gpu)
        return entry.managed_bytes if entry else 0

    # Who is there

    def _joined(self, event: ev.Hello) -> None:
        self._leave(event.tenant)
        tenant = Tenant(
            event.tenant,
            event.name,
            state=_first_state(event),
            epoch=event.epoch,
            resumed=event.resumed or event.holding or event.epoch > 0,
            pinned=event.pinned,
            since_s=self._now_s,
            joined_s=self._now_s,
            owner=event.owner,
        )
        if tenant.state in REVOKED:
            self._take_back(tenant)
        elif tenant.holds:
            tenant.turn_ends_s = self._now_s + self._settings.turn_min_s
            tenant.busy_periods.go_on(self._now_s)
        if before := self._ledger.tenants.get(event.replaces):
            self._succeed(tenant, before)
        self._ledger.tenants[event.tenant] = tenant
        self._fair_share.promise(tenant, event.share)

    def _take_back(self, tenant: Tenant) -> None:
        """Its work runs, and it may not: it is told to drain before it has said what it has."""
        tenant.silent = tenant.state is State.FENCED
        tenant.told_s = self._now_s
        tenant.due_s = self._now_s + self._settings.revoke_deadline_s
        tenant.look_s = self._now_s + self._settings.look_after_s
        self._out.append(do.Revoke(tenant.number, tenant.epoch))

    def _succeed(self, tenant: Tenant, before: Tenant) -> None:
        """The same process on another connection: nobody gets what it has meanwhile."""
        for gpu, on in before.gpus.items():
            there = on.allocated_bytes - before.pending_bytes(gpu)
            holds = tenant.holds or tenant.state in REVOKED
            tenant.gpus[gpu] = replace(
                on,
                allocated_bytes=there,
                pinned_bytes=min(there, on.pinned_bytes),
                managed_bytes=min(there, on.managed_bytes),
                charged_bytes=there if holds else min(there, on.charged_bytes),
                needed_bytes=0,
                allowed_bytes=0,
                spare_bytes=0,
                is_allowed=False,
                is_recalled=False,
                orders=[],
                is_hearsay=True,
            )
        tenant.costs_s, tenant.cost_s = before.costs_s, before.cost_s
        self._leave(before.number)

    def _banded(self, event: ev.GangJoined) -> None:
        if tenant := self._ledger.tenants.get(event.tenant):
            self._credit.recall_from(tenant, self._out)
            gangs.enter(self._ledger, tenant, event.gang, event.size, begun=event.begun)

    def _left(self, event: ev.Left) -> None:
        self._leave(event.tenant)

    def _leave(self, number: int) -> None:
        self._put_off = [e for e in self._put_off if e.tenant != number]
        self._credit.drop(number)
        self._ledger.parts_changed = True
        if tenant := self._ledger.tenants.get(number):
            self._credit.forget(tenant.gpus.values())
            gangs.leave(self._ledger, tenant)
            self._ledger.on_change(tenant, tenant.gpus, self._now_s)
            del self._ledger.tenants[number]
            if number in self._ledger.queue:
                self._ledger.queue.remove(number)

    def _attached(self, event: ev.Attach) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is None:
            return
        if event.gpu not in self._ledger.specs:
            self._refuse(event, "gpu", f"GPU {event.gpu} is not managed here")
            return
        known = tenant.gpus.get(event.gpu)
        exists = event.exists or event.allocated_bytes > 0
        if known and not (known.is_hearsay and exists):
            known.limit_bytes = event.limit_bytes
            tenant.requests.append(Request(event.serial, event.gpu, 0, is_context=True))
            return
        if not self._settled and not exists:
            self._put_off.append(event)  # it waits until those who were here are back
            return
        if not exists and (no := refuse_beside_all(self._ledger, event.gpu, tenant)):
            self._refuse(event, *no)
            return
        if not exists and (no := refuse_context(self._ledger, event.gpu, event.residue_bytes)):
            self._refuse(event, *no)
            return
        own = frozenset([event.tenant])
        if not exists and (taken := refuse_share(self._ledger, event.gpu, tenant.share, own=own)):
            self._refuse(event, "capacity", taken[0])
            return
        self._ledger.parts_changed = True
        has_work = tenant.holds or tenant.state in REVOKED
        tenant.gpus[event.gpu] = Residency(
            residue_bytes=known.residue_bytes if known else event.residue_bytes,
            limit_bytes=event.limit_bytes,
            expected_bytes=known.expected_bytes if known else event.residue_bytes,
            allocated_bytes=event.allocated_bytes,
            pinned_bytes=event.pinned_bytes,
            managed_bytes=event.managed_bytes,
            # a holder may be about to map what it was admitted
            charged_bytes=event.allocated_bytes if has_work else event.resident_bytes,
            orders=known.orders if known else [],
            lag_s=known.lag_s if known else 0.0,
        )
        if exists:
            if tenant.gang is not None and event.allocated_bytes:
                tenant.gang.is_begun = True  # nobody gets memory before
            self._out.append(do.Admitted(event.tenant, event.gpu, event.serial))
        else:
            tenant.requests.append(Request(event.serial, event.gpu, 0, is_context=True))

    def _measured(self, event: ev.Measured) -> None:
        if entry := self._ledger.entry(event.tenant, event.gpu):
            entry.residue_bytes = event.residue_bytes
            entry.needed_bytes = 0  # what was taken of it is counted now

    def _detached(self, event: ev.Detach) -> None:
        gone = (event.tenant, event.gpu)
        self._put_off = [e for e in self._put_off if (e.tenant, e.gpu) != gone]
        self._credit.drop(*gone)
        if tenant := self._ledger.tenants.get(event.tenant):
            had_orders = tenant.has_orders
            self._ledger.parts_changed = True
            tenant.counted.pop(event.gpu, None)
            if event.gpu in tenant.gpus:
                self._ledger.on_change(tenant, (event.gpu,), self._now_s)
                self._credit.forget([tenant.gpus.pop(event.gpu)])
            tenant.requests = [r for r in tenant.requests if r.gpu != event.gpu]
            if had_orders and not tenant.has_orders:
                self._answered(tenant)

    def _pinned(self, event: ev.Pinned) -> None:
        if tenant := self._ledger.tenants.get(event.tenant):
            tenant.pinned = True
            tenant.pinned_by = event.reason
            self._credit.recall_from(tenant, self._out)

    # What they ask for

    def _asked(self, event: ev.AllocRequest) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is None:
            return
        if not self._settled:
            self._put_off.append(event)
            return
        entry = tenant.gpus.get(event.gpu)
        if entry is None:
            self._refuse(event, "gpu", f"GPU {event.gpu} was not attached")
            return
        pinned = event.pinned
        if no := refuse_bytes(self._ledger, tenant, event.gpu, event.bytes, pinned=pinned):
            self._refuse(event, *no)
            return
        entry.allocated_bytes += event.bytes
        if pinned:
            entry.pinned_bytes += event.bytes
        if event.managed:
            entry.managed_bytes += event.bytes
        tenant.requests.append(
            Request(event.serial, event.gpu, event.bytes, pinned=pinned, managed=event.managed)
        )
        self._want(tenant)

    def _needed(self, event: ev.DriverOom) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is None:
            return
        if not self._settled:
            self._put_off.append(event)
            return
        if event.gpu not in tenant.gpus:
            self._refuse(event, "gpu", f"GPU {event.gpu} was not attached")
            return
        forget_room(tenant)  # what it was given before was not enough
        no = make_room(self._ledger, tenant, event.gpu, event.bytes, event.free_bytes)
        if no:
            self._refuse(event, *no)
            return
        request = Request(event.serial, event.gpu, 0, is_context=True, is_need=True)
        tenant.requests.append(request)
        tenant.needs_until_s = self._now_s + self._settings.revoke_deadline_s

    def _freed(self, event: ev.Free) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        entry = self._ledger.entry(event.tenant, event.gpu)
        if tenant is None or entry is None:
            return
        if event.allowed:
            self._credit.freed(event)
            return
        pending = tenant.pending_bytes(event.gpu)
        entry.allocated_bytes = max(pending, entry.allocated_bytes - event.bytes)
        if event.pinned:
            entry.pinned_bytes = max(0, entry.pinned_bytes - event.bytes)
        if event.managed:
            entry.managed_bytes = max(0, entry.managed_bytes - event.bytes)
        entry.charged_bytes = max(0, entry.charged_bytes - event.resident_bytes)
        if event.gpu in tenant.counted:
            tenant.counted[event.gpu] -= event.resident_bytes
        tenant.trim(event.gpu)

    def _took(self, event: ev.CreditUsed) -> None:
        self._credit.took(event)

    def _returned(self, event: ev.CreditReturned) -> None:
        self._credit.returned(event)

    def _kept(self, event: ev.PinBytes) -> None:
        if entry := self._ledger.entry(event.tenant, event.gpu):
            most = entry.allocated_bytes - entry.managed_bytes
            entry.pinned_bytes = min(most, entry.pinned_bytes + event.bytes)

    def _inherited(self, event: ev.ChargeTransferred) -> None:
        if entry := self._ledger.entry(event.tenant, event.gpu):
            entry.allocated_bytes += event.bytes
            entry.pinned_bytes += event.bytes
            entry.inherited_bytes += event.bytes
            entry.charged_bytes += event.bytes

    def _disowned(self, event: ev.ChargeReleased) -> None:
        if entry := self._ledger.entry(event.tenant, event.gpu):
            gone = min(event.bytes, entry.inherited_bytes)
            entry.inherited_bytes -= gone
            entry.allocated_bytes -= gone
            entry.pinned_bytes = max(0, entry.pinned_bytes - gone)
            entry.charged_bytes = max(0, entry.charged_bytes - gone)

    def _wanted(self, event: ev.LeaseRequest) -> None:
        if tenant := self._ledger.tenants.get(event.tenant):
            if tenant.holds:
                tenant.wants_again = True  # it may have crossed the grant, or not: better twice
            self._want(tenant)

    def _want(self, tenant: Tenant) -> None:
        self._end_silence(tenant)
        if tenant.state is State.IDLE:
            if self._now_s - tenant.since_s >= self._settings.idle_min_s:
                tenant.busy_periods.end(self._now_s)
                tenant.busy_periods.begin(self._now_s, holding=False)
            self._fair_share.wake(tenant)
            self._ledger.transition(tenant, Cause.WANTED, self._now_s)
        elif tenant.state in REVOKED and not tenant.wants_again:
            tenant.wants_again = True
            tenant.wants_since_s = self._now_s

    # What they have done

    def _restored(self, event: ev.Restored) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is not None and tenant.room_given:
            tenant.restored = True
            self._answered(tenant)

    def _residency(self, event: ev.Resident) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        entry = self._ledger.entry(event.tenant, event.gpu)
        if tenant and entry and tenant.state in REVOKED:
            tenant.counted[event.gpu] = event.resident_bytes

    def _drained(self, event: ev.Drained) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is None:
            return
        if tenant.state not in REVOKED or event.epoch != tenant.epoch:
            tenant.counted.clear()
            return  # it was reopened meanwhile, so that what was counted is not true any more
        if event.gpu in tenant.gpus:
            tenant.counted[event.gpu] = event.resident_bytes
        self._answered(tenant)
        if tenant.gang is not None and tenant.state is not State.FENCED:
            if tenant.state is State.STOPPED:
                self._ledger.transition(tenant, Cause.CONTINUED, self._now_s)
            tenant.answered = True  # what it has leaves, and counts, once all of its gang have
            return
        tenant.count()
        tenant.reopens = tenant.gave_up = 0
        again = tenant.stands_at_gate
        self._ledger.transition(
            tenant, Cause.DRAINED_WANTING if again else Cause.DRAINED, self._now_s
        )

    def _evicted(self, event: ev.Evicted) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        entry = self._ledger.entry(event.tenant, event.gpu)
        if tenant is None or entry is None or not entry.orders:
            return
        if tenant.restored:  # said before it read the order: what leaves now needs new room
            tenant.room_given = tenant.restored = False
        tenant.evicted_bytes += event.bytes
        entry.charged_bytes = max(0, entry.charged_bytes - event.bytes)
        entry.orders[0] = max(0, entry.orders[0] - event.bytes)
        if event.last:
            entry.orders.pop(0)
            # What was left of its room is void, and it gets no new one before the last order ends.
            tenant.charge(event.gpu, event.resident_bytes)
        self._answered(tenant)
        if event.failed:
            tenant.stuck_until_s = self._now_s + self._settings.revoke_deadline_s
        if tenant.has_orders:
            tenant.told_s = self._now_s
            tenant.due_s = self._now_s + self._settings.revoke_deadline_s
            tenant.look_s = self._now_s + self._settings.look_after_s

    def _answered(self, tenant: Tenant) -> None:
        """It did what it was told, or some of it."""
        tenant.silent = tenant.stopped = False
        tenant.due_s = 0.0

    def _looked(self, event: ev.StopChecked) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is None or tenant.stopped == event.stopped:
            return
        if event.stopped and not tenant.due_s:
            return  # it has answered meanwhile
        tenant.stopped = tenant.silent = event.stopped
        if event.stopped and tenant.state is State.DRAINING:
            self._ledger.transition(tenant, Cause.STOPPED, self._now_s)
        elif not event.stopped and tenant.state is State.STOPPED:
            self._ledger.transition(tenant, Cause.CONTINUED, self._now_s)

    def _idled(self, event: ev.Idle) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant and tenant.holds and tenant.epoch == event.epoch:
            tenant.silent_since_s = self._now_s - tenant.watched_s
            tenant.watched_s = 0.0

    def _busied(self, event: ev.Busy) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant and tenant.state is State.HOLDING and tenant.epoch == event.epoch:
            self._end_silence(tenant)

    def _end_silence(self, tenant: Tenant) -> None:
        """It submits again, or is about to: remember how long it did not, if that was known."""
        if tenant.silent_since_s is not None:
            length_s = self._now_s - tenant.silent_since_s
            tenant.silent_since_s = None
            if length_s >= self._settings.idle_min_s:
                tenant.idle_periods.add(length_s)
                tenant.busy_periods.end(self._now_s - length_s)
                tenant.busy_periods.begin(self._now_s, holding=tenant.state is State.HOLDING)

    # What they are promised, and how is decided

    def _share_set(self, event: ev.ShareSet) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is None:
            return
        self._fair_share.promise(tenant, event.share)
        self._credit.recall_from(tenant, self._out)
        limit = event.share.memory_limit_bytes
        for gpu, on in tenant.gpus.items():
            capacity = self._ledger.specs[gpu].capacity_bytes
            on.limit_bytes = capacity if limit is None else min(limit, capacity)
        self._set_turn(tenant)

    def _set_turn(self, tenant: Tenant) -> None:
        """A turn that has begun is as long as turns are from now on."""
        if tenant.state is State.HOLDING:
            tenant.turn_ends_s = tenant.since_s + self._quantum.turn_s(tenant)

    def _owners_set(self, event: ev.UserLimitsSet) -> None:
        self._ledger.owner_limits = event.limits

    def _settings_set(self, event: ev.SettingsSet) -> None:
        self._settings = replace(event.settings, arena_bytes=self._ledger.arena_bytes)
        self._quantum.settings = self._settings
        for tenant in self._ledger.tenants.values():
            self._set_turn(tenant)

    def _arena_set(self, event: ev.ArenaSet) -> None:
        self._ledger.arena_bytes = event.arena_bytes
        self._ledger.arena_reason = event.reason

    def _lost(self, event: ev.GpuLost) -> None:
        room = ENDLESS_BYTES
        self._ledger.specs[event.gpu] = GpuSpec(event.gpu, room, room)
        self._ledger.lost.add(event.gpu)

    def _ticked(self, event: ev.Tick) -> None:
        del event

    def _settle(self, event: ev.Settled) -> None:
        del event
        self._settled = True
        put_off, self._put_off = self._put_off, []
        for each in put_off:
            _APPLY[type(each)](self, each)

    def _refuse(
        self, event: ev.Attach | ev.AllocRequest | ev.DriverOom, code: str, text: str
    ) -> None:
        self._out.append(do.Refused(event.tenant, event.gpu, event.serial, code, text))


def _first_state(event: ev.Hello) -> State:
    """The state of a process that says hello: only one that outlived its agent may hold a lease."""
    if not event.holding:
        return State.IDLE
    if event.fenced:
        return State.FENCED
    return State.DRAINING if event.doubted else State.HOLDING


def _is_quiet(event: ev.Event) -> bool:
    """Whether nothing follows from it: a count for `Drained`, or what happens in an allowance."""
    kind = type(event)
    if kind is ev.Free:
        return event.allowed  # type: ignore[union-attr]  # faster than isinstance
    return kind is ev.Resident or kind is ev.CreditUsed


_APPLY: dict[type, Callable[..., None]] = {
    ev.Hello: Arbiter._joined,
    ev.GangJoined: Arbiter._banded,
    ev.Left: Arbiter._left,
    ev.Attach: Arbiter._attached,
    ev.Measured: Arbiter._measured,
    ev.Detach: Arbiter._detached,
    ev.AllocRequest: Arbiter._asked,
    ev.DriverOom: Arbiter._needed,
    ev.Free: Arbiter._freed,
    ev.CreditUsed: Arbiter._took,
    ev.CreditReturned: Arbiter._returned,
    ev.PinBytes: Arbiter._kept,
    ev.ChargeTransferred: Arbiter._inherited,
    ev.ChargeReleased: Arbiter._disowned,
    ev.LeaseRequest: Arbiter._wanted,
    ev.Restored: Arbiter._restored,
    ev.Resident: Arbiter._residency,
    ev.Drained: Arbiter._drained,
    ev.Evicted: Arbiter._evicted,
    ev.Idle: Arbiter._idled,
    ev.Busy: Arbiter._busied,
    ev.Pinned: Arbiter._pinned,
    ev.StopChecked: Arbiter._looked,
    ev.ShareSet: Arbiter._share_set,
    ev.SettingsSet: Arbiter._settings_set,
    ev.UserLimitsSet: Arbiter._owners_set,
    ev.ArenaSet: Arbiter._arena_set,
    ev.GpuLost: Arbiter._lost,
    ev.Tick: Arbiter._ticked,
    ev.Settled: Arbiter._settle,
}
