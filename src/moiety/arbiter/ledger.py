"""The ledger of one node: each tenant's bytes on each GPU, the queue of tenants, and the sums.

The ledger is the only writer of bytes. Every change brings the sums of its GPU up to date, so that
no code adds them up again. `touch` follows a change of which bytes may leave or are requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from moiety.arbiter.instructions import StateChanged
from moiety.arbiter.settings import GpuSpec
from moiety.arbiter.state.balance import Balance, entry_of
from moiety.arbiter.state.promise import NOTHING
from moiety.arbiter.state.residency import NOT_POSTED, Request, Residency
from moiety.arbiter.state.tenant import Tenant, TenantGang
from moiety.arbiter.states import REVOKED, STAYING, WITH_LEASE, Cause, State, after


class Ledger:
    """Tenants, queue and sums over them. It decides nothing."""

    def __init__(self, gpus: Iterable[GpuSpec], arena_bytes: int) -> None:
        self.specs = {spec.gpu: spec for spec in gpus}
        self._balances = {gpu: Balance() for gpu in self.specs}
        self.arena_bytes = arena_bytes
        self.arena_reason = ""
        """Why the arena is smaller than was wanted; empty if it is not."""
        self._changes: list[StateChanged] = []
        self.lost: set[int] = set()  # their specs say that there is always room
        self.tenants: dict[int, Tenant] = {}
        self.gangs: dict[str, TenantGang] = {}
        self.user_limits: Mapping[int, tuple[int, str]] = {}
        """By uid: what all tenants of a user may allocate on one GPU, and the rule in words."""
        self.promises = dict.fromkeys(self.specs, NOTHING)
        """By GPU: what is kept for workloads that use no GPU yet."""
        self.unasked_pins: dict[int, None] = {}  # tenants pinned without a request, in this order
        self.queue: list[int] = []
        self.members_changed = True
        """True after a tenant came or went, on one GPU or all, or a share or gang changed."""
        self.parts_changed = True
        """True after a change of the tenants that want GPU time."""

    def on(self, gpu: int) -> Iterator[tuple[Tenant, Residency]]:
        """The tenants that have a context on this GPU, in order of arrival."""
        for tenant in self.tenants.values():
            if (entry := tenant.gpus.get(gpu)) is not None:
                yield tenant, entry

    def units(self, gpu: int, *, reach: bool = False) -> Iterator[tuple[Tenant, int, int]]:
        """Each gang, as one of its members, and each tenant without a gang, with bytes on this GPU.

        The bytes are the allocated and the promised ones; for a gang, those of all its members.
        `reach`: bytes that were freed just now count as allocated.
        """
        sums: dict[str, tuple[Tenant, int, int]] = {}
        for tenant, on in self.on(gpu):
            allocated = on.reach_bytes if reach else on.allocated_bytes
            own = (tenant, allocated, tenant.promised_bytes(on))
            if tenant.gang is None:
                yield own
            elif found := sums.get(tenant.gang.name):
                sums[tenant.gang.name] = (found[0], found[1] + own[1], found[2] + own[2])
            else:
                sums[tenant.gang.name] = own
        yield from sums.values()

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
        if before is State.IDLE or state is State.IDLE:
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
        on = tenant.gpus[request.gpu]
        on.allocated_bytes += request.bytes
        if request.pinned:
            on.pinned_bytes += request.bytes
        if request.managed:
            on.managed_bytes += request.bytes
        tenant.requests.append(request)
        self._post(tenant, request.gpu, on)

    def withdraw(self, tenant: Tenant, request: Request) -> None:
        """Undo `admit` for a request that is refused after all."""
        on = tenant.gpus[request.gpu]
        on.allocated_bytes -= request.bytes
        if request.pinned:
            on.pinned_bytes -= request.bytes
        if request.managed:
            on.managed_bytes -= request.bytes
        tenant.requests.remove(request)
        self._post(tenant, request.gpu, on)

    def charge(self, tenant: Tenant, request: Request) -> None:
        """Charge a tenant with the bytes of a request that is answered."""
        on = tenant.gpus[request.gpu]
        on.charged_bytes += request.bytes
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
        if pinned:
            on.pinned_bytes = max(0, on.pinned_bytes - freed)
        if managed:
            on.managed_bytes = max(0, on.managed_bytes - freed)
        on.charged_bytes = max(0, on.charged_bytes - resident)
        if gpu in tenant.memory.counted:
            tenant.memory.counted[gpu] -= resident
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
        tenant.gpus[gpu].limit_bytes = most

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
        on.charged_bytes = min(on.charged_bytes, on.allocated_bytes - tenant.pending_bytes(gpu))
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

    def balances(self) -> dict[int, Balance]:
        """The sums of every GPU, which follow every change; their capacities as of now."""
        for gpu, balance in self._balances.items():
            balance.capacity_bytes = self._capacity_bytes(gpu, balance)
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
            capacity = self._stretched_bytes(gpu, capacity, balance.expected_bytes)
        return max(0, capacity - balance.needed_bytes)

    def _stretched_bytes(self, gpu: int, capacity: int, expected: int) -> int:
        """The capacity where contexts turned out larger than expected.

        Resident bytes stay, and each tenant that was admitted must be able to come back, at the
        cost of the headroom. The result is never more than was promised with the expected residue.
        """
        spec = self.specs[gpu]
        promised = sum(t.promised_bytes(on) for t, on in self.on(gpu))
        most = max(allocated - stays for _, allocated, stays in self.units(gpu)) + promised
        charged = sum(on.charged_bytes for _, on in self.on(gpu))
        limit = min(spec.capacity_bytes, spec.total_bytes - expected)
        return max(capacity, min(limit, max(most, charged)))
