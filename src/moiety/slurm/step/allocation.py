"""A job that only holds its place, for a command that runs beside it."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from moiety.model.errors import MoietyError, NoPool, PoolSilent
from moiety.pool.connection import of
from moiety.slurm.errors import JobRefused
from moiety.slurm.pool import SlurmPool
from moiety.slurm.submit import environment, sending
from moiety.slurm.submit.job import BatchJob, common, job_labels
from moiety.slurm.submit.request import JobRequest

HOLDER: Final = 'flock "$1" true; code=$(cat "$1"); rm -f "$1"; exit "${code:-1}"'
"""It ends when the command that waits for it has ended, with what that wrote into the file."""
ENVIRONMENT: Final = "environment"
"""The file in the folder of a job with its variables."""
LOOK_FIRST_S: Final = 0.02
LOOK_LAST_S: Final = 0.5
AGAIN_S: Final = 1.0
"""Time between two tries to reach a server that is not there."""


class Allocation:
    """A job whose place is held as long as this process lives."""

    def __init__(self, program: str, request: JobRequest, name: str, command: str) -> None:
        """Submit it; raises what the pool raises."""
        self._pool = SlurmPool()
        fd, self._path = tempfile.mkstemp(prefix=f"moiety-{program}-")
        self._lock = fd
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, b"1")
        try:
            job = holder_job(program, request, name, command, self._path)
            self.number = sending.send(self._pool, job)
        except BaseException:
            os.unlink(self._path)
            raise
        sending.say_notes(program, job)

    def until_running(self, program: str, wait_s: float | None = None) -> dict[str, str]:
        """Wait until it has its place; its variables. Raises JobRefused if it gets none."""
        look_s, began_s, is_said = LOOK_FIRST_S, time.monotonic(), False
        while True:
            row = self._pool.row(self.number)
            if row["state"] == "running":
                break
            if row["state"] in sending.ENDS:
                raise JobRefused(f"Job {self.number} was {row['state']}: {row['reason']}")
            waited_s = time.monotonic() - began_s
            if wait_s is not None and waited_s > wait_s:
                self.cancel()
                raise JobRefused("Unable to allocate resources: it did not begin in time")
            if not is_said and waited_s > LOOK_LAST_S:
                print(
                    f"{program}: job {self.number} queued and waiting for resources",
                    file=sys.stderr,
                )
                is_said = True
            time.sleep(look_s)
            look_s = min(look_s * 1.5, LOOK_LAST_S)
        if is_said:
            print(f"{program}: job {self.number} has been allocated resources", file=sys.stderr)
        return variables_of(self._pool, self.number)

    def watch(self) -> int:
        """A descriptor that becomes readable when the job has its place no longer."""
        return watch(self.number)

    def cancel(self) -> None:
        """End the job."""
        self._pool.post(of(str(self.number), "cancel"))

    def release(self, code: int) -> None:
        """Let the job end with this exit code."""
        os.pwrite(self._lock, str(min(code, 255)).encode() + b"\n", 0)
        os.close(self._lock)


def watch(number: int) -> int:
    """A descriptor that becomes readable when a job that runs is over, or waits again."""
    ours, theirs = os.pipe2(os.O_CLOEXEC)

    def wait() -> None:
        while True:
            try:
                sending.until_left(SlurmPool(), number)
                break
            except (NoPool, PoolSilent, OSError):
                time.sleep(AGAIN_S)  # only the next server can say that it is over
            except MoietyError:
                return
        os.close(theirs)

    threading.Thread(target=wait, daemon=True).start()
    return ours


def variables_of(pool: SlurmPool, number: int) -> dict[str, str]:
    """The variables of a running job; raises JobRefused if they are another user's."""
    path = Path(pool.paths.spool_of(number)) / ENVIRONMENT
    try:
        content = path.read_bytes()
    except OSError:
        raise JobRefused(
            f"Job {number} does not run here, or is not yours", "squeue --me --states=R"
        ) from None
    found = {}
    for part in content.split(b"\0"):
        name, equals, value = part.partition(b"=")
        if equals:
            found[os.fsdecode(name)] = os.fsdecode(value)
    return found


def holder_job(program: str, request: JobRequest, name: str, command: str, lock: str) -> BatchJob:
    """The submission of a job that holds its place."""
    who = environment.submitter(os.getcwd())
    labels = job_labels(program, request, who, command)
    own = environment.of_allocation(request, who, name, labels) | environment.OF_STEPS
    going = environment.exported(os.environ, "ALL")
    submission: dict[str, Any] = common(request, name, labels, going, own, request.said)
    submission |= {
        "program": "/bin/sh",
        "argv": ["sh", "-c", HOLDER, program, lock],
        "cwd": "/",
        "stdout": "/dev/null",
        "requeue": False,
    }
    return BatchJob(request, name, labels, submission)
