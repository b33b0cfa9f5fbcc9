"""Sends a job to the pool, and says what means nothing here."""

from __future__ import annotations

import re
import sys
from typing import Any, Final

from moiety.model.errors import ProjectUnknown
from moiety.pool.connection import of
from moiety.pool.model.names import NAME
from moiety.pool.model.states import ACTIVE, WorkState
from moiety.slurm.pool import Row, SlurmPool
from moiety.slurm.submit.job import BatchJob
from moiety.slurm.submit.request import MachineSize

ENDS = ("done", "failed", "cancelled", "timed out")
HAVE_GPUS: Final = frozenset(map(str, ACTIVE - {WorkState.STARTING}))


def machine_of(status: dict[str, Any]) -> MachineSize:
    """The machine as its pool sees it."""
    return MachineSize(
        host=status["host"],
        cpus=status["cpus"],
        memory_mib=status["memory_mib"],
        gpu_models=tuple(status["gpu_models"]),
    )


def send(pool: SlurmPool, job: BatchJob) -> int:
    """Submit it; returns its number, that of the array if it is one."""
    body = dict(job.submission)
    account = job.project
    if account and NAME.fullmatch(account):
        try:
            return int(pool.post("/workloads", body | {"project": account})["id"])
        except ProjectUnknown:
            pass
    if account:
        job.request.notes.append(f"--account: the pool has no project {account!r}; default is used")
    return int(pool.post("/workloads", body)["id"])


def say_notes(program: str, job: BatchJob) -> None:
    """Print each note once, on stderr only: tools read stdout."""
    if "quiet" in job.request.said:
        return
    for note in dict.fromkeys(job.request.notes):
        print(f"{program}: note: {note}", file=sys.stderr)


def until_over(pool: SlurmPool, number: int) -> Row:
    """A workload once it is over."""
    while True:
        row: Row = pool.get(of(str(number), "wait"), timeout=60)
        if row["state"] in ENDS:
            return row


def until_left(pool: SlurmPool, number: int) -> None:
    """Return when a workload that runs has its GPUs no longer: it is over, or waits again."""
    row = first = pool.row(number)
    while row["state"] in HAVE_GPUS and row["attempt"] == first["attempt"]:
        row = pool.get(of(str(number), "wait"), timeout=60, while_state=row["state"])


def exit_code(row: Row) -> int:
    """What a waiting command ends with: the job's code, or 128 and a signal, or 1."""
    if row["exit_signal"]:
        return int(row["exit_signal"]) + 128
    if row["exit_code"] is not None:
        return int(row["exit_code"])
    return 0 if row["state"] == "done" else 1


def first_number(text: str) -> int | None:
    """The number of a job in a text such as 12 or 12_3."""
    found = re.match(r"\d{1,18}", text)
    return int(found[0]) if found else None
