"""The arbiter: events in, instructions out. Who holds a lease on the GPUs of one node, and when.

It covers all GPUs of a node at once. A process has one lease for everything it uses; two
processes that share no GPU never affect each other, and one that uses several gets them all
together, so nobody can hold one GPU and wait for another (docs/decisions/0003).

Every `step` ends in `_advance`, which looks at the whole state afresh: it answers requests for
which there is room, takes waiters from the queue that fit beside the holders, revokes holders
whose turn is over for those that do not, and orders evictions for what is still missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.arbiter.states import Cause, State, after
from moiety.arbiter.tenant import OnGpu, Request, Tenant
from moiety.arbiter.turns import Turns
from moiety.arbiter.views import GpuView, TenantView, view_gpu, view_tenant


class Arbiter:
    """Decides about one node.

    `settled=False` starts an arbiter that only listens until it is told `Settled`: processes
    that outlived the last agent come back first.
    """

    def __init__(
        self, gpus: Iterable[GpuSpec], settings: Settings, *, settled: bool = True
    ) -> None:
        self._ledger = Ledger(gpus, settings.arena_bytes)
        self._settings = settings
        self._turns = Turns(settings)
        self._settled = settled
        self._queue: list[int] = []
        self._out: list[do.Instruction] = []
        self._now_s = 0.0
        self._deadline_s: float | None = None

    @property
    def deadline_s(self) -> float | None:
        """When `step(now, Tick())` is due, if nothing happens before; None: never."""
        return self._deadline_s

    def step(self, now_s: float, event: ev.Event) -> list[do.Instruction]:
        """Take in one event; returns what is to be done, in order.

        Events about tenants or GPUs that are not known (any more) are ignored: messages of a
        dead process may still be under way.
        """
        self._now_s = now_s
        self._out = []
        apply = _APPLY[type(event)]
        apply(self, event)
        if self._settled:
            self._advance()
        return self._out

    def tenants(self) -> list[TenantView]:
        """A picture of every tenant, for `ps`."""
        return [view_tenant(t, self._now_s) for t in self._ledger.tenants.values()]

    def gpus(self) -> list[GpuView]:
        """A picture of every GPU, for `status`."""
        return [view_gpu(self._ledger, gpu) for gpu in self._ledger.specs]

    # What happened

    def _joined(self, event: ev.Joined) -> None:
        tenant = Tenant(event.tenant, epoch=event.epoch, pinned=event.pinned, since_s=self._now_s)
        if event.holding:
            tenant.state = State.HOLDING
            tenant.turn_ends_s = self._now_s + self._settings.turn_min_s
        self._ledger.tenants[event.tenant] = tenant

    def _left(self, event: ev.Left) -> None:
        self._ledger.tenants.pop(event.tenant, None)
        if event.tenant in self._queue:
            self._queue.remove(event.tenant)

    def _attached(self, event: ev.Attached) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is None:
            return
        if event.gpu not in self._ledger.specs:
            self._refuse(event, "gpu", f"GPU {event.gpu} is not managed here")
            return
        resumed = event.allocated_bytes > 0 or not self._settled
        refusal = None
        if not resumed and event.gpu not in tenant.gpus:
            refusal = self._ledger.refusal_for_context(event.gpu, event.residue_bytes)
        if refusal:
            self._refuse(event, *refusal)
            return
        tenant.gpus[event.gpu] = OnGpu(
            residue_bytes=event.residue_bytes,
            limit_bytes=event.limit_bytes,
            allocated_bytes=event.allocated_bytes,
            pinned_bytes=event.pinned_bytes,
            charged_bytes=event.resident_bytes,
        )
        if resumed:
            self._out.append(do.Admitted(event.tenant, event.gpu, event.serial))
        else:
            tenant.requests.append(Request(event.serial, event.gpu, 0, is_context=True))

    def _measured(self, event: ev.Measured) -> None:
        if entry := self._entry(event.tenant, event.gpu):
            entry.residue_bytes = event.residue_bytes

    def _detached(self, event: ev.Detached) -> None:
        if tenant := self._ledger.tenants.get(event.tenant):
            tenant.gpus.pop(event.gpu, None)
            tenant.requests = [r for r in tenant.requests if r.gpu != event.gpu]

    def _asked(self, event: ev.Asked) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is None:
            return
        entry = tenant.gpus.get(event.gpu)
        if entry is None:
            self._refuse(event, "gpu", f"GPU {event.gpu} was not attached")
            return
        refusal = self._ledger.refusal_for_bytes(
            tenant, event.gpu, event.bytes, pinned=event.pinned
        )
        if refusal:
            self._refuse(event, *refusal)
            return
        entry.allocated_bytes += event.bytes
        if event.pinned:
            entry.pinned_bytes += event.bytes
        tenant.requests.append(Request(event.serial, event.gpu, event.bytes))
        self._want(tenant)

    def _freed(self, event: ev.Freed) -> None:
        if entry := self._entry(event.tenant, event.gpu):
            entry.allocated_bytes = max(0, entry.allocated_bytes - event.bytes)
            if event.pinned:
                entry.pinned_bytes = max(0, entry.pinned_bytes - event.bytes)
            entry.charged_bytes = max(0, entry.charged_bytes - event.resident_bytes)
            entry.evicting_bytes = min(entry.evicting_bytes, entry.charged_bytes)

    def _wanted(self, event: ev.Wanted) -> None:
        if tenant := self._ledger.tenants.get(event.tenant):
            self._want(tenant)

    def _restored(self, event: ev.Restored) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is not None and tenant.state is State.COMING:
            tenant.restoring = False
            for gpu, entry in tenant.gpus.items():
                entry.charged_bytes = entry.allocated_bytes - tenant.pending_bytes(gpu)

    def _residency(self, event: ev.Residency) -> None:
        if entry := self._entry(event.tenant, event.gpu):
            entry.charged_bytes = min(event.resident_bytes, entry.allocated_bytes)

    def _drained(self, event: ev.Drained) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is None or tenant.state is not State.DRAINING or event.epoch != tenant.epoch:
            return
        again = tenant.wants_again or bool(tenant.requests)
        self._move(tenant, Cause.DRAINED_WANTING if again else Cause.DRAINED)

    def _evicted(self, event: ev.Evicted) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        entry = self._entry(event.tenant, event.gpu)
        if tenant is None or entry is None:
            return
        entry.charged_bytes = min(event.resident_bytes, entry.charged_bytes)
        entry.evicting_bytes = max(0, entry.evicting_bytes - event.bytes)
        if event.last:
            entry.evicting_bytes = 0
        if event.failed:
            tenant.stuck = True

    def _idled(self, event: ev.Idle) -> None:
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant and tenant.state is State.HOLDING and tenant.epoch == event.epoch:
            tenant.idle = True
            tenant.watched_s = 0.0

    def _pinned(self, event: ev.Pinned) -> None:
        if tenant := self._ledger.tenants.get(event.tenant):
            tenant.pinned = True

    def _ticked(self, event: ev.Tick) -> None:
        del event

    def _settle(self, event: ev.Settled) -> None:
        del event
        self._settled = True

    # What follows from it

    def _advance(self) -> None:
        self._deadline_s = None
        self._finish_coming()
        self._answer_requests()
        self._shed_holders()
        self._take_turns()
        self._order_evictions()
        self._give_room()
        self._finish_coming()
        self._answer_requests()
        self._report_overdue()
        for tenant in self._ledger.tenants.values():
            tenant.idle = False

    def _take_turns(self) -> None:
        """Choose whoever fits, first come first; revoke for the first who does not."""
        demands = [t for t in self._ledger.tenants.values() if self._is_growing(t)]
        demands += [self._ledger.tenants[n] for n in list(self._queue)]
        busy: set[int] = set()
        watched: set[int] = set()
        for tenant in demands:
            if tenant.state not in (State.HOLDING, State.WAITING):
                continue  # revoked for somebody before it in this very loop
            tenant.blocked_by = ""
            if busy & tenant.gpus.keys():
                tenant.blocked_by = "others are ahead in the queue"
                continue
            if self._fits(tenant) or self._revoke_for(tenant, watched):
                if tenant.state is State.WAITING:
                    self._queue.remove(tenant.number)
                    self._move(tenant, Cause.CHOSEN)
            else:
                busy |= tenant.gpus.keys()
        for tenant in self._ledger.tenants.values():
            if tenant.watched_s and tenant.number not in watched:
                tenant.watched_s = 0.0
                if tenant.state is State.HOLDING:
                    self._out.append(do.Watch(tenant.number, 0.0))

    def _revoke_for(self, tenant: Tenant, watched: set[int]) -> bool:
        """Revoke the longest holders whose turn is over until `tenant` fits; False if it cannot.

        Those whose turn is not over are watched, and their turn's end becomes the deadline.
        """
        blockers = [
            other
            for other in self._ledger.tenants.values()
            if other is not tenant and other.stays and other.gpus.keys() & tenant.gpus.keys()
        ]
        blockers.sort(key=lambda t: (not t.idle, t.since_s))
        over = [t for t in blockers if t.state is State.HOLDING and self._turn_is_over(t)]
        leaving: set[int] = set()
        for other in over:
            if self._helps(tenant, other):
                leaving.add(other.number)
            if self._fits(tenant, frozenset(leaving)):
                for number in leaving:
                    self._revoke(self._ledger.tenants[number])
                return True
        held = [t for t in blockers if t.state is State.HOLDING and self._helps(tenant, t)]
        for other in held:
            self._watch(other, tenant, watched)
            if not self._turn_is_over(other):
                self._wake_at(other.turn_ends_s)
        names = ", ".join(str(t.number) for t in blockers if self._helps(tenant, t))
        tenant.blocked_by = f"tenant {names} holds the GPU" if names else "memory cannot leave"
        return False

    def _shed_holders(self) -> None:
        """Revoke the longest holders where a new context left too little room for them all."""
        for gpu in self._ledger.specs:
            stays = [t for t, _ in self._ledger.on(gpu) if t.stays]
            stays.sort(key=lambda t: t.since_s)
            for tenant in stays:
                if self._ledger.fits_bytes(tenant, gpu) >= 0:
                    break
                if tenant.state is not State.HOLDING:
                    continue
                if self._turn_is_over(tenant):
                    self._revoke(tenant)
                    self._want(tenant)
                else:
                    self._wake_at(tenant.turn_ends_s)
                    break

    def _watch(self, holder: Tenant, waiter: Tenant, watched: set[int]) -> None:
        move = sum(
            max(0, waiter.gpus[gpu].allocated_bytes - waiter.gpus[gpu].charged_bytes)
            for gpu in waiter.gpus
        )
        idle_s = self._turns.idle_s(move)
        watched.add(holder.number)
        if not holder.watched_s or idle_s < holder.watched_s:
            holder.watched_s = idle_s
            self._out.append(do.Watch(holder.number, idle_s))

    def _order_evictions(self) -> None:
        """Order out what those who come or grow still miss, from whoever runs furthest away."""
        for gpu in self._ledger.specs:
            short = -self._ledger.free_bytes(gpu) - self._ledger.evicting_bytes(gpu)
            for tenant, entry in self._ledger.on(gpu):
                if tenant.state is State.COMING or self._is_growing(tenant):
                    short += entry.allocated_bytes - entry.charged_bytes
            for victim in self._victims(gpu):
                if short <= 0:
                    break
                amount = min(short, victim.evictable_bytes(gpu))
                if amount > 0:
                    victim.gpus[gpu].evicting_bytes += amount
                    short -= amount
                    self._out.append(do.Evict(victim.number, gpu, amount))

    def _victims(self, gpu: int) -> list[Tenant]:
        """Who wants nothing first, least recently used first; then the queue from its end."""
        known = {number: place for place, number in enumerate(self._queue)}
        tenants = [t for t, _ in self._ledger.on(gpu)]
        out = sorted((t for t in tenants if t.number not in known), key=lambda t: t.since_s)
        waiting = sorted((t for t in tenants if t.number in known), key=lambda t: -known[t.number])
        return out + waiting

    def _give_room(self) -> None:
        for tenant in self._ledger.tenants.values():
            if tenant.state is not State.COMING:
                continue
            for gpu, entry in tenant.gpus.items():
                amount = min(self._ledger.free_bytes(gpu), tenant.missing_bytes(gpu))
                if amount > 0:
                    entry.charged_bytes += amount
                    tenant.coming_bytes += amount
                    tenant.restoring = True
                    self._out.append(do.Room(tenant.number, gpu, amount))

    def _finish_coming(self) -> None:
        for tenant in self._ledger.tenants.values():
            if tenant.state is not State.COMING or tenant.restoring:
                continue
            if any(tenant.missing_bytes(gpu) for gpu in tenant.gpus):
                continue
            self._turns.moved(tenant, self._now_s)
            self._move(tenant, Cause.READY)
            tenant.epoch += 1
            tenant.turns += 1
            tenant.stuck = False
            tenant.turn_ends_s = self._now_s + self._turns.turn_s(tenant)
            self._out.append(do.Grant(tenant.number, tenant.epoch))

    def _answer_requests(self) -> None:
        for tenant in self._ledger.tenants.values():
            if not tenant.requests:
                continue
            waiting = []
            for request in tenant.requests:
                entry = tenant.gpus[request.gpu]
                free = self._ledger.free_bytes(request.gpu) - self._promised_bytes(request.gpu)
                ready = request.is_context or tenant.state is State.HOLDING
                if ready and free >= request.bytes:
                    entry.charged_bytes += request.bytes
                    self._out.append(do.Admitted(tenant.number, request.gpu, request.serial))
                else:
                    waiting.append(request)
            tenant.requests = waiting

    def _report_overdue(self) -> None:
        for tenant in self._ledger.tenants.values():
            if tenant.state is not State.DRAINING:
                continue
            if self._now_s >= tenant.overdue_s:
                waited_s = self._now_s - tenant.since_s
                self._out.append(
                    do.Overdue(tenant.number, waited_s, kill=self._settings.overdue_kill)
                )
                tenant.overdue_s = self._now_s + self._settings.revoke_deadline_s
            self._wake_at(tenant.overdue_s)

    # Small questions and moves

    def _is_growing(self, tenant: Tenant) -> bool:
        return tenant.state is State.HOLDING and any(not r.is_context for r in tenant.requests)

    def _promised_bytes(self, gpu: int) -> int:
        """Room that those who are coming still lack; nobody may take it from them."""
        return sum(t.missing_bytes(gpu) for t, _ in self._ledger.on(gpu) if t.state is State.COMING)

    def _fits(self, tenant: Tenant, leaving: frozenset[int] = frozenset()) -> bool:
        return all(self._ledger.fits_bytes(tenant, gpu, leaving) >= 0 for gpu in tenant.gpus)

    def _helps(self, tenant: Tenant, other: Tenant) -> bool:
        """Whether revoking `other` would free something where `tenant` does not fit."""
        return any(
            self._ledger.fits_bytes(tenant, gpu) < 0
            and gpu in other.gpus
            and other.gpus[gpu].allocated_bytes > other.unmovable_bytes(gpu)
            for gpu in tenant.gpus
        )

    def _turn_is_over(self, tenant: Tenant) -> bool:
        return tenant.idle or self._now_s >= tenant.turn_ends_s

    def _revoke(self, tenant: Tenant) -> None:
        self._move(tenant, Cause.REVOKED)
        tenant.overdue_s = self._now_s + self._settings.revoke_deadline_s
        self._out.append(do.Revoke(tenant.number, tenant.epoch))

    def _want(self, tenant: Tenant) -> None:
        if tenant.state is State.OUT:
            self._move(tenant, Cause.WANTED)
        elif tenant.state is State.DRAINING:
            tenant.wants_again = True

    def _move(self, tenant: Tenant, cause: Cause) -> None:
        if tenant.state is State.DRAINING or tenant.state is State.HOLDING:
            tenant.held_s += self._now_s - tenant.since_s
        tenant.state = after(tenant.state, cause)
        tenant.since_s = self._now_s
        tenant.wants_again = False
        tenant.watched_s = 0.0
        if tenant.state is State.WAITING:
            self._queue.append(tenant.number)
        if tenant.state is State.COMING:
            tenant.coming_bytes = 0

    def _wake_at(self, when_s: float) -> None:
        if self._deadline_s is None or when_s < self._deadline_s:
            self._deadline_s = when_s

    def _entry(self, tenant: int, gpu: int) -> OnGpu | None:
        known = self._ledger.tenants.get(tenant)
        return known.gpus.get(gpu) if known else None

    def _refuse(self, event: ev.Attached | ev.Asked, code: str, text: str) -> None:
        self._out.append(do.Refused(event.tenant, event.gpu, event.serial, code, text))


_APPLY: dict[type, Callable[..., None]] = {
    ev.Joined: Arbiter._joined,
    ev.Left: Arbiter._left,
    ev.Attached: Arbiter._attached,
    ev.Measured: Arbiter._measured,
    ev.Detached: Arbiter._detached,
    ev.Asked: Arbiter._asked,
    ev.Freed: Arbiter._freed,
    ev.Wanted: Arbiter._wanted,
    ev.Restored: Arbiter._restored,
    ev.Residency: Arbiter._residency,
    ev.Drained: Arbiter._drained,
    ev.Evicted: Arbiter._evicted,
    ev.Idle: Arbiter._idled,
    ev.Pinned: Arbiter._pinned,
    ev.Tick: Arbiter._ticked,
    ev.Settled: Arbiter._settle,
}
