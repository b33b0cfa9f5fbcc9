"""The lines of `sacct`: a job, its batch step, and the steps that `srun` started in it."""

from __future__ import annotations

import pwd
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moiety.slurm.show.jobs import SlurmJob
from moiety.slurm.show.states import BEGUN, JobState

BATCH: Final = "batch"
NO_BATCH: Final = frozenset({"salloc", "srun"})
"""Programs whose jobs have no batch step."""
STOPPED: Final = frozenset({JobState.CANCELLED, JobState.TIMEOUT})
SHELL_BASE: Final = 128
"""A shell adds this to the number of a signal; `sacct` takes it off any exit code."""


@dataclass(frozen=True)
class AccountLine:
    """A line of `sacct`: a job, or one of its steps."""

    job: SlurmJob
    step: str = ""
    """Its name, such as `batch` or `0`; empty: the job itself."""
    record: Mapping[str, Any] | None = None
    """What the pool keeps of a step of `srun`."""

    @property
    def name(self) -> str:
        """The name of the job or of the step."""
        return str(self.record["name"]) if self.record else self.step or self.job.name

    @property
    def was_told(self) -> bool:
        """Whether it is a step of `srun` that could tell how it ended."""
        return self.record is not None and self.record["ended_s"] is not None

    @property
    def began_s(self) -> float | None:
        """When it began; a job that never ran has the time of its end."""
        if self.record:
            return float(self.record["began_s"])
        found: float | None = self.job.row["began_s"] or self.job.row["ended_s"]
        return found

    @property
    def ended_s(self) -> float | None:
        """When it ended; a step whose end was never told ends with its job."""
        ended_s: float | None = self.job.row["ended_s"]
        if self.record and self.record["ended_s"] is not None:
            ended_s = self.record["ended_s"]
        return ended_s

    @property
    def ran_s(self) -> float:
        """How long it ran."""
        if not self.record:
            return self.job.ran_s
        return float(max((self.ended_s or self.job.now_s) - self.record["began_s"], 0.0))

    @property
    def state(self) -> str:
        """Its state; who cancelled it is said by number."""
        state = self.job.state
        if self.record:
            return self._state_of_step()
        if state in BEGUN:
            return JobState.RUNNING.name
        if state is JobState.CANCELLED and not self.step:
            reason = str(self.job.row["reason"])
            return f"CANCELLED by {_uid_of(reason.removeprefix('cancelled by '), self.job)}"
        if state is JobState.CANCELLED and not self.job.row["exit_signal"]:
            return self._by_code(*self._exit)
        if state is JobState.TIMEOUT and self.step:
            return JobState.CANCELLED.name
        return state.name

    def _state_of_step(self) -> str:
        if self.was_told:
            return self._by_code(*self._exit)
        if not self.job.is_over:
            return JobState.RUNNING.name
        is_stopped = self.job.state in STOPPED
        return JobState.CANCELLED.name + ("" if is_stopped else f" by {self.job.row['uid']}")

    @staticmethod
    def _by_code(code: int, number: int) -> str:
        if number:
            return JobState.CANCELLED.name
        return JobState.FAILED.name if code else JobState.COMPLETED.name

    @property
    def _exit(self) -> tuple[int, int]:
        """Exit code and signal, as they are kept."""
        if self.was_told and self.record:
            return int(self.record["exit_code"]), int(self.record["exit_signal"])
        if self.record and not self.job.is_over:
            return 0, 0
        if self.record:
            return 0, 15 if self.job.state in STOPPED else 9
        if self.job.state in STOPPED and not self.step:
            return 0, 0
        return int(self.job.row["exit_code"] or 0), int(self.job.row["exit_signal"] or 0)

    @property
    def exit_text(self) -> str:
        """Exit code and signal: `3:0`, `0:9`."""
        code, number = self._exit
        return f"{code - SHELL_BASE if code >= SHELL_BASE else code}:{number}"

    @property
    def cpus(self) -> int:
        """Processors that are counted for it."""
        return int(self.record["cpus"]) or self.job.cpus if self.record else self.job.cpus

    @property
    def gpus(self) -> int:
        """How many GPUs it has."""
        return int((self.record or self.job.row)["gpus"])

    @property
    def tasks(self) -> int:
        """How many processes a step has."""
        return int(self.record["tasks"]) if self.record else 1

    @property
    def command(self) -> str:
        """The command that asked for it; the script of a batch step has none."""
        if self.record:
            return f"srun {self.record['command']}".rstrip()
        return "" if self.step else str(self.job.row["command"])


def derived_exit(job: SlurmJob) -> str:
    """The highest exit code of the steps that ended while their job ran."""
    codes = [
        (int(step["exit_code"]), int(step["exit_signal"]))
        for step in job.steps
        if step["ended_s"] is not None
    ]
    code, number = (0, 0) if job.state in STOPPED else max(codes, default=(0, 0))
    return f"{code}:{number}"


def steps_of(job: SlurmJob) -> Iterator[AccountLine]:
    """The lines of the steps of a job; one that never began has none."""
    if not job.row["began_s"] or job.indices is not None:
        return
    if job.labels.program not in NO_BATCH:
        yield AccountLine(job, BATCH)
    for record in job.steps:
        yield AccountLine(job, str(record["number"]), record)


def _uid_of(name: str, job: SlurmJob) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        return int(job.row["uid"])
