"""What `scancel` and `scontrol` do to jobs: requests to the pool, and signals as their user."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Final

from moiety.agent.system import processes
from moiety.model.errors import MoietyError
from moiety.pool.connection import of
from moiety.slurm import step_requests
from moiety.slurm.pool import SlurmPool
from moiety.slurm.show import selection, steps
from moiety.slurm.show.jobids import JobId
from moiety.slurm.show.jobs import SlurmJob
from moiety.slurm.show.selection import Wanted
from moiety.slurm.show.states import JobState
from moiety.slurm.show.steps import StepRunner

INVALID: Final = "Invalid job id specified"
OVER: Final = "Job/step already completing or completed"


class NoJobError(Exception):
    """There is no such job."""


def jobs_of(pool: SlurmPool, wanted: JobId) -> list[SlurmJob]:
    """The jobs that a number means, ended ones too; raises NoJobError."""
    query = Wanted(ids=(wanted,), states=frozenset(JobState), since_s=0.0)
    found = list(selection.find(pool, query))
    if not found:
        raise NoJobError(INVALID)
    own = [job for job in found if job.number == wanted.number and job.array != job.number]
    return own or found  # 13 is a task of its own, and 12 all of its array


def cancel(pool: SlurmPool, wanted: JobId) -> None:
    """Cancel a job, an array or tasks of one; raises NoJobError and what the pool refuses."""
    found = jobs_of(pool, wanted)
    live = [job for job in found if not job.is_over]
    if not live:
        raise NoJobError(OVER)
    pool.post(of(wanted.target, "cancel"))


def send(pool: SlurmPool, job: SlurmJob, number: int, *, to: str) -> int:
    """Send a signal to a job that runs; the number of processes that got it.

    `to` is `batch` (its script), `steps` (what srun started) or `all`. It is sent with the rights
    of this user.
    """
    if job.waits or job.is_over:
        raise NoJobError("Job is pending execution" if job.waits else OVER)
    main = pool.get(of(job.target, "process"))
    identity = (int(main["pid"]), int(main["start_ticks"]))
    runners = [] if to == "batch" else list(steps.runners_of(pool, job))
    asked = step_requests.INSTEAD_OF.get(number, number) if to == "steps" else number
    reached = {(e.pid, e.start_ticks) for e in runners if _signal_runner(e, job, asked)}
    others = [] if to == "steps" else [identity]
    if to == "all":
        others += _session(identity[0])
    left = dict.fromkeys(each for each in others if each not in reached)
    return len(reached) + sum(processes.send(pid, ticks, number) for pid, ticks in left)


def send_to_step(pool: SlurmPool, job: SlurmJob, step: str, number: int | None) -> bool:
    """Send a signal to one step, or end it (None), with the rights of this user.

    Returns whether it runs.
    """
    if job.waits or job.is_over:
        return False
    pool.get(of(job.target, "process"))  # which only its user may
    asked = step_requests.CANCEL
    if number is not None:
        asked = step_requests.INSTEAD_OF.get(number, number)
    runners = [each for each in steps.runners_of(pool, job) if str(each.number) == step]
    return any(_signal_runner(each, job, asked) for each in runners)


def _signal_runner(runner: StepRunner, job: SlurmJob, number: int) -> bool:
    """Signal the srun of a step, if it is what the job's user says: a process of that user."""
    return processes.send(runner.pid, runner.start_ticks, number, job.row["uid"])


def _session(session: int) -> Iterator[tuple[int, int]]:
    """The processes of a session."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if os.getsid(int(name)) == session:
                    ticks = processes.start_time(int(name))
                    if ticks is not None:
                        yield int(name), ticks


def words_of(error: MoietyError) -> str:
    """Why the pool refused, in Slurm's words where it has them."""
    name = type(error).__name__
    if name == "WorkUnknown":
        return INVALID
    if name == "NotAllowed":
        return f"Access/permission denied ({error.what})"
    return error.what


def signal_number(text: str) -> int | None:
    """A signal by name or number: USR1, SIGUSR1, 10."""
    if text.isdecimal():
        number = int(text[:4])
        return number if 0 < number < signal.NSIG else None
    name = text.upper().removeprefix("SIG")
    found = signal.Signals.__members__.get(f"SIG{name}")
    return None if found is None else int(found)
