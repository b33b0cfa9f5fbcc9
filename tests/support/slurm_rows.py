"""Rows of the pool as its API answers them, and jobs of them."""

from __future__ import annotations

from typing import Any

import msgspec

from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState
from moiety.slurm.labels import JobLabels, to_labels
from moiety.slurm.show.jobs import SlurmJob

NOW_S = 10_000.0
USUAL: dict[str, Any] = {
    "id": 7,
    "name": "sweep",
    "project": "nlp",
    "uid": 0,
    "user": "root",
    "state": WorkState.PENDING,
    "gpus": 2,
    "gpu_milli": 1000,
    "submitted_s": 9_000.0,
}


def row_of(said: JobLabels | None = None, **values: Any) -> dict[str, Any]:
    """A row with these values, and with the labels of Slurm's words."""
    labels = {} if said is None else to_labels(said)
    row = WorkRow(**(USUAL | {"labels": labels} | values))
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(row))
    return found


def job_of(
    said: JobLabels | None = None, *, kind: str = "", why: str = "", **values: Any
) -> SlurmJob:
    """A job of such a row, on the machine `gpu1`."""
    return SlurmJob(row_of(said, **values), NOW_S, "gpu1", kind, why)


def ran(state: str = "done", **values: Any) -> dict[str, Any]:
    """The values of work that ran from 9,100 for a minute and two seconds."""
    return {
        "state": WorkState(state),
        "began_s": 9_100.0,
        "ended_s": 9_162.0,
        "attempt": 1,
    } | values


STEP: dict[str, Any] = {
    "number": 1, "name": "train", "command": "train --fast", "tasks": 2, "cpus": 2, "gpus": 1,
    "began_s": 9_110.0, "ended_s": 9_120.0, "exit_code": 0, "exit_signal": 0,
}  # fmt: skip
"""A step of such work, as the API answers it."""
