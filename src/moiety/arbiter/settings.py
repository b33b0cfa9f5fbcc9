"""The knobs of the arbiter, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One GPU as the arbiter sees it.

    `total_bytes` is the card's memory less the headroom that no tenant may use;
    `capacity_bytes` is the most that tenants' evictable data may take of it (`--capacity`
    lowers it). Contexts and other residue come out of what lies between the two first, then
    out of the capacity.
    """

    gpu: int
    total_bytes: int
    capacity_bytes: int


class OverduePolicy(StrEnum):
    """What is done about a tenant that does not give a GPU back by the deadline."""

    REPORT = "report"
    """It is reported, and tenants that fit beside it go on."""
    FENCE = "fence"
    """It is reported, and gets no lease until it has answered, even if it is queued for one."""
    KILL = "kill"
    """Its process is killed."""


class WhenFull(StrEnum):
    """What is done about a tenant whose turn needs more host memory than there is."""

    WAIT = "wait"
    """It waits until others have freed enough."""
    KILL = "kill"
    """Its process is killed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the arbiter decides. Times in seconds, rates in bytes a second."""

    arena_bytes: int
    """Host memory for evicted bytes, all GPUs together, less what moves at one time."""
    overcommit: float = 1.0
    """All programs of a GPU may ask for this many times what the GPU and the arena hold. Above 1,
    what they write may not fit: then no data leaves that the host has no room for."""
    when_full: WhenFull = WhenFull.WAIT
    """What is done then about a tenant that cannot have its turn."""
    turn_min_s: float = 0.1
    """No turn is shorter, unless its holder falls idle, or more than 20 tenants take turns."""
    turn_factor: float = 9.0
    """turn = max(turn_min, factor x measured hand-off): hand-offs cost at most 1/(1 + factor)"""
    turn_max_s: float = 60.0
    """No turn is longer: a hand-off that was held up says little about the next."""
    quantum_s: float = 0.0
    """The length of every turn, whatever its hand-off costs; 0: the three settings above decide."""
    idle_min_s: float = 0.02
    """How long a holder is silent before it counts as idle, if data would have to move."""
    idle_free_s: float = 0.001
    """The same if no data would have to move."""
    idle_beside_s: float = 0.005
    """The same beside others that hold too, where parts are not equal or limited."""
    window_min_s: float = 0.025
    """A tenant that fits beside others sits out once it is ahead of its part by this GPU time, or
    by five hand-offs: so hand-offs cost at most a twentieth."""
    queue_shared_s: float = 0.002
    """The most unfinished work of a holder that is not alone on its GPUs."""
    queue_beside_s: float = 0.008
    """The same beside tenants that none of them has to give way to: a few slices of a GPU that
    divides its time, so that no slice of a program ends for want of work."""
    queue_waited_s: float = 0.0001
    """The same shortly before the holder may have to give way to a queued tenant."""
    queue_lead_s: float = 0.005
    """How long before: time for the message, and for the longer queue to run empty."""
    visits_part: float = 0.25
    """The most of a GPU's time that short visits take from the turns of others; 0: no visits."""
    limit_window_s: float = 0.25
    """A tenant with a limit of its GPU time runs and pauses once in each window."""
    link_bytes_per_s: float = 10e9
    """The rate that is assumed until hand-offs were measured."""
    revoke_deadline_s: float = 10.0
    """A drain that takes longer is reported, and so is a move without progress for as long."""
    overdue: OverduePolicy = OverduePolicy.REPORT
    """What else is done then."""
    reopen_after_s: float = 0.25
    """A tenant whose drain takes longer while a thread stands at the gate gets its lease back for a
    moment. The wait doubles each time in the same hand-off, since work that seems stuck may only be
    a long kernel."""
    reopen_for_s: float = 0.05
    reopen_most: int = 5
    """The most reopened leases in one hand-off."""
    step_after_s: float = 0.002
    """While a gang drains, members that have drained are let through for single calls after this
    wait. It doubles each time that other members should have been let through."""
    step_for_s: float = 0.25
    """How long they are let through."""
    step_swaps: int = 8
    retry_min_s: float = 1.0
    """A tenant that could not be drained is not revoked again for this time; longer each time."""
    retry_max_s: float = 60.0
    look_after_s: float = 0.1
    """A process that has not carried out an order after this time may be stopped."""
    look_every_s: float = 0.25
    allowance_bytes: int = 512 << 20
    """The most credit of a process; 0: it sends a request for each allocation."""
    allowance_part: int = 64
    """The capacity of a GPU divided by this also bounds the credit."""
    allowance_step: int = 2 << 20
    """Credit is granted in whole steps: less is of no use."""
    allowance_asks_s: float = 0.25
    """A process that requested memory twice within this time gets credit."""
    allowance_wait_s: float = 2.0
    """The longest wait of a request that needs bytes of others' credit. A program on a busy machine
    answers late, and a refusal cannot be taken back."""
    allowance_calm_s: float = 1.0
    """After a revoke of credit on a GPU, none is granted there for this time."""
