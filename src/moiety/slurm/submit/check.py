"""`moiety slurm check`: what becomes of a script, without submitting it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from moiety.model.errors import MoietyError
from moiety.slurm.getopt import Reader
from moiety.slurm.submit.job import batch_job
from moiety.slurm.submit.request import MachineSize
from moiety.slurm.submit.sbatch import script_of


def check(words: Sequence[str], machine: MachineSize, folder: str = "") -> dict[str, Any]:
    """The verdict about `sbatch WORDS...`, and all that follows from it; refusals are verdicts."""
    try:
        typed, rest = Reader("sbatch").read(words)
        script, path, arguments = script_of(typed, rest)
        job = batch_job(script, path, arguments, typed, machine, folder=folder)
    except MoietyError as error:
        return {"verdict": "refused", "reason": error.what, "try": error.hint}
    request = job.request
    submission = job.submission
    return {
        "verdict": "accepted",
        "notes": list(dict.fromkeys(request.notes)),
        "name": job.name,
        "request": {
            "nodes": 1,
            "tasks": request.tasks,
            "ntasks": request.ntasks,
            "ntasks_per_node": request.ntasks_per_node,
            "cpus": request.cpus,
            "cpus_per_task": request.cpus_per_task,
            "memory_mib": request.mem_mib,
            "gpus": request.gpus,
            "gpu_model": request.gpu_model,
            "exclusive": request.exclusive,
            "time_limit_s": request.time_limit_s,
            "array": list(request.array),
            "array_at_once": request.array_at_once,
            "dependency": request.text("dependency"),
            "begin_s": submission.get("begin_s", 0.0),
            "hold": submission["hold"],
            "requeue": submission["requeue"],
            "signal": asdict(request.warn) if request.warn else None,
        },
        "files": {
            "work_dir": job.labels.work_dir,
            "output": submission["stdout"],
            "error": submission["stderr"],
            "input": submission.get("stdin", ""),
            "open_mode": submission["open_mode"],
        },
        "interpreter": script.interpreter,
        "options": dict(request.said),
        "variables": submission["variables"],
    }
