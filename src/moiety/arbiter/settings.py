"""The knobs of the arbiter, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One GPU as the arbiter sees it.

    `total_bytes` is the card's memory less the headroom that nobody may use;
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
    """it is named, and who fits beside it goes on"""
    FENCE = "fence"
    """and it gets no lease any more until it has answered, also if it waits for one"""
    KILL = "kill"
    """its process is killed"""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the arbiter decides. Times in seconds, rates in bytes a second."""

    arena_bytes: int
    """host memory for evicted bytes, all GPUs together, less what moves at one time"""
    turn_min_s: float = 0.1
    """no turn is shorter, unless its holder goes idle, or more than 20 take turns"""
    turn_factor: float = 9.0
    """turn = max(turn_min, factor x measured hand-off): hand-offs cost at most 1/(1 + factor)"""
    turn_max_s: float = 60.0
    """but no longer than this: a hand-off that somebody held up says little about the next"""
    quantum_s: float = 0.0
    """every turn is so long instead, whatever its hand-off cost; 0: as the three above say"""
    idle_min_s: float = 0.02
    """how long a holder with data to move is silent before it counts as idle"""
    idle_free_s: float = 0.001
    """the same when nothing would have to move"""
    queue_shared_s: float = 0.002
    """the most unfinished work of a holder that is not alone on its GPUs"""
    queue_waited_s: float = 0.0001
    """the same shortly before it may have to give way to somebody who waits"""
    queue_lead_s: float = 0.005
    """how long before: time for the message, and for the longer queue to run empty"""
    limit_window_s: float = 0.25
    """a tenant with a limit of its GPU time runs and pauses once in so long"""
    link_bytes_per_s: float = 10e9
    """assumed until hand-offs were measured"""
    revoke_deadline_s: float = 10.0
    """a drain that takes longer is reported, and so is a move that makes no progress for so long"""
    overdue: OverduePolicy = OverduePolicy.REPORT
    """and what else is done then"""
    reopen_after_s: float = 0.25
    """a drain that takes longer while a thread stands at the gate gets its lease back for a
    moment; twice as long for each time before in the same hand-off, since what seems stuck may
    only be a long kernel"""
    reopen_for_s: float = 0.05
    reopen_most: int = 5
    """so often in one hand-off"""
    step_after_s: float = 0.002
    """of a gang that drains, those who are done are let through for single calls after so long, and
    twice as long each time that it turns out that others should have been"""
    step_for_s: float = 0.25
    """and for so long"""
    step_swaps: int = 8
    retry_min_s: float = 1.0
    """who could not be drained is not revoked again for so long; longer each time"""
    retry_max_s: float = 60.0
    look_after_s: float = 0.1
    """an order that is not carried out for so long may have been given to a stopped process"""
    look_every_s: float = 0.25
    allowance_bytes: int = 512 << 20
    """the most that a process may allocate without asking; 0: it asks each time"""
    allowance_part: int = 64
    """and no more than such a part of a GPU"""
    allowance_step: int = 2 << 20
    """in whole steps: less is of no use"""
    allowance_asks_s: float = 0.25
    """who asked for memory twice within so long gets one"""
    allowance_wait_s: float = 2.0
    """whoever needs what allowances hold waits so long at most for them to come back; a program
    on a busy machine answers late, and a refusal cannot be taken back"""
    allowance_calm_s: float = 1.0
    """after that no more are given on a GPU for so long"""
