"""Real Slurm and a pool as one sees them: each has a folder from which jobs are submitted."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from tests.support.pool_node import PoolNode
from tests.support.slurm_oracle import Oracle

NOT_HERE: Final = frozenset(
    {
        "SLURM_CONF",
        "SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0",
        "SLURM_SRUN_COMM_PORT",
        "SLURM_STEP_LAUNCHER_PORT",
        "SLURM_TASK_PID",
        "SLURM_UMASK",
        "SLURM_WORKING_CLUSTER",
    }
)
"""Of Slurm's own daemons."""
OF_THE_SITE: Final = {"SLURM_CLUSTER_NAME"}
COMPARED: Final = re.compile(r"SLURM_|SLURMD_NODENAME$|CUDA_VISIBLE|TMPDIR$|ENVIRONMENT$|KEPT|A$")

WAITED: Final = re.compile(
    r"^srun: (Job \S+ step creation (temporarily|still) disabled, retrying|Step created for ).*\n",
    re.MULTILINE,
)
"""What real srun says where the step before has not quite ended."""


class Side:
    """One of the two, with a folder for its jobs."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        self.env = env | {"KEPT": "1"}
        folder.mkdir()
        (folder / "sub").mkdir()

    def submit(self, script: str, *arguments: str) -> str:
        (self.folder / "job.sh").write_text(script)
        done = subprocess.run(
            ["sbatch", "--parsable", "job.sh", *arguments],
            cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def variables(self) -> list[dict[str, str]]:
        """What each job had, by the number of its task; what belongs to one run is left out."""
        found = []
        for path in self.folder.rglob("env.*"):
            parts = path.read_text().split("\0")
            known = dict(part.split("=", 1) for part in parts if "=" in part)
            job = known["SLURM_JOB_ID"]
            array = known.get("SLURM_ARRAY_JOB_ID", job)
            kept = {n: v for n, v in known.items() if COMPARED.match(n) and n not in NOT_HERE}
            for name, value in kept.items():
                named = value.replace(str(self.folder), "FOLDER")
                is_id = name.endswith(("JOB_ID", "JOBID")) and named in (job, array)
                kept[name] = "JOB" if is_id else named
            kept |= dict.fromkeys(OF_THE_SITE, "")
            if "SLURM_JOB_GPUS" in kept:  # which of them is a matter of place
                count = len(kept["SLURM_JOB_GPUS"].split(","))
                kept["SLURM_JOB_GPUS"] = kept["CUDA_VISIBLE_DEVICES"] = f"{count} GPUs"
            found.append(kept)
        return sorted(found, key=lambda each: each.get("SLURM_ARRAY_TASK_ID", ""))

    def files(self, number: str) -> dict[str, str]:
        """The logs by name, with what is in them."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and path.name != "job.sh" and not path.name.startswith("env."):
                name = str(path.relative_to(self.folder)).replace(f"{int(number):05}", "JOB")
                text = WAITED.sub("", path.read_text())
                found[re.sub(rf"(?<!\d){number}(?!\d)", "JOB", name)] = text
        return found


def ended(oracle: Oracle, pool: PoolNode, there: str, here: str) -> tuple[str, str]:
    """How both ended, in Slurm's words."""
    oracle.ended([there])
    row = pool.ended(int(here))
    job = oracle.job(there)
    signal = row.exit_signal or 0
    state = {"done": "COMPLETED", "failed": "FAILED"}.get(row.state, row.state)
    return f"{job['JobState']} {job['ExitCode']}", f"{state} {row.exit_code or 0}:{signal}"
