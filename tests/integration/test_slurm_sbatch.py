"""Unchanged #SBATCH scripts run in a pool, with what real Slurm would give them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from moiety.pool.model.states import WorkState
from moiety.slurm.install import install
from tests.support.pool_node import MakePool, PoolNode

GPU = "4xA100-80:memory=96MiB"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slurm") / "bin"
    install(folder)
    return folder


class Here:
    """A folder of a user with Slurm's programs."""

    def __init__(self, pool: PoolNode, programs: Path, folder: Path) -> None:
        self.pool, self.folder = pool, folder
        self.env = dict(pool.node.env) | {"PATH": f"{programs}:{os.environ['PATH']}"}

    def run(
        self, *words: str, stdin: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self.folder,
            env=self.env | variables,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def sbatch(self, script: str, *options: str, **variables: str) -> int:
        """Submit a script; its number."""
        (self.folder / "job.sh").write_text(script)
        done = self.run("sbatch", "--parsable", *options, "job.sh", **variables)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def output(self, number: int) -> str:
        """What a job has written, once it is over."""
        row = self.pool.ended(number)
        assert row.state is WorkState.DONE, row
        return Path(row.stdout).read_text()


@pytest.fixture
def here(make_pool: MakePool, programs: Path, tmp_path: Path) -> Here:
    pool = make_pool(GPU)
    pool.up()
    return Here(pool, programs, tmp_path)


ENVIRONMENT = """#!/bin/bash
#SBATCH --job-name="a b"
#SBATCH --gres=gpu:2 -n 2 -c 1 --comment 'x # y'
#SBATCH --mem 100M
#SBATCH -o logs/%x/%5j.%N.out
# SBATCH -n 4
echo "$0|$1|$SLURM_JOB_ID|$SLURM_NTASKS|$SLURM_CPUS_PER_TASK|$SLURM_JOB_NAME"
echo "$CUDA_VISIBLE_DEVICES|$SLURM_GPUS_ON_NODE|$SLURM_MEM_PER_NODE|$SLURM_ARRAY_TASK_ID|$FOO"
pwd
#SBATCH -n 9
"""


def test_a_script_runs_as_its_lines_say(here: Here) -> None:
    number = here.sbatch(ENVIRONMENT, FOO="kept")
    text = here.output(number)
    row = here.pool.row(number)
    assert row.stdout == str(here.folder / f"logs/a b/{number:05}.{os.uname().nodename}.out")
    script, *lines = text.splitlines()
    assert script.startswith(str(here.pool.paths.spool_of(number)))
    assert script.endswith(f"/slurm_script||{number}|2|1|a b")
    assert lines == ["0,1|2|100||kept", str(here.folder)]
    assert (row.name, row.gpus, row.gpu_milli, row.cpu_milli) == ("a_b", 2, 1000, 2000)
    assert row.labels["slurm.comment"] == "x # y"
    assert not here.pool.paths.spool_of(number).exists(), "it is gone with its job"


def test_a_script_comes_from_stdin_or_is_wrapped_and_notes_go_to_stderr(here: Here) -> None:
    done = here.run("sbatch", "-p", "gpu32", "--mail-type=END", stdin="#!/bin/sh\necho $1-$2 a\n")
    assert done.stdout == "Submitted batch job 1\n", done.stderr
    assert [line.partition(":")[2] for line in done.stderr.splitlines()] == [
        " note: --partition means nothing here: there is one partition; the pool has projects",
        " note: --mail-type means nothing here: no mail is sent",
    ]
    assert here.output(1) == "- a\n"
    waited = here.run("sbatch", "--wait", "-Q", "--wrap", "exit 3", "-p", "x")
    assert (waited.returncode, waited.stdout, waited.stderr) == (3, "", "")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--gres=gpu:5", "--wrap=true"], 1, "5 GPUs are asked for, and there are 4"),
        (["-N2", "--wrap=true"], 1, "2 nodes are asked for, and there is one machine"),
        (["--image=x", "--wrap=true"], 255, "unrecognized option '--image=x'"),
        (["--time=abc", "--wrap=true"], 255, "Invalid --time specification"),
        (["none.sh"], 1, "Unable to open file none.sh"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    here: Here, words: list[str], code: int, said: str
) -> None:
    done = here.run("sbatch", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert here.pool.live() == []


STEPS = """#!/bin/bash
#SBATCH --gres=gpu:2 -n2
export LD_PRELOAD_SEEN=$(echo "$LD_PRELOAD" | grep -c libmoiety)
srun -l bash -c 'echo $SLURM_PROCID of $SLURM_NTASKS on $CUDA_VISIBLE_DEVICES' | sort
srun --gpus-per-task=1 -o step%t.txt bash -c 'echo $SLURM_STEP_ID $CUDA_VISIBLE_DEVICES'
srun -K -n2 bash -c '[ $SLURM_PROCID = 0 ] && exit 5; exec sleep 300'
echo "code $?"
env -u MOIETY_JOB_ID true
sbatch --parsable -o inner.txt <<'EOT'
#!/bin/sh
echo "$LD_PRELOAD|$MOIETY_SOCKET|$CUDA_VISIBLE_DEVICES|$SLURM_JOB_ID"
EOT
"""


def test_steps_have_ranks_and_a_job_inside_has_nothing_of_the_outer_one(here: Here) -> None:
    number = here.sbatch(STEPS)
    lines = here.output(number).splitlines()
    assert lines[:2] == ["0: 0 of 2 on 0,1", "1: 1 of 2 on 0,1"]
    assert [(here.folder / f"step{rank}.txt").read_text() for rank in (0, 1)] == ["1 0\n", "1 1\n"]
    assert "code 5" in lines or "code 143" in lines, lines
    inner = int(lines[-1])
    here.pool.ended(inner)
    assert (here.folder / "inner.txt").read_text() == f"|||{inner}\n"


ALONE = "cat; echo $SLURM_JOB_ID $SLURM_STEP_ID $CUDA_VISIBLE_DEVICES; exit 4"
HELD = "echo $CUDA_VISIBLE_DEVICES; srun -n2 hostname"


def test_srun_without_a_job_and_salloc_get_one_and_end_with_their_command(here: Here) -> None:
    done = here.run(
        "srun",
        "--gres=gpu:1",
        "bash",
        "-c",
        ALONE,
        stdin="in\n",
    )
    assert (done.returncode, done.stdout) == (4, "in\n1 0 0\n"), done.stderr
    row = here.pool.ended(1)
    assert (row.state, row.exit_code, row.name) == ("failed", 4, "bash")
    held = here.run("salloc", "-G", "2", "bash", "-c", HELD)
    assert held.stdout == "0,1\n" + f"{os.uname().nodename}\n" * 2, held.stderr
    said = [line for line in held.stderr.splitlines() if ": job 2 " not in line]  # it may wait
    assert said == [
        "salloc: Granted job allocation 2",
        "salloc: Relinquishing job allocation 2",
    ]
    assert here.pool.ended(2).state is WorkState.DONE
    failed = here.run("salloc", "-Q", "sh", "-c", "exit 3")
    row = here.pool.ended(3)
    assert (failed.returncode, row.state, row.exit_code) == (3, WorkState.FAILED, 3)
