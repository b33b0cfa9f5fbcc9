"""Tells the pool of a step, so that `sacct` still shows it when the job's folder is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from moiety.model.errors import MoietyError, NoPool, PoolSilent
from moiety.pool.connection import of
from moiety.slurm.pool import SlurmPool
from moiety.slurm.step.ranks import CARDS, StepShape
from moiety.slurm.step.record import StepRecord

ATTEMPT_VARIABLE: Final = "MOIETY_JOB_ATTEMPT"
TOLD: Final = (
    "name", "command", "tasks", "cpus", "gpus", "began_s", "ended_s", "exit_code", "exit_signal",
)  # fmt: skip
NAME_MAX: Final = 1024
AGAIN_FIRST_S: Final = 0.1
AGAIN_LAST_S: Final = 5.0
"""The shortest and the longest time until a server that is not there is asked again."""
LAST_WAIT_S: Final = 2.0
"""How long a step that has ended waits for the server, which may have just been restarted."""


class StepTeller:
    """Tells the pool that a step has begun, and later how it ended, beside the step itself.

    A step never waits for the pool before it ends. A pool that refuses is not asked again. What
    could not be told of steps before this one is told with it.
    """

    def __init__(self, record: StepRecord, variables: Mapping[str, str]) -> None:
        self._record = record
        self._job = variables.get("SLURM_JOB_ID", "")
        attempt = variables.get(ATTEMPT_VARIABLE, "")
        self._attempt = int(attempt) if attempt.isdecimal() else 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="step-teller", daemon=True)
        if record.is_kept and self._attempt and self._job.isdecimal():
            self._thread.start()

    def finish(self) -> None:
        """Tell the end, which the record has; return when it is told, or `LAST_WAIT_S` later."""
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join(LAST_WAIT_S)

    def _run(self) -> None:
        wait_s = AGAIN_FIRST_S
        while True:
            is_last = self._is_over.is_set()
            try:
                self._tell(self._record)
                if is_last:
                    self._record.was_told()
                self._tell_earlier()
            except (NoPool, PoolSilent):
                if is_last:
                    time.sleep(AGAIN_FIRST_S)  # `finish` gives up before long
                else:
                    self._is_over.wait(wait_s)
                    wait_s = min(wait_s * 2, AGAIN_LAST_S)
                continue
            except (MoietyError, OSError):
                return
            if is_last:
                return
            self._is_over.wait()

    def _tell_earlier(self) -> None:
        """Tell how steps before this one ended, where no server was there at that time."""
        for step in self._record.untold():
            try:
                self._tell(step)
            except (NoPool, PoolSilent):
                raise
            except (KeyError, TypeError, AttributeError, MoietyError):
                pass  # damaged, or refused: it would be so again
            step.was_told()

    def _tell(self, record: StepRecord) -> None:
        content = record.content
        step: dict[str, Any] = {name: content[name] for name in TOLD if name in content}
        step |= {"name": _as_text(step["name"])[:NAME_MAX], "command": _as_text(step["command"])}
        step["number"] = record.number
        pool = SlurmPool()
        try:
            pool.post(of(self._job, "steps"), {"attempt": self._attempt, "step": step})
        finally:
            pool.close()


def _as_text(text: str) -> str:
    """Only what JSON can hold: a byte that is no UTF-8 becomes `?`."""
    return text.encode(errors="replace").decode()


def cpus_of(shape: StepShape, variables: Mapping[str, str], *, is_exact: bool) -> int:
    """How many processors a step has: all of its job, unless it said how many each task needs."""
    text = variables.get("SLURM_CPUS_ON_NODE", "")
    have = int(text) if text.isdecimal() else shape.tasks
    if not (is_exact or shape.cpus_per_task):
        return have
    return min(have, shape.tasks * max(shape.cpus_per_task, 1))


def gpus_of(shape: StepShape, variables: Mapping[str, str]) -> int:
    """How many GPUs of its job a step uses."""
    have = len([part for part in variables.get(CARDS, "").split(",") if part])
    if shape.gpus_per_task:
        return min(have, shape.gpus_per_task * shape.tasks)
    return have if shape.gpus is None else min(have, shape.gpus)
