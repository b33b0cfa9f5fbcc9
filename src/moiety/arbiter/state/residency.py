"""The memory of a tenant: on each GPU, as a whole, and what it asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

NOT_POSTED: Final = (0,) * 9


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
    """those of them that the driver pages: no order moves them, and with the lease they are gone"""
    charged_bytes: int = 0
    """those of them that are on the GPU, or for which room was given and not taken yet"""
    needed_bytes: int = 0
    """to be kept free for what its driver is about to take by itself"""
    is_hearsay: bool = False
    """its connection broke, and it has not said since what it has here"""
    allowed_bytes: int = 0
    """part of the allocated and the charged ones: what it may still take without asking"""
    spare_bytes: int = 0
    """part of the allowed ones: freed, and still on the GPU"""
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
class TenantMemory:
    """The memory of a tenant on all its GPUs together."""

    pinned: bool = False
    pinned_by: str = ""
    """the call that pinned it"""
    coming_bytes: int = 0
    """what its coming had to move in"""
    room_given: bool = False
    """there was room for it since its last lease, so it will say when it is restored"""
    restored: bool = False
    """it has said so, and nothing was moved out since"""
    counted: dict[int, int] = field(default_factory=dict)
    """what it said is resident, for each GPU, and counts once it has drained"""
    needs_until_s: float = 0.0
    """how long room that its driver needed is kept free; 0: nothing is kept"""
    evicted_bytes: int = 0
    """in its whole life"""
