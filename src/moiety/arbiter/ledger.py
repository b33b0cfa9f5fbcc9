"""The ledger of one node: each tenant's bytes on each GPU, the queue of tenants, and the sums.

It alone writes bytes, and every change brings the sums of its GPU up to date.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from moiety.arbiter.instructions import StateChanged
from moiety.arbiter.settings import GpuSpec
from moiety.arbiter.state.balance import Balance, entry_of, stretched_bytes
from moiety.arbiter.state.gang import units_of
from moiety.arbiter.state.oversubscription import oversubscribed_bytes
from moiety.arbiter.state.promise import NOTHING, Guarantees
from moiety.arbiter.state.residency import NOT_POSTED, Content, Request, Residency
from moiety.arbiter.state.tenant import Tenant, TenantGang
from moiety.arbiter.states import RESTING, REVOKED, STAYING, WITH_LEASE, Cause, State, after


class Ledger:
    """Tenants, queue and sums over them. It decides nothing."""

    def __init__(self, gpus: Iterable[GpuSpec], arena_bytes: int) -> None:
        self.specs = {spec.gpu: spec for spec in gpus}
        self._balances = {gpu: Balance() for gpu in self.specs}
        self.arena_bytes = arena_bytes
        self.arena_reason = ""  # why it is smaller than was wanted; empty if it is not
        self.overcommit = 1.0  # requests may exceed GPUs and arena by this factor
        self.checks_host_room = False  # True once it was above 1
        self._changes: list[StateChanged] = []
        self.lost: set[int] = set()  # their specs say that there is always room
        self.tenants: dict[int, Tenant] = {}
        self.gangs: dict[str, TenantGang] = {}
        self.guarantees = Guarantees()
        self.user_limits: Mapping[int, tuple[int, str]] = {}
        self.user_parts: Mapping[int, tuple[float, str]] = {}
        """By uid: what all tenants of a user may allocate on one GPU, and the rule."""
        self.promises = dict.fromkeys(self.specs, NOTHING)  # for who uses no GPU yet, by GPU
        self.unasked_pins: dict[int, None] = {}  # tenants pinned without a request, in this order
        self.suspended: dict[int, None] = {}  # tenants that are, in this order
        self.queue: list[int] = []
        self.members_changed = True
        """True after a tenant came or went, or a share, gang or guarantee changed."""
        self.parts_changed = True
        """True after a change of the tenants that want GPU time."""

    def on(self, gpu: int) -> Iterator[tuple[Tenant, Residency]]:
        """The tenants that have a context on this GPU, in order of arrival."""
        for tenant in self.tenants.values():
            if (entry := tenant.gpus.get(gpu)) is not None:
                yield tenant, entry

    def units(self, gpu: int, *, reach: bool = False) -> Iterator[tuple[Tenant, int, int]]:
        """Each gang, as one of its members, and each tenant without a gang, with bytes on this GPU.

        The bytes are the required and the promised ones; for a gang, those of all its members.
        `reach`: bytes that were freed just now count as allocated.
        """
        return units_of(self.on(gpu), reach=reach)

    def entry(self, tenant: int, gpu: int) -> Residency | None:
        """A tenant's bytes on a GPU; None when either is not known."""
        known = self.tenants.get(tenant)
        return known.gpus.get(gpu) if known else None

    def transition(self, tenant: Tenant, cause: Cause, now_s: float) -> None:
        """Change a tenant's state, and its place in the queue with it.

        No other function writes a state. Raises KeyError for a transition that does not exist.
        """
        before = tenant.state
        tenant.state = state = after(before, cause)
        self.end_stay(tenant, tuple(tenant.gpus), before, state)
        drain, usage = tenant.drain, tenant.usage
        if state in WITH_LEASE:
            for on in tenant.gpus.values():
                on.content, on.recounts = None, 0
        if before in RESTING or state in RESTING:
            self.parts_changed = True
        if before is State.QUEUED:
            self.queue.remove(tenant.number)
        elif before in WITH_LEASE or before is State.DRAINING:
            tenant.lease.held_s += now_s - tenant.since_s
        if state is State.QUEUED:
            if cause is Cause.POSTPONED:
                self.queue.insert(0, tenant.number)
            else:
                self.queue.append(tenant.number)
                tenant.lease.waits_since_s = now_s
        drain.wants_again = drain.wants_again and state in REVOKED
        was_detained = drain.detained
        drain.answered = drain.detained = False
        tenant.since_s = now_s
        usage.watched_s = 0.0
        if state is State.QUEUED or state is State.HOLDING:
            usage.silent_since_s = None
        tenant.blocked_by = ""
        if was_detained or (before in STAYING) != (state in STAYING):
            self.touch(tenant)

    def end_stay(
        self, tenant: Tenant, gpus: tuple[int, ...], before: State, after: State | None = None
    ) -> None:
        """Note that a tenant's stay in a state ends now on these GPUs."""
        change = StateChanged(tenant.number, gpus, before, tenant.since_s, after)
        self._changes.append(change)

    def take_changes(self) -> list[StateChanged]:
        """The stays that have ended since the last call."""
        taken, self._changes = self._changes, []
        return taken

    # Tenants

    def add(self, tenant: Tenant) -> None:
        """Enter a tenant, with the bytes that it has already."""
        self.tenants[tenant.number] = tenant
        for gpu, on in tenant.gpus.items():
            self._balances[gpu].tenants += 1
            self._post(tenant, gpu, on)

    def remove(self, tenant: Tenant) -> None:
        """Forget a tenant: its bytes are free."""
        for gpu in list(tenant.gpus):
            self.detach(tenant, gpu)
        del self.tenants[tenant.number]
        if tenant.number in self.queue:
            self.queue.remove(tenant.number)

    def attach(self, tenant: Tenant, gpu: int, on: Residency) -> None:
        """Enter a tenant's residency on a GPU, in place of the one that was known."""
        if gpu in tenant.gpus:
            self._unpost(gpu, tenant.gpus[gpu])
        tenant.gpus[gpu] = on
        self.limit(tenant, gpu, on.limit_bytes)
        self._balances[gpu].tenants += 1
        self._post(tenant, gpu, on)

    def detach(self, tenant: Tenant, gpu: int) -> Residency:
        """Forget a tenant's residency on a GPU, and return it."""
        on = tenant.gpus.pop(gpu)
        self._unpost(gpu, on)
        return on

    def touch(self, tenant: Tenant) -> None:
        """Bring the sums up to date after a change of which bytes may leave or are requested."""
        for gpu, on in tenant.gpus.items():
            self._post(tenant, gpu, on)

    # Bytes

    def admit(self, tenant: Tenant, request: Request) -> None:
        """Count the bytes of a request as allocated; they are charged once it is answered."""
        tenant.requests.append(request)
        self._add(tenant, request, request.bytes)

    def withdraw(self, tenant: Tenant, request: Request) -> None:
        """Undo `admit` for a request that is refused after all."""
        tenant.requests.remove(request)
        self._add(tenant, request, -request.bytes)

    def _add(self, tenant: Tenant, request: Request, more: int) -> None:
        on = tenant.gpus[request.gpu]
        on.allocated_bytes += more
        on.pinned_bytes += more * request.pinned
        on.managed_bytes += more * request.managed
        self._post(tenant, request.gpu, on)

    def charge(self, tenant: Tenant, request: Request) -> None:
        """Charge a tenant with the bytes of a request that is answered, as far as they fit."""
        on = tenant.gpus[request.gpu]
        on.charged_bytes += max(0, min(request.bytes, on.need_bytes - on.charged_bytes))
        tenant.requests.remove(request)
        self._post(tenant, request.gpu, on)

    def release(
        self,
        tenant: Tenant,
        gpu: int,
        freed: int,
        resident: int,
        *,
        pinned: bool = False,
        managed: bool = False,
    ) -> None:
        """Count bytes as freed, of which `resident` were on the GPU."""
        on = tenant.gpus[gpu]
        resident = min(resident, freed)
        on.allocated_bytes = max(tenant.pending_bytes(gpu), on.allocated_bytes - freed)
        on.pinned_bytes = max(0, on.pinned_bytes - freed * pinned)
        on.managed_bytes = max(0, on.managed_bytes - freed * managed)
        on.charged_bytes = max(0, on.charged_bytes - resident)
        if gpu in tenant.memory.counted:
            tenant.memory.counted[gpu] -= resident
        on.void_content()  # what was freed may have been zeros, or data
        self._trim(tenant, gpu, on)

    def pin(self, tenant: Tenant, gpu: int, more: int) -> None:
        """Pin bytes of a tenant, up to all that the driver does not page; fewer if negative."""
        on = tenant.gpus[gpu]
        most = on.allocated_bytes - on.managed_bytes
        on.pinned_bytes = max(0, min(most, on.pinned_bytes + more))
        self._post(tenant, gpu, on)

    def inherit(self, tenant: Tenant, gpu: int, more: int) -> None:
        """Charge a tenant with bytes that another tenant allocated and that cannot leave."""
        on = tenant.gpus[gpu]
        on.allocated_bytes += more
        on.pinned_bytes += more
        on.inherited_bytes += more
        on.charged_bytes += more
        self._post(tenant, gpu, on)

    def disown(self, tenant: Tenant, gpu: int, less: int) -> None:
        """End the charge for bytes that another tenant allocated."""
        on = tenant.gpus[gpu]
        gone = min(less, on.inherited_bytes)
        on.inherited_bytes -= gone
        on.allocated_bytes -= gone
        on.pinned_bytes = max(0, on.pinned_bytes - gone)
        on.charged_bytes = max(0, on.charged_bytes - gone)
        self._post(tenant, gpu, on)

    def measure(self, tenant: Tenant, gpu: int, residue: int) -> None:
        """Replace the size of a context by the measured one, which includes the driver reserve."""
        on = tenant.gpus[gpu]
        on.residue_bytes, on.needed_bytes = residue, 0
        self._post(tenant, gpu, on)

    def reserve(self, tenant: Tenant, gpu: int, least: int) -> None:
        """Keep at least `least` bytes free for what a driver allocates by itself."""
        on = tenant.gpus[gpu]
        on.needed_bytes = max(on.needed_bytes, least)
        self._post(tenant, gpu, on)

    def end_reserve(self, tenant: Tenant) -> None:
        """Keep nothing free for a tenant's driver any more."""
        for gpu, on in tenant.gpus.items():
            on.needed_bytes = 0
            self._post(tenant, gpu, on)

    def limit(self, tenant: Tenant, gpu: int, most: int) -> None:
        """Set the most bytes that a tenant may allocate on a GPU."""
        on = tenant.gpus[gpu]
        on.limit_bytes = most
        on.may_oversubscribe = most > self.specs[gpu].capacity_bytes or on.oversubscribed_bytes > 0

    def restore(self, tenant: Tenant, gpu: int, more: int) -> None:
        """Charge a tenant with room that it may restore bytes into."""
        on = tenant.gpus[gpu]
        on.charged_bytes += more
        tenant.memory.coming_bytes += more
        self._post(tenant, gpu, on)

    def begin_turn(self, tenant: Tenant) -> None:
        """Forget how many bytes a tenant's restore moved, and that an eviction failed."""
        tenant.memory.coming_bytes = 0
        if tenant.drain.stuck_until_s:
            tenant.drain.stuck_until_s = 0.0
            self.touch(tenant)

    def count_content(self, tenant: Tenant, gpu: int, content: Content) -> None:
        """Note what of a tenant's bytes is zeros, and what is in host memory."""
        on = tenant.gpus[gpu]
        on.content_asked, on.content = False, content

    def order(self, tenant: Tenant, gpu: int, amount: int) -> None:
        """Note that a tenant was told to evict bytes."""
        on = tenant.gpus[gpu]
        on.orders.append(amount)
        self._post(tenant, gpu, on)

    def evict(self, tenant: Tenant, gpu: int, moved: int, resident: int, *, last: bool) -> None:
        """Count bytes that left the GPU; the last ones end the oldest order.

        The end of an order voids the rest of the tenant's room: it gets no new room before the
        last order ends.
        """
        on = tenant.gpus[gpu]
        tenant.memory.evicted_bytes += moved
        on.charged_bytes = max(0, on.charged_bytes - moved)
        on.orders[0] = max(0, on.orders[0] - moved)
        on.content = None if last or on.content is None else on.content.moved(moved)
        if last:
            on.orders.pop(0)
            self._recharge(tenant, gpu, on, resident)
        else:
            self._post(tenant, gpu, on)

    def count(self, tenant: Tenant) -> None:
        """Charge a tenant that has drained with the resident bytes that it counted."""
        for gpu, resident in tenant.memory.counted.items():
            self._recharge(tenant, gpu, tenant.gpus[gpu], resident)
        tenant.memory.counted.clear()

    def _recharge(self, tenant: Tenant, gpu: int, on: Residency, resident: int) -> None:
        on.charged_bytes = max(0, resident) + on.inherited_bytes
        self._trim(tenant, gpu, on)

    def _trim(self, tenant: Tenant, gpu: int, on: Residency) -> None:
        """Forget what goes beyond a tenant's bytes: room for bytes that it freed meanwhile."""
        on.pinned_bytes = min(on.pinned_bytes, on.allocated_bytes)
        on.managed_bytes = min(on.managed_bytes, on.allocated_bytes)
        on.oversubscribed_bytes = min(on.oversubscribed_bytes, on.managed_bytes)
        most = max(0, on.need_bytes - tenant.pending_bytes(gpu))
        on.charged_bytes = min(on.charged_bytes, most)
        self._post(tenant, gpu, on)

    # Credit

    def grant_credit(self, tenant: Tenant, gpu: int, more: int, most: int) -> None:
        """Count bytes as allocated and resident that a process may allocate from now on."""
        on = tenant.gpus[gpu]
        on.credit.most_bytes = max(on.credit.most_bytes, most)
        on.credit.left_bytes += more
        on.allocated_bytes += more
        on.charged_bytes += more
        self._post(tenant, gpu, on)

    def use_credit(self, tenant: Tenant, gpu: int, taken: int, spare: int) -> None:
        """Count bytes that a process allocated from its credit, which counted already."""
        on = tenant.gpus[gpu]
        on.credit.left_bytes -= min(taken, on.credit.left_bytes)
        on.credit.spare_bytes = max(0, on.credit.spare_bytes - spare)
        self._post(tenant, gpu, on)

    def refill_credit(self, tenant: Tenant, gpu: int, freed: int, spare: int) -> None:
        """Return freed bytes to the credit of a process; `spare` of them stay on the GPU."""
        on = tenant.gpus[gpu]
        on.credit.left_bytes += min(freed, on.allocated_bytes - on.credit.left_bytes)
        on.credit.spare_bytes = min(on.credit.left_bytes, on.credit.spare_bytes + spare)

    def return_credit(self, tenant: Tenant, gpu: int, left: int) -> None:
        """Release the bytes that a process had left of its credit."""
        on = tenant.gpus[gpu]
        gone = min(left, on.credit.left_bytes)
        on.credit.left_bytes -= gone
        on.allocated_bytes -= gone
        on.charged_bytes = max(0, on.charged_bytes - gone)
        on.credit.spare_bytes = 0
        self._trim(tenant, gpu, on)

    # Sums

    def set_arena(self, arena_bytes: int, reason: str) -> None:
        """Set the host memory for evicted bytes, and why it is less than was wanted."""
        self.arena_bytes, self.arena_reason = arena_bytes, reason

    def set_overcommit(self, factor: float) -> None:
        """Set by how much requests may exceed what the GPUs and the arena hold."""
        self.overcommit = factor
        self.checks_host_room = self.checks_host_room or factor > 1

    def balances(self) -> dict[int, Balance]:
        """The sums of every GPU, which follow every change; their capacities as of now."""
        for gpu, balance in self._balances.items():
            balance.capacity_bytes = self._capacity_bytes(gpu, balance)
            for tenant, on in self.on(gpu) if balance.managed_bytes else ():
                room = balance.capacity_bytes - self.promises[gpu].memory_bytes
                on.oversubscribed_bytes = oversubscribed_bytes(tenant, on, room, self.on(gpu))
                self.limit(tenant, gpu, on.limit_bytes)
                self._trim(tenant, gpu, on)
        return self._balances

    def balance(self, gpu: int) -> Balance:
        """A copy of the sums of one GPU."""
        balance = self._balances[gpu]
        return replace(balance, capacity_bytes=self._capacity_bytes(gpu, balance))

    def recount(self) -> None:
        """Compare the sums with a full recount; raises AssertionError where they differ."""
        counted = {gpu: Balance() for gpu in self.specs}
        for tenant in self.tenants.values():
            for gpu, on in tenant.gpus.items():
                counted[gpu].tenants += 1
                counted[gpu].add(entry_of(tenant, gpu, on), NOT_POSTED)
        for gpu, balance in counted.items():
            balance.capacity_bytes = self._balances[gpu].capacity_bytes
            assert balance == self._balances[gpu], (gpu, self._balances[gpu], balance)

    def _post(self, tenant: Tenant, gpu: int, on: Residency) -> None:
        entry = entry_of(tenant, gpu, on)
        if entry != on.posted:
            self._balances[gpu].add(entry, on.posted)
            on.posted = entry

    def _unpost(self, gpu: int, on: Residency) -> None:
        self._balances[gpu].tenants -= 1
        self._balances[gpu].add(NOT_POSTED, on.posted)
        on.posted = NOT_POSTED

    def _capacity_bytes(self, gpu: int, balance: Balance) -> int:
        spec = self.specs[gpu]
        capacity = max(0, min(spec.capacity_bytes, spec.total_bytes - balance.residue_bytes))
        if balance.expected_bytes < balance.residue_bytes and capacity < spec.capacity_bytes:
            expected = balance.expected_bytes
            capacity = stretched_bytes(spec, capacity, expected, self.on(gpu), self.units(gpu))
        return max(0, capacity - balance.needed_bytes)
