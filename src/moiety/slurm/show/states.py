"""Slurm's states of jobs, and which of them a workload of the pool is in."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from moiety.pool.model.names import RESTARTED


class JobState(Enum):
    """A state with its short form; those that a pool never has are there to be asked for."""

    PENDING = "PD"
    RUNNING = "R"
    SUSPENDED = "S"
    COMPLETED = "CD"
    CANCELLED = "CA"
    FAILED = "F"
    TIMEOUT = "TO"
    NODE_FAIL = "NF"
    PREEMPTED = "PR"
    BOOT_FAIL = "BF"
    DEADLINE = "DL"
    OUT_OF_MEMORY = "OOM"
    COMPLETING = "CG"
    CONFIGURING = "CF"
    RESIZING = "RS"
    RESV_DEL_HOLD = "RD"
    REQUEUED = "RQ"
    REQUEUE_FED = "RF"
    REQUEUE_HOLD = "RH"
    REVOKED = "RV"
    SIGNALING = "SI"
    SPECIAL_EXIT = "SE"
    STAGE_OUT = "SO"
    STOPPED = "ST"


OURS: Final = {
    "pending": JobState.PENDING,
    "held": JobState.PENDING,
    "starting": JobState.CONFIGURING,
    "running": JobState.RUNNING,
    "suspending": JobState.SUSPENDED,
    "suspended": JobState.SUSPENDED,
    "resuming": JobState.SUSPENDED,
    "ending": JobState.COMPLETING,
    "done": JobState.COMPLETED,
    "failed": JobState.FAILED,
    "cancelled": JobState.CANCELLED,
    "timed out": JobState.TIMEOUT,
}
"""By the pool's state: Slurm's."""
ENDS: Final = frozenset({"done", "failed", "cancelled", "timed out"})
WAITING: Final = frozenset({"pending", "held"})
BEGUN: Final = frozenset({JobState.CONFIGURING, JobState.COMPLETING})
"""States that `sacct` knows as RUNNING."""


def state_of(row: Mapping[str, Any]) -> JobState:
    """Slurm's state of a workload."""
    if row["state"] == "failed" and row["reason"] == RESTARTED:
        return JobState.NODE_FAIL
    return OURS[row["state"]]


def parse(text: str) -> JobState | None:
    """A state by its long or short form, in any case."""
    word = text.strip().upper()
    for each in JobState:
        if word in (each.name, each.value):
            return each
    return None


def ours_of(states: frozenset[JobState]) -> set[str]:
    """The pool's states that can be one of these."""
    found = {name for name, state in OURS.items() if state in states}
    return found | ({"failed"} if JobState.NODE_FAIL in states else set())
