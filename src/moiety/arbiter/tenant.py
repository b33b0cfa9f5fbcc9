"""What the arbiter remembers of a tenant. Mutable, private to the arbiter; views.py shows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from moiety.arbiter.states import State


@dataclass(slots=True)
class Request:
    """A question that was admitted but not answered yet, because its room is being made."""

    serial: int
    gpu: int
    bytes: int
    is_context: bool = False


@dataclass(slots=True)
class OnGpu:
    """A tenant's bytes on one GPU."""

    residue_bytes: int
    """context and modules: outside of what it allocated"""
    limit_bytes: int
    allocated_bytes: int = 0
    """admitted, whether or not they are resident, requests under way included"""
    pinned_bytes: int = 0
    """those of them that can never leave"""
    charged_bytes: int = 0
    """those of them that are on the GPU, or for which room was given"""
    evicting_bytes: int = 0
    """ordered out and not yet reported gone"""


@dataclass(slots=True)
class Tenant:
    """One process."""

    number: int
    state: State = State.OUT
    epoch: int = 0
    pinned: bool = False
    stuck: bool = False
    """its last eviction failed: no victim until it held a lease again"""
    wants_again: bool = False
    idle: bool = False
    gpus: dict[int, OnGpu] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    since_s: float = 0.0
    """when it entered its state"""
    turn_ends_s: float = 0.0
    handoff_s: float = 0.0
    """how long its last coming took"""
    coming_bytes: int = 0
    """what its coming had to move in"""
    watched_s: float = 0.0
    overdue_s: float = 0.0
    """when its drain is reported (again)"""
    restoring: bool = False
    """room was given: the process must say when it is restored"""
    turns: int = 0
    held_s: float = 0.0
    blocked_by: str = ""

    @property
    def holds(self) -> bool:
        """Whether its memory must stay where it is."""
        return self.state in (State.HOLDING, State.COMING, State.DRAINING)

    @property
    def stays(self) -> bool:
        """Whether its memory is on the GPU to stay: it holds, and is not on its way out."""
        return self.state in (State.HOLDING, State.COMING)

    def pending_bytes(self, gpu: int) -> int:
        """Bytes of allocations that are admitted but not answered."""
        return sum(r.bytes for r in self.requests if r.gpu == gpu and not r.is_context)

    def missing_bytes(self, gpu: int) -> int:
        """What has to be restored before it can hold a lease."""
        on = self.gpus[gpu]
        return max(0, on.allocated_bytes - self.pending_bytes(gpu) - on.charged_bytes)

    def unmovable_bytes(self, gpu: int) -> int:
        """What of it stays on the GPU whoever else holds the lease."""
        on = self.gpus.get(gpu)
        if on is None:
            return 0
        return on.allocated_bytes if self.pinned else on.pinned_bytes

    def evictable_bytes(self, gpu: int) -> int:
        """What could be ordered out now."""
        on = self.gpus.get(gpu)
        if on is None or self.holds or self.pinned or self.stuck:
            return 0
        return max(0, on.charged_bytes - on.pinned_bytes - on.evicting_bytes)
