"""The knobs of the arbiter, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True)
class Settings:
    """How the arbiter decides. Times in seconds, rates in bytes a second."""

    arena_bytes: int
    """host memory for evicted bytes, all GPUs together, less what moves at one time"""
    turn_min_s: float = 0.1
    """no turn is shorter, unless its holder goes idle"""
    turn_factor: float = 9.0
    """turn = max(turn_min, factor x measured hand-off): hand-offs cost at most 1/(1 + factor)"""
    turn_max_s: float = 60.0
    """but no longer than this: a hand-off that somebody held up says little about the next"""
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
    overdue_kill: bool = False
    """and its process is killed"""
