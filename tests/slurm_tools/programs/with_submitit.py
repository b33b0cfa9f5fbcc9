"""Jobs by submitit: results, an array, a failure, and one that is interrupted and goes on."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import submitit


def add(a: int, b: int) -> int:
    """What a job computes."""
    return a + b


def where() -> dict[str, str]:
    """What a job sees of its place."""
    names = ("SLURM_JOB_ID", "SLURM_PROCID", "CUDA_VISIBLE_DEVICES")
    return {name: os.environ.get(name, "") for name in names}


def fails() -> None:
    """A job that fails."""
    raise ValueError("no good")


class Counts(submitit.helpers.Checkpointable):  # type: ignore[misc]  # it has no types here
    """It runs until it has been started twice."""

    def __call__(self, folder: str) -> int:
        """Note that it runs; wait the first time."""
        starts = Path(folder) / "starts"
        with starts.open("a") as file:
            file.write("x")
        while len(starts.read_text()) < 2:
            time.sleep(0.05)
        return len(starts.read_text())


def main(folder: str) -> None:
    """Submit all of them."""
    executor = submitit.AutoExecutor(folder=Path(folder) / "logs", cluster="slurm")
    executor.update_parameters(timeout_min=10, gpus_per_node=1, mem_gb=1, slurm_partition="gpu")
    one = executor.submit(add, 2, 3)
    array = executor.map_array(add, [1, 2, 3], [10, 20, 30])
    seen = executor.submit(where)
    bad = executor.submit(fails)
    counts = executor.submit(Counts(), folder)
    found: dict[str, object] = {
        "one": one.result(),
        "array": [job.result() for job in array],
        "array_ids": [job.job_id for job in array],
        "seen": seen.result(),
    }
    try:
        bad.result()
    except submitit.core.utils.FailedJobError as error:
        found["failure"] = "no good" in str(error)
    while not (Path(folder) / "starts").exists():
        time.sleep(0.05)
    counts._interrupt(timeout=False)  # as a preemption does
    found["starts"] = counts.result()
    one.get_info(mode="force")
    found["state"] = one.state
    print(json.dumps(found))


main(sys.argv[1])
