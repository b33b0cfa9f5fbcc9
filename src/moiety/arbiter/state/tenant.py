"""What the arbiter remembers of a tenant and of a gang. Mutable, private to the arbiter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from moiety.arbiter.state.drain import Drain
from moiety.arbiter.state.lease import Lease
from moiety.arbiter.state.residency import Request, Residency, TenantMemory
from moiety.arbiter.state.suspension import Suspension
from moiety.arbiter.state.usage import TenantUsage
from moiety.arbiter.states import STAYING, WITH_LEASE, State
from moiety.model.share import NOTHING_ASKED, Share

EPOCHS: Final = 1 << 31
"""Number of epochs: a lease word has 31 bits for them, and they begin anew after that."""
_NOT_DRAINED: Final = frozenset({State.DRAINING, State.STOPPED})


@dataclass(slots=True)
class Tenant:
    """One process."""

    number: int
    name: str = ""
    """The name of the program and its pid."""
    state: State = State.IDLE
    epoch: int = 0
    gang: TenantGang | None = None
    """The gang with which it holds."""
    gpus: dict[int, Residency] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    since_s: float = 0.0
    """When it entered its state."""
    blocked_by: str = ""
    share: Share = NOTHING_ASKED
    uid: int = -1
    """The user that runs the process."""
    owner: str = ""
    """Whose time it uses: a user's, or a namespace's."""
    workload: str = ""
    """The workload that it belongs to; empty: one of its own."""
    lease: Lease = field(default_factory=Lease)
    usage: TenantUsage = field(default_factory=TenantUsage)
    drain: Drain = field(default_factory=Drain)
    memory: TenantMemory = field(default_factory=TenantMemory)
    suspension: Suspension | None = None
    """Set from `Suspend` to `Resume`."""

    @property
    def next_epoch(self) -> int:
        """The epoch of its next lease."""
        return (self.epoch + 1) % EPOCHS

    @property
    def label(self) -> str:
        """How it is called in sentences."""
        return self.name or f"tenant {self.number}"

    @property
    def holds(self) -> bool:
        """Whether its lease word is open."""
        return self.state in WITH_LEASE

    @property
    def lag_s(self) -> float:
        """How far it, or its gang, is behind the GPU time that it was due; negative: ahead."""
        if self.gang is not None:
            return self.gang.lag_s
        if len(self.gpus) == 1:
            (on,) = self.gpus.values()
            return on.lag_s
        return sum(on.lag_s for on in self.gpus.values()) / max(1, len(self.gpus))

    @property
    def stays(self) -> bool:
        """Whether its memory stays on the GPU, because it holds or is about to."""
        return self.state in STAYING

    @property
    def is_late(self) -> bool:
        """Whether it was revoked and has not answered."""
        return self.state in _NOT_DRAINED and not self.drain.answered

    @property
    def is_beyond(self) -> bool:
        """Whether it cannot be drained for now."""
        return self.state is State.UNDRAINABLE and self.drain.stuck_until_s > 0

    @property
    def stands_at_gate(self) -> bool:
        """Whether a thread of it waits for the lease, or for memory that only holders get."""
        return self.drain.wants_again or any(not r.is_context for r in self.requests)

    @property
    def is_firm(self) -> bool:
        """Whether none of its bytes can be evicted now."""
        return (
            self.memory.pinned
            or self.drain.silent
            or self.drain.detained
            or self.drain.stuck_until_s > 0
        )

    @property
    def managed_bytes(self) -> int:
        """Its bytes that the driver pages, on all its GPUs."""
        return sum(on.managed_bytes for on in self.gpus.values())

    @property
    def is_growing(self) -> bool:
        """Whether it holds a lease and waits for more memory."""
        return self.holds and any(not r.is_context for r in self.requests)

    @property
    def has_orders(self) -> bool:
        """Whether it was told to evict or to count bytes and has not finished."""
        return any(on.orders or on.content_asked for on in self.gpus.values())

    def pending_bytes(self, gpu: int) -> int:
        """Bytes of allocations that are admitted but not answered."""
        if not self.requests:
            return 0
        return sum(r.bytes for r in self.requests if r.gpu == gpu)

    def growth_bytes(self, gpu: int) -> int:
        """Bytes of the GPU that its open requests take: none of what does not fit there."""
        on = self.gpus[gpu]
        return max(0, min(self.pending_bytes(gpu), on.need_bytes - on.charged_bytes))

    def missing_bytes(self, gpu: int) -> int:
        """Bytes that have to be restored before it can hold a lease."""
        on = self.gpus[gpu]
        return max(0, on.need_bytes - self.pending_bytes(gpu) - on.charged_bytes)

    def staying_bytes(self, on: Residency) -> int:
        """Its bytes that would stay on the GPU now if others held the lease."""
        if self.is_firm:
            return on.charged_bytes
        return min(self.kept_bytes(on), on.charged_bytes)

    def kept_bytes(self, on: Residency) -> int:
        """Its bytes that never leave, because they cannot or because that was promised."""
        kept = self.share.memory_bytes
        return max(on.pinned_bytes, min(kept, on.allocated_bytes)) if kept else on.pinned_bytes

    def promised_bytes(self, on: Residency) -> int:
        """Bytes of the GPU that are reserved for it, allocated or not."""
        return max(
            on.need_bytes if self.memory.pinned else on.pinned_bytes, self.share.memory_bytes
        )

    def evictable_bytes(self, on: Residency) -> int:
        """Its bytes that could be evicted if it held no lease."""
        if self.is_firm:
            return 0
        return max(0, on.charged_bytes - self.kept_bytes(on) - sum(on.orders))


@dataclass(slots=True, eq=False)
class TenantGang:
    """Tenants that hold together; `members` in the order of their numbers."""

    name: str
    size: int = 0
    """The number of members that it needs before it begins; 0: any number."""
    members: list[Tenant] = field(default_factory=list)
    is_begun: bool = False
    """It was complete once: it does not wait for a member that dies later."""
    ahead: set[int] = field(default_factory=set)
    """In a drain: the numbers of the members for which the others are let through."""
    ahead_since_s: float = 0.0
    drained_from_s: float = 0.0
    """When the drain began to which `ahead` belongs."""
    stepping_since_s: float | None = None
    """Since when the others are let through."""
    swaps: int = 0
    """How often in this drain the members that were let through were ahead afterwards."""

    @property
    def missing(self) -> int:
        """The number of members that it waits for before it begins."""
        return 0 if self.is_begun else max(0, self.size - len(self.members))

    @property
    def lag_s(self) -> float:
        """GPU time that it is behind, as one tenant; negative: ahead."""
        lags_s = [on.lag_s for member in self.members for on in member.gpus.values()]
        gpus = {gpu for member in self.members for gpu in member.gpus}
        return sum(lags_s) / max(1, len(gpus))

    @property
    def is_draining(self) -> bool:
        """Whether the work of a member may still run."""
        return any(member.is_late for member in self.members)
