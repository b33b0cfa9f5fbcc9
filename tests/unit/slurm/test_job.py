"""The submission that the pool gets for a script."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from moiety.pool.model.records import Submission
from moiety.slurm.errors import JobRefused
from moiety.slurm.getopt import Reader
from moiety.slurm.labels import pool_name
from moiety.slurm.submit.job import BatchJob, batch_job
from moiety.slurm.submit.request import MachineSize
from moiety.slurm.submit.script import read

HERE = MachineSize(host="node", cpus=16, memory_mib=65536, gpu_models=("A100",) * 4)


def job(lines: str, typed: str = "", variables: dict[str, str] | None = None) -> BatchJob:
    script = read(f"#!/bin/bash -l\n{lines}\ntrue\n".encode())
    found = Reader("sbatch").read(typed.split())[0]
    return batch_job(script, "dir/job.sh", ["a", "b"], found, HERE, variables or {}, "/home/ann")


def submission(lines: str, typed: str = "", variables: dict[str, str] | None = None) -> Any:
    """As the pool reads it; it must be one that the pool takes."""
    found = job(lines, typed, variables).submission
    taken = msgspec.json.decode(json.dumps(found), type=Submission)
    taken.check()
    return taken


def test_the_command_line_counts_for_more_than_variables_and_those_for_more_than_lines() -> None:
    lines = "#SBATCH -J script -c 1 --mem=1G"
    found = submission(lines, "-c 3", {"SBATCH_JOB_NAME": "variable", "SBATCH_MEM_PER_NODE": "2G"})
    assert (found.name, found.cpus, found.host_memory_bytes) == ("variable", 3, 2 << 30)


def test_a_whole_card_is_promised() -> None:
    found = submission("#SBATCH --gres=gpu:2")
    assert (found.gpus, found.gpu, found.memory_bytes) == (2, None, 0)
    assert submission("").gpus == 0


def test_a_script_is_copied_and_run_by_its_interpreter() -> None:
    found = submission("#SBATCH -D sub --open-mode=append -i in.txt")
    assert found.program == "/bin/bash"
    assert found.argv == ["/bin/bash", "-l", "{script}", "a", "b"]
    assert found.script.startswith("#!/bin/bash -l\n")
    assert found.cwd == "/home/ann/sub"
    assert (found.stdout, found.stderr, found.stdin) == ("slurm-%j.out", "", "in.txt")
    assert found.open_mode == "append"
    assert submission("").open_mode == "truncate"


def test_time_arrays_dependencies_and_requeue_are_the_pools() -> None:
    found = submission(
        "#SBATCH -t 1:00:00 --array=1-3%2 -d AfterOK:7 --no-requeue -H --begin=now+1hour"
    )
    assert (found.time_limit_s, found.array, found.depends) == (3600, "1-3%2", "afterok:7")
    assert (found.requeue, found.hold) == (False, True)
    assert found.begin_s > 0
    assert submission("").requeue
    assert submission("#SBATCH --no-requeue\n#SBATCH --requeue").requeue, "the last counts"
    assert not submission("#SBATCH --requeue", "--no-requeue").requeue


def test_a_signal_goes_to_the_script_or_to_steps() -> None:
    batch = submission("#SBATCH -t 10 --signal=B:USR1@90")
    assert (batch.warn_signal, batch.warn_s, batch.warn_first) == (10, 90, True)
    assert "MOIETY_STEP_SIGNAL" not in batch.variables
    steps = submission("#SBATCH -t 10 --signal=USR1@90")
    assert (steps.warn_signal, steps.variables["MOIETY_STEP_SIGNAL"]) == (0, "10@90")


def test_what_was_said_is_kept() -> None:
    found = job("#SBATCH -J 'a b' --comment=c -p gpu32 -A acct --signal=USR1@5 -n2 --mem=1G")
    labels = found.labels
    assert (labels.name, labels.comment, labels.partition) == ("a b", "c", "gpu32")
    assert (labels.account, labels.signal, labels.ntasks, labels.mem_mib) == (
        "acct", "USR1@5", 2, 1024,
    )  # fmt: skip
    assert labels.command == "/home/ann/dir/job.sh a b"
    assert labels.notes.startswith("--comment means nothing here")
    assert found.project == "acct"


def test_names_become_those_that_the_pool_takes() -> None:
    assert pool_name("a b/ü") == "a_b__"
    assert pool_name("-x") == "_-x"
    assert pool_name("") == "_"
    assert len(pool_name("x" * 200)) == 128
    assert submission("#SBATCH -J 'a b' -o %x/%5x.out").stdout == "a b/a b.out"


def test_a_variable_that_is_no_text_stays_behind() -> None:
    found = submission("", variables={"GOOD": "1", "BAD": "\udcff"})
    assert found.environment == {"GOOD": "1"}


@pytest.mark.parametrize("line", ["#SBATCH stray", "#SBATCH --cpus-per-task 4 x", "#SBATCHX"])
def test_stray_words_are_refused(line: str) -> None:
    with pytest.raises(JobRefused, match="Invalid directive found in batch script"):
        job(line)
