"""When the processes of a step get the signal of `--signal` without `B:`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from moiety.model.errors import MoietyError
from moiety.slurm.pool import Row, SlurmPool

VARIABLE: Final = "MOIETY_STEP_SIGNAL"
"""The variable of a job with the number of the signal, and how long before the limit it comes."""
LATE_S: Final = 5.0
"""A step that begins longer than this after the signal was due gets none, as with Slurm."""
StepWarning = tuple[float, int]


def of_job(variables: Mapping[str, str]) -> Callable[[], StepWarning | None] | None:
    """Asks the pool how long it is until the signal, and which it is; None: the job has none.

    The time limit may have changed when it is asked again.
    """
    number, _, before = variables.get(VARIABLE, "").partition("@")
    job = variables.get("SLURM_JOB_ID", "")
    if not (number.isdecimal() and before.isdecimal()):
        return None

    def left() -> StepWarning | None:
        pool = SlurmPool()
        try:
            left_s = left_of(pool.row(job), int(before), time.time())
        except MoietyError:
            return None
        finally:
            pool.close()
        return None if left_s is None or left_s < -LATE_S else (max(left_s, 0.0), int(number))

    return left


def left_of(row: Row, before_s: float, now_s: float) -> float | None:
    """Seconds until the signal of a job is due, below 0 after that; None without a limit."""
    limit_s, began_s = row["time_limit_s"], row["began_s"]
    if limit_s is None or began_s is None:
        return None
    ran_s = now_s - began_s - row["suspended_s"]
    return float(max(limit_s - before_s, 0.0) - ran_s)
