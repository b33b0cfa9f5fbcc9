"""What the arbiter remembers of a tenant and of a gang. Mutable, private to the arbiter."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from moiety.arbiter.state.busy_period import BusyPeriods
from moiety.arbiter.state.idle_timeout import IdlePeriods
from moiety.arbiter.states import STAYING, WITH_LEASE, State
from moiety.model.share import NOTHING_ASKED, Share

_COSTS = 5
NOT_POSTED: Final = (0,) * 9
_NOT_DRAINED: Final = frozenset({State.DRAINING, State.STOPPED})


@dataclass(slots=True)
class Request:
    """A question that was admitted but not answered yet, because its room is being made."""

    serial: int
    gpu: int
    bytes: int
    is_context: bool = False
    is_need: bool = False
    """a driver's own, on top of its context"""
    pinned: bool = False
    managed: bool = False


@dataclass(slots=True)
class Residency:
    """A tenant's bytes on one GPU."""

    residue_bytes: int
    """context and modules: outside of what it allocated"""
    limit_bytes: int
    expected_bytes: int = 0
    """the residue that it was let in with; what was measured since may be more"""
    allocated_bytes: int = 0
    """admitted, whether or not they are resident, requests under way included"""
    pinned_bytes: int = 0
    """those of them that can never leave"""
    inherited_bytes: int = 0
    """those of them that it does not count itself: another allocated them, and is gone"""
    managed_bytes: int = 0
    """those of them that the driver pages: nobody moves them, and with the lease they are gone"""
    charged_bytes: int = 0
    """those of them that are on the GPU, or for which room was given and not taken yet"""
    needed_bytes: int = 0
    """to be kept free for what its driver is about to take by itself"""
    is_hearsay: bool = False
    """its connection broke, and it has not said since what it has here"""
    allowed_bytes: int = 0
    """part of the allocated and the charged ones: what it may still take without asking"""
    spare_bytes: int = 0
    """part of those: freed, and still on the GPU"""
    is_allowed: bool = False
    """it has an allowance, though that may be used up: what it frees may become part of it"""
    is_recalled: bool = False
    """and was told to give it back"""
    asked_s: float = -math.inf
    """when it asked for memory last"""
    orders: list[int] = field(default_factory=list)
    """what is left of each eviction under way, oldest first"""
    posted: tuple[int, ...] = NOT_POSTED
    """What the sums of the GPU hold for this entry; see `Balance`."""
    rate: float = 0.0
    """the part of the GPU's time that it was charged last"""
    lag_s: float = 0.0
    """time of this GPU that it is behind what it should have received; negative: ahead"""

    @property
    def used_bytes(self) -> int:
        """What the program has, or asked for: allocated, less what it may still take."""
        return self.allocated_bytes - self.allowed_bytes


@dataclass(slots=True)
class Tenant:
    """One process."""

    number: int
    name: str = ""
    """how people know it: program and pid"""
    state: State = State.IDLE
    epoch: int = 0
    resumed: bool = False
    """it outlived its agent"""
    gang: TenantGang | None = None
    """the gang with which it holds"""
    answered: bool = False
    """it has drained, and its gang has not"""
    detained: bool = False
    """and cannot for now, so that nothing of this one may leave"""
    pinned: bool = False
    pinned_by: str = ""
    """the call that pinned it"""
    stuck_until_s: float = 0.0
    """its last eviction failed: no victim until then, or until it held a lease again"""
    silent: bool = False
    """it has not answered an order for too long: its memory counts as unable to leave"""
    stopped: bool = False
    """and that is why: its process is stopped (SIGSTOP, a frozen container)"""
    wants_again: bool = False
    wants_since_s: float = 0.0
    """when it said so, or asked for memory, after its lease was taken back"""
    gpus: dict[int, Residency] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    since_s: float = 0.0
    """when it entered its state"""
    waits_since_s: float = 0.0
    """when it entered the queue"""
    turn_ends_s: float = 0.0
    is_guest: bool = False
    """it passed others in the queue, and leaves as soon as one of them could come"""
    silent_since_s: float | None = None
    """it has submitted nothing since then; None: no such silence is known"""
    idle_periods: IdlePeriods = field(default_factory=IdlePeriods)
    busy_periods: BusyPeriods = field(default_factory=BusyPeriods)
    watched_s: float = 0.0
    """the length of the silence that it is asked to report; 0: none"""
    costs_s: deque[float] = field(default_factory=lambda: deque(maxlen=_COSTS))
    """what its last comings cost for which memory moved"""
    cost_s: float = 0.0
    """their median; 0 where nothing moved lately"""
    is_moving: bool = False
    """memory moves for its coming, its own or others'"""
    queue_s: float = 0.0
    """the bound on unfinished work that it was told; 0: none"""
    coming_bytes: int = 0
    """what its coming had to move in"""
    room_given: bool = False
    """there was room for it since its last lease, so it will say when it is restored"""
    restored: bool = False
    """it has said so, and nothing was moved out since"""
    told_s: float = 0.0
    """when it was given the order that it has not carried out yet"""
    due_s: float = 0.0
    """when that is reported (again); 0: nothing is due"""
    look_s: float = 0.0
    """when to look whether its process is stopped"""
    reopens: int = 0
    """how often its lease was given back in this hand-off, so that its last work can end"""
    gave_up: int = 0
    """how often in a row it could not be drained"""
    kept_until_s: float = 0.0
    """its lease was given back and is not revoked before that"""
    counted: dict[int, int] = field(default_factory=dict)
    """what it said is resident, for each GPU, and counts once it has drained"""
    needs_until_s: float = 0.0
    """how long room that its driver needed is kept free; 0: nothing is kept"""
    turns: int = 0
    held_s: float = 0.0
    blocked_by: str = ""
    evicted_bytes: int = 0
    """in its whole life"""
    handoffs_s: float = 0.0
    """what its comings took together"""
    # What it is promised and what it received: fair_share.py
    share: Share = NOTHING_ASKED
    timed: bool = False
    """it cannot hold a GPU together with others"""
    rank: int = NOTHING_ASKED.rank
    part: float = 1.0
    """what it should receive now of what its class receives"""
    round_s: float = 0.0
    """what the hand-offs of all who take turns with it cost, each coming once, as it began"""
    joined_s: float = 0.0
    rate: float = 0.0
    received_s: float = 0.0
    recent: float = 0.0
    """part of the GPU that it received lately, not corrected for a short life"""
    budget_s: float = 0.0
    """GPU time that it may use at once, if it has a limit"""
    paused: bool = False
    """its limit is used up"""
    window_ends_s: float = 0.0
    """no pause begins before that: what was moved in is used first"""
    owner: int = -1
    """the user whose it is"""

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
        """GPU time that it, or its gang, is behind what it should have had; negative: ahead."""
        if self.gang is not None:
            return self.gang.lag_s
        if len(self.gpus) == 1:
            (on,) = self.gpus.values()
            return on.lag_s
        return sum(on.lag_s for on in self.gpus.values()) / max(1, len(self.gpus))

    @property
    def stays(self) -> bool:
        """Whether its memory is on the GPU to stay: it holds, or is about to."""
        return self.state in STAYING

    @property
    def is_late(self) -> bool:
        """Whether it was revoked and has not answered."""
        return self.state in _NOT_DRAINED and not self.answered

    @property
    def is_beyond(self) -> bool:
        """Whether it cannot be drained for now."""
        return self.state is State.UNDRAINABLE and self.stuck_until_s > 0

    @property
    def stands_at_gate(self) -> bool:
        """Whether a thread of it waits for the lease, or for memory that only holders get."""
        return self.wants_again or any(not r.is_context for r in self.requests)

    @property
    def is_firm(self) -> bool:
        """Whether nothing of it can be moved out now."""
        return self.pinned or self.silent or self.detained or self.stuck_until_s > 0

    @property
    def managed_bytes(self) -> int:
        """What of it the driver pages, on all its GPUs."""
        return sum(on.managed_bytes for on in self.gpus.values())

    @property
    def is_growing(self) -> bool:
        """Whether it holds a lease and waits for more memory."""
        return self.holds and any(not r.is_context for r in self.requests)

    @property
    def has_orders(self) -> bool:
        """Whether it was told to move memory out and has not finished."""
        return any(on.orders for on in self.gpus.values())

    def pending_bytes(self, gpu: int) -> int:
        """Bytes of allocations that are admitted but not answered."""
        if not self.requests:
            return 0
        return sum(r.bytes for r in self.requests if r.gpu == gpu)

    def missing_bytes(self, gpu: int) -> int:
        """What has to be restored before it can hold a lease."""
        on = self.gpus[gpu]
        return max(0, on.allocated_bytes - self.pending_bytes(gpu) - on.charged_bytes)

    def staying_bytes(self, on: Residency) -> int:
        """What of it stays on the GPU now, should others hold the lease."""
        if self.is_firm:
            return on.charged_bytes
        return min(self.kept_bytes(on), on.charged_bytes)

    def kept_bytes(self, on: Residency) -> int:
        """What of it does not leave: it cannot, or that was promised."""
        kept = self.share.memory_bytes
        return max(on.pinned_bytes, min(kept, on.allocated_bytes)) if kept else on.pinned_bytes

    def promised_bytes(self, on: Residency) -> int:
        """What of the GPU will be its own for good, once it has allocated it."""
        return max(on.allocated_bytes if self.pinned else on.pinned_bytes, self.share.memory_bytes)

    def evictable_bytes(self, on: Residency) -> int:
        """What could leave if it held no lease."""
        if self.is_firm:
            return 0
        return max(0, on.charged_bytes - self.kept_bytes(on) - sum(on.orders))


@dataclass(slots=True, eq=False)
class TenantGang:
    """Tenants that hold together; `members` in the order of their numbers."""

    name: str
    size: int = 0
    """the number of members that must be there before it begins; 0: any number"""
    members: list[Tenant] = field(default_factory=list)
    is_begun: bool = False
    """it was whole once: a member that dies later is not waited for"""
    ahead: set[int] = field(default_factory=set)
    """in a drain: the members for which the others are let through"""
    ahead_since_s: float = 0.0
    drained_from_s: float = 0.0
    """when the drain began that `ahead` is about"""
    stepping_since_s: float | None = None
    """since when the others are let through"""
    swaps: int = 0
    """how often in it those who were let through were ahead afterwards"""

    @property
    def missing(self) -> int:
        """How many it waits for before it begins."""
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
