"""The same job in real Slurm and in a pool: variables, files, states and exit codes are equal."""

from __future__ import annotations

from typing import Final

import pytest

from tests.slurm.side import Side, ended
from tests.support.pool_node import PoolNode
from tests.support.slurm_oracle import MEMORY_DEFAULT_MIB, Oracle

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
    "functions": 'f() { echo "$1 in f"; }\nexport -f f\nbash -c "f one"\nsrun bash -c "f two"',
}


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
