"""The memory of a tenant: on each GPU, as a whole, and its open requests."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from moiety.arbiter.state.freed import Freed

NOT_POSTED: Final = (0,) * 10


@dataclass(slots=True)
class Request:
    """A request that is admitted but not answered yet, because room for it is being made."""

    serial: int
    gpu: int
    bytes: int
    is_context: bool = False
    is_need: bool = False
    """The driver's own need, on top of its context."""
    pinned: bool = False
    managed: bool = False


@dataclass(slots=True)
class CreditBalance:
    """What a process may allocate on one GPU without asking."""

    left_bytes: int = 0
    """The rest of it; part of the allocated and of the charged bytes."""
    spare_bytes: int = 0
    """Bytes of it that were freed and are still on the GPU."""
    is_given: bool = False
    """It may be used up: what the process frees may become part of it."""
    most_bytes: int = 0
    """The most that the process was told of since it has credit."""
    is_recalled: bool = False
    """It is revoked, and the process has not returned it yet."""
    is_late: bool = False
    """A request waited for its return in vain: no other one does until it is returned."""
    asked_s: float = -math.inf
    """When the process last requested memory."""


@dataclass(slots=True)
class EvictionProgress:
    """What a tenant was asked to evict on one GPU, until enough of it has left."""

    asked_s: float = 0.0
    """When it was asked, or when enough had left the last time."""
    amount: int = 0
    """The bytes that it was asked for then."""
    before: int = 0
    """The bytes that it had on the GPU then."""
    ended_s: float = 0.0
    """When an order ended and its bytes had not left."""
    fruitless: int = 0
    """How many orders in a row ended so."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a process without a lease counted of its bytes on one GPU."""

    zero_bytes: int
    """Resident bytes that are zeros: they leave first, and need no host memory."""
    host_bytes: int
    """Bytes in host memory; the other evicted bytes are zeros."""

    def moved(self, amount: int) -> Content:
        """The same after this many bytes were evicted, zeros first."""
        zeros = min(amount, self.zero_bytes)
        return Content(self.zero_bytes - zeros, self.host_bytes + amount - zeros)


@dataclass(slots=True)
class Residency:
    """A tenant's bytes on one GPU."""

    residue_bytes: int
    """Context and modules, which are not part of the allocated bytes."""
    limit_bytes: int
    expected_bytes: int = 0
    """The residue at admission; the measured one may be larger."""
    allocated_bytes: int = 0
    """Admitted bytes, resident or not, including those of open requests."""
    pinned_bytes: int = 0
    """Allocated bytes that can never leave."""
    inherited_bytes: int = 0
    """Allocated bytes that the process does not count: another allocated them, and is gone."""
    managed_bytes: int = 0
    """Allocated bytes that the driver pages: no order moves them; they leave with the lease."""
    oversubscribed_bytes: int = 0
    """Managed bytes beyond what the GPU has room for: the driver keeps as many in host memory."""
    may_oversubscribe: bool = False
    """Whether its managed bytes may exceed the GPU."""
    charged_bytes: int = 0
    """Allocated bytes that are on the GPU, or for which room was given and not used yet."""
    needed_bytes: int = 0
    """Bytes that are kept free for what its driver allocates by itself."""
    credit: CreditBalance = field(default_factory=CreditBalance)
    """Bytes that it may allocate without asking."""
    freed: Freed = field(default_factory=Freed)
    """What it freed just now."""
    orders: list[int] = field(default_factory=list)
    """The rest of each eviction under way, oldest first."""
    eviction: EvictionProgress = field(default_factory=EvictionProgress)
    """Whether bytes that were asked for leave in time."""
    content: Content | None = None
    """What of it is zeros, and what is in host memory; None: not counted since the last lease."""
    recounts: int = 0
    """How often a count was void since the last lease, because the process freed memory."""
    content_asked: bool = False
    """Its process was asked for the content, and has not answered."""
    posted: tuple[int, ...] = NOT_POSTED
    """What the sums of the GPU hold for this entry; see `Balance`."""
    rate: float = 0.0
    """The part of the GPU's time that it was charged last."""
    part: float = 1.0
    """Its part of the time of this GPU that its class receives."""
    lag_s: float = 0.0
    """How far it is behind the time of this GPU that it was due; negative: ahead."""

    def void_content(self) -> None:
        """Forget the count of zeros, because the process freed memory."""
        if self.content is not None:
            self.content, self.recounts = None, self.recounts + 1

    @property
    def need_bytes(self) -> int:
        """Bytes of the GPU that it takes in its turn: all that it has, as far as they fit."""
        return self.allocated_bytes - self.oversubscribed_bytes

    @property
    def required_bytes(self) -> int:
        """Bytes without which it could have no turn.

        Where managed bytes may exceed the GPU, the driver runs the program with any part of them.
        """
        return self.allocated_bytes - self.managed_bytes * self.may_oversubscribe

    @property
    def reach_bytes(self) -> int:
        """The allocated bytes and those that it freed just now, which may be credit again."""
        return self.allocated_bytes + max(0, self.freed.total - self.credit.left_bytes)

    @property
    def used_bytes(self) -> int:
        """Bytes that the program has or requested: the allocated ones without its credit."""
        return self.allocated_bytes - self.credit.left_bytes


@dataclass(frozen=True, slots=True)
class HostShortage:
    """Why and until when a tenant is not chosen, because the host has no room for others' data."""

    reason: str
    until_s: float
    tries: int
    """How often in a row the host had no room."""
    enough_bytes: int
    """It is tried at once when the host and the GPUs together have this much room."""


@dataclass(slots=True)
class TenantMemory:
    """The memory of a tenant on all its GPUs together."""

    pinned: bool = False
    pinned_by: str = ""
    """The call that pinned it."""
    coming_bytes: int = 0
    """Bytes that its restore had to move in."""
    room_given: bool = False
    """It got room since its last lease, so it will report when it is restored."""
    restored: bool = False
    """It has reported that it is restored, and nothing was evicted since."""
    counted: dict[int, int] = field(default_factory=dict)
    """The resident bytes that it counted on each GPU, valid once it has drained."""
    hearsay: set[int] = field(default_factory=set)
    """GPUs whose bytes it has not reported since its connection broke."""
    needs_until_s: float = 0.0
    """Until when its driver reserve is kept free; 0: nothing is kept."""
    evicted_bytes: int = 0
    """Bytes that it evicted in its whole life."""
    shuts_out_since_s: float = 0.0
    """Since when a tenant waits for room that this one pinned without a request; 0: none does."""
    shuts_out_due_s: float = 0.0
    """When that is reported, again and again; 0: never."""
    barred: bool = False
    """It gets no lease while that lasts."""
    host_short: HostShortage | None = None
    """The host had no room for what must leave before its turn: it is not chosen for a while."""
