"""What is known of a node: who has how many bytes where, who is in the queue, and the sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from moiety.arbiter.instructions import StateChanged
from moiety.arbiter.schedule.gangs import Gang
from moiety.arbiter.settings import GpuSpec
from moiety.arbiter.state.tenant import Residency, Tenant
from moiety.arbiter.states import REVOKED, WITH_LEASE, Cause, State, after


@dataclass(slots=True)
class Balance:
    """One GPU's sums."""

    tenants: int = 0
    """who has a context there"""
    capacity_bytes: int = 0
    """what tenants' data may take"""
    allocated_bytes: int = 0
    """what all tenants have together, wherever it is"""
    charged_bytes: int = 0
    """resident, or given as room"""
    leaving_bytes: int = 0
    """ordered out and still there"""
    staying_bytes: int = 0
    """all of those who hold or come, and what cannot leave of the others"""
    pending_bytes: int = 0
    """part of `staying_bytes`: asked for and not answered"""
    firm_bytes: int = 0
    """what would stay if nobody held"""
    residue_bytes: int = 0
    expected_bytes: int = 0
    """the residue that was let in; what was measured since may be more"""
    needed_bytes: int = 0
    """kept free for what drivers are about to take"""

    @property
    def free_bytes(self) -> int:
        """Neither resident nor given as room; negative while room is made for a context."""
        return self.capacity_bytes - self.charged_bytes

    @property
    def is_crowded(self) -> bool:
        """Whether not all who are there could hold together."""
        return self.allocated_bytes > self.capacity_bytes


class Ledger:
    """Tenants, queue and sums over them. It decides nothing."""

    def __init__(self, gpus: Iterable[GpuSpec], arena_bytes: int) -> None:
        self.specs = {spec.gpu: spec for spec in gpus}
        self.arena_bytes = arena_bytes
        self.arena_reason = ""
        """why that is less than was wanted, if it is"""
        self._changes: list[tuple[int, tuple[int, ...], State, float, State | None]] = []
        """The fields of each `StateChanged` that was not yielded yet."""
        self.lost: set[int] = set()
        """GPUs that are gone: their specs say that there is always room"""
        self.tenants: dict[int, Tenant] = {}
        self.gangs: dict[str, Gang] = {}
        self.owner_limits: Mapping[int, tuple[int, str]] = {}
        """by user: what its tenants may allocate together on one GPU, and the rule in words"""
        self.queue: list[int] = []
        self.parts_changed = True
        """who wants something, or what they were promised, is not what it was"""

    def on(self, gpu: int) -> Iterator[tuple[Tenant, Residency]]:
        """The tenants that have a context on this GPU, in order of arrival."""
        for tenant in self.tenants.values():
            entry = tenant.gpus.get(gpu)
            if entry is not None:
                yield tenant, entry

    def units(self, gpu: int) -> Iterator[tuple[Tenant, int, int]]:
        """Those who hold together: one of each, what they have on this GPU, and what of it stays.

        That is allocated and promised bytes, of all its members for a gang.
        """
        sums: dict[str, tuple[Tenant, int, int]] = {}
        for tenant, on in self.on(gpu):
            own = (tenant, on.allocated_bytes, tenant.promised_bytes(on))
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
        tenant.state = after(before, cause)
        self.end_stay(tenant, tuple(tenant.gpus), before, tenant.state)
        if before is State.IDLE or tenant.state is State.IDLE:
            self.parts_changed = True
        if before is State.QUEUED:
            self.queue.remove(tenant.number)
        elif before in WITH_LEASE or before is State.DRAINING:
            tenant.held_s += now_s - tenant.since_s
        if tenant.state is State.QUEUED:
            if cause is Cause.POSTPONED:
                self.queue.insert(0, tenant.number)
            else:
                self.queue.append(tenant.number)
                tenant.waits_since_s = now_s
        if tenant.state not in REVOKED:
            tenant.wants_again = False
        tenant.answered = tenant.detained = False
        tenant.since_s = now_s
        tenant.watched_s = 0.0
        if tenant.state is State.QUEUED or tenant.state is State.HOLDING:
            tenant.silent_since_s = None
        tenant.blocked_by = ""

    def end_stay(
        self, tenant: Tenant, gpus: tuple[int, ...], before: State, after: State | None = None
    ) -> None:
        """Note that a tenant's stay in a state ends now on these GPUs."""
        self._changes.append((tenant.number, gpus, before, tenant.since_s, after))

    def take_changes(self) -> list[StateChanged]:
        """The stays that have ended since the last call."""
        if not self._changes:
            return []
        taken, self._changes = self._changes, []
        return [StateChanged(*change) for change in taken]

    def balances(self) -> dict[int, Balance]:
        """The sums of every GPU, in one pass."""
        balances = {gpu: Balance() for gpu in self.specs}
        for tenant in self.tenants.values():
            state = tenant.state
            stays = state is State.RESTORING or state in WITH_LEASE
            is_firm = tenant.pinned or tenant.silent or tenant.detained or tenant.stuck_until_s > 0
            for gpu, on in tenant.gpus.items():
                balance = balances[gpu]
                charged = on.charged_bytes
                balance.tenants += 1
                balance.residue_bytes += on.residue_bytes
                balance.expected_bytes += on.expected_bytes
                balance.needed_bytes += on.needed_bytes
                balance.allocated_bytes += on.allocated_bytes
                balance.charged_bytes += charged
                firm = charged if is_firm else on.pinned_bytes
                if tenant.share.memory_bytes and not is_firm:
                    firm = tenant.kept_bytes(on)
                if firm:
                    firm = min(firm, charged)
                    balance.firm_bytes += firm
                if stays:
                    balance.staying_bytes += on.allocated_bytes
                    if tenant.requests:
                        balance.pending_bytes += tenant.pending_bytes(gpu)
                elif firm:
                    balance.staying_bytes += firm
                if on.orders and not tenant.silent and not stays:
                    balance.leaving_bytes += sum(on.orders)
        for gpu, balance in balances.items():
            spec = self.specs[gpu]
            capacity = max(0, min(spec.capacity_bytes, spec.total_bytes - balance.residue_bytes))
            if balance.expected_bytes < balance.residue_bytes and capacity < spec.capacity_bytes:
                capacity = self._stretched_bytes(gpu, capacity, balance.expected_bytes)
            balance.capacity_bytes = max(0, capacity - balance.needed_bytes)
        return balances

    def balance(self, gpu: int) -> Balance:
        """The sums of one GPU."""
        return self.balances()[gpu]

    def _stretched_bytes(self, gpu: int, capacity: int, expected: int) -> int:
        """The capacity where contexts turned out larger than expected.

        What is there stays, and whoever was let in must be able to come back, at the cost of
        the headroom; but never more than was promised with the residue that was expected.
        """
        spec = self.specs[gpu]
        promised = sum(t.promised_bytes(on) for t, on in self.on(gpu))
        most = max(allocated - stays for _, allocated, stays in self.units(gpu)) + promised
        charged = sum(on.charged_bytes for _, on in self.on(gpu))
        limit = min(spec.capacity_bytes, spec.total_bytes - expected)
        return max(capacity, min(limit, max(most, charged)))
