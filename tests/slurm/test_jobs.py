"""The same job in real Slurm and in a pool: variables, files, states and exit codes are equal."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.pool_node import PoolNode
from tests.support.slurm_oracle import MEMORY_DEFAULT_MIB, Oracle

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
BODY: Final = 'env -0 > env.$SLURM_JOB_ID\necho "$1 done"\n'
"""What each script does, unless it says something else."""

JOBS: Final = {
    "nothing": "",
    "numbers": "#SBATCH -n 2 -c 1 --mem=100M --gres=gpu:2 -J 'a b' -t 10",
    "per-node": "#SBATCH --ntasks-per-node=2 --gpus=1 -o %x.%5j.%N.txt -e %j.err",
    "per-task": "#SBATCH --gpus-per-task=1 -n 2 --mem-per-cpu=50M -J per",
    "per-gpu": "#SBATCH --gpus=2 --ntasks-per-gpu=1 --mem-per-gpu=10M",
    "array": "#SBATCH --array=1-3:2%1 --gpus-per-node=1 -o arr_%A_%2a.txt",
    "none": "#SBATCH --export=NONE",
    "some": "#SBATCH --export=A=3,KEPT_NOT=4",
    "with": "#SBATCH --export=ALL,A=3",
    "words": "#SBATCH --hint=nomultithread --open-mode=append --comment=x --distribution=block",
    "folder": "#SBATCH -D sub",
}


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
                found[re.sub(rf"(?<!\d){number}(?!\d)", "JOB", name)] = path.read_text()
        return found


@pytest.fixture
def theirs(oracle: Oracle, tmp_path: Path) -> Side:
    return Side(tmp_path / "theirs", oracle.environment)


@pytest.fixture
def ours(pool: PoolNode, programs: Path, tmp_path: Path) -> Side:
    env = dict(pool.node.env) | {"PATH": f"{programs}:/usr/bin:/bin"}
    return Side(tmp_path / "ours", env)


def ended(oracle: Oracle, pool: PoolNode, there: str, here: str) -> tuple[str, str]:
    """How both ended, in Slurm's words."""
    oracle.ended([there])
    row = pool.ended(int(here))
    job = oracle.job(there)
    signal = row.exit_signal or 0
    state = {"done": "COMPLETED", "failed": "FAILED"}.get(row.state, row.state)
    return f"{job['JobState']} {job['ExitCode']}", f"{state} {row.exit_code or 0}:{signal}"


@pytest.mark.parametrize("name", JOBS)
def test_variables_and_files_are_equal(
    oracle: Oracle, pool: PoolNode, theirs: Side, ours: Side, name: str
) -> None:
    script = f"#!/bin/bash\n{JOBS[name]}\n{BODY}"
    there, here = theirs.submit(script, "word"), ours.submit(script, "word")
    their_end, our_end = ended(oracle, pool, there, here)
    assert our_end == their_end
    found, expected = ours.variables(), theirs.variables()
    assert len(found) == len(expected)
    for mine, real in zip(found, expected, strict=True):
        if real.get("SLURM_MEM_PER_CPU") == str(MEMORY_DEFAULT_MIB):
            del real["SLURM_MEM_PER_CPU"]  # the site's default; here there is none
        if not mine["CUDA_VISIBLE_DEVICES"]:  # here a job without GPUs sees none
            del mine["CUDA_VISIBLE_DEVICES"]
        assert mine == real
    assert ours.files(here) == theirs.files(there)


@pytest.mark.parametrize(
    "body", ["exit 3", "kill -9 $$", "kill -TERM $$", "exec false", "srun bash -c 'exit 5'"]
)
def test_ends_are_equal(
    oracle: Oracle, pool: PoolNode, theirs: Side, ours: Side, body: str
) -> None:
    script = f"#!/bin/bash\n{body}\n"
    their_end, our_end = ended(oracle, pool, theirs.submit(script), ours.submit(script))
    assert our_end == their_end


STEP: Final = """#!/bin/bash
#SBATCH -n 2 --gres=gpu:2
srun -l bash -c 'echo rank $SLURM_PROCID of $SLURM_NTASKS, $SLURM_LOCALID, $SLURM_STEP_ID' | sort
srun -n1 -o step_%j_%s_%t.txt bash -c 'echo $SLURM_STEP_NUM_TASKS $SLURM_STEP_TASKS_PER_NODE'
srun -n2 -o each_%t.txt hostname
srun bash -c 'exit $((SLURM_PROCID * 7))' 2>/dev/null
echo code $?
"""


def test_steps_are_equal(oracle: Oracle, pool: PoolNode, theirs: Side, ours: Side) -> None:
    there, here = theirs.submit(STEP), ours.submit(STEP)
    their_end, our_end = ended(oracle, pool, there, here)
    assert our_end == their_end
    assert ours.files(here) == theirs.files(there)
