"""What the programs that ask print and answer is what real Slurm's do, for equal jobs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pool_node import PoolNode
from tests.support.slurm_oracle import Oracle

SCRIPT = "#!/bin/sh\nsleep 60\n"
FORMATS = (
    "%i|%j|%u|%t|%T|%r|%R|%D|%l|%L|%M|%N|%E|%y|%K|%F|%x|%q|%v|%w|%W|%X|%Y|%z|%h|%H|%I|%J|%O|%d",
    "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R",
    "%.4i|%12j|%.3t|",
)
NAMES = "JobID:6,Name:.12,StateCompact,TimeLimit:11,Reason,ArrayTaskID,Dependency:10,NumNodes"
ERRORS = (
    ("squeue", "-j", "999999"),
    ("squeue", "-j", "abc"),
    ("squeue", "-t", "XX"),
    ("squeue", "--bogus"),
    ("squeue", "-i"),
    ("scancel",),
    ("scancel", "abc"),
    ("scancel", "999999"),
    ("scancel", "-v", "999999"),
    ("scancel", "-s", "BOGUS", "1"),
    ("scancel", "-t", "XX"),
    ("scancel", "-u", "no-such-user"),
    ("scontrol", "show", "job", "999999"),
    ("scontrol", "show", "job", "abc"),
    ("scontrol", "show", "bogus"),
    ("scontrol", "show", "node", "nope"),
    ("scontrol", "show", "partition", "nope"),
    ("scontrol", "requeue", "999999"),
    ("scontrol", "update", "jobid=999999", "timelimit=5"),
    ("scontrol", "update", "foo=1"),
    ("scontrol", "bogus"),
    ("sinfo", "--bogus"),
    ("sinfo", "-p", "nope"),
    ("squeue", "-o", "foo %%5 %.-5t|"),
    ("squeue", "-s", "-o", "foo %Z"),
    ("squeue", "-O", "foo,,bar"),
    ("sinfo", "-o", "foo %i %t 100%% %t%"),
    ("sinfo", "-O", "foo,,bar"),
)
REFUSED = (
    "sbatch --bogus job.sh",
    "sbatch --time=abc job.sh",
    "sbatch --nodes=abc job.sh",
    "sbatch --mem=abc job.sh",
    "sbatch --begin=foo job.sh",
    "sbatch --signal=FOO job.sh",
    "sbatch nosuch.sh",
    "sbatch -d afterok:abc job.sh",
    "srun --bogus true",
    "srun --time=abc true",
    "salloc --bogus true",
    "salloc --time=abc true",
)
"""They submit nothing."""
LISTS = ("n[1-3,7]", "n[08-10]", "a,b[1-2],c", "r[1-2]n[1-2]", "gpu")
HOSTS = ("a1,a2,a3,b", "n08,n09,n10,n12", "n9,n10", "gpu")


class Both:
    """Real Slurm and ours, with the same held jobs."""

    def __init__(self, oracle: Oracle, pool: PoolNode, programs: Path, folder: Path) -> None:
        self._oracle, self._pool, self._programs = oracle, pool, programs
        self._folder = folder
        (folder / "job.sh").write_text(SCRIPT)

    def run(self, *words: str) -> list[subprocess.CompletedProcess[str]]:
        """What both answer: the real one first."""
        ours = subprocess.run(
            [self._programs / words[0], *words[1:]], cwd=self._folder, env=self._pool.node.env,
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False,
        )  # fmt: skip
        return [self._oracle.run(*words, cwd=self._folder), ours]

    def submit(self, *words: str) -> list[str]:
        """The numbers that both gave to a job."""
        return [done.stdout.strip() for done in self.run("sbatch", "--parsable", *words, "job.sh")]


@pytest.fixture
def both(oracle: Oracle, pool: PoolNode, programs: Path, tmp_path: Path) -> Iterator[Both]:
    found = Both(oracle, pool, programs, tmp_path)
    yield found
    found.run("scancel", "--user=root")


def test_columns_are_equal(both: Both) -> None:
    numbers = ["", ""]
    while any(len(number) < 2 for number in numbers):  # a digit is found in other cells, too
        numbers = both.submit("--hold", "-J", "held", "-t", "90")
    for words in (*(("-o", text) for text in FORMATS), ("-O", NAMES)):
        real = both.run("squeue", "-j", numbers[0], *words)[0].stdout
        ours = both.run("squeue", "-j", numbers[1], *words)[1].stdout
        assert parts(ours, numbers[1]) == parts(real, numbers[0]), words


def parts(text: str, number: str) -> list[str]:
    """The words of a list; the number of the job, which may have more digits, is left out."""
    return [re.sub(rf"(?<![\d:]){number}(?![\d:])", "N", part) for part in text.split()]


def test_a_job_has_the_same_keys(both: Both) -> None:
    numbers = both.submit("--hold", "-J", "held", "--array=1-4%2", "--gres=gpu:1", "--mem=100")
    shown = [
        both.run("scontrol", "show", "jobid", numbers[0])[0].stdout,
        both.run("scontrol", "show", "jobid", numbers[1])[1].stdout,
    ]
    real, ours = ([part.split("=", 1)[0] for part in text.split() if "=" in part] for text in shown)
    own = {"Comment"}
    assert [key for key in ours if key not in own] == real


def test_lists_of_hosts_are_equal(both: Both) -> None:
    for words in (*(("hostnames", text) for text in LISTS), *(("hostlist", t) for t in HOSTS)):
        real, ours = both.run("scontrol", "show", *words)
        assert (ours.stdout, ours.returncode) == (real.stdout, real.returncode), words


@pytest.mark.parametrize("words", ERRORS, ids=" ".join)
def test_what_is_wrong_is_answered_with_the_same_words_and_code(
    both: Both, words: tuple[str, ...]
) -> None:
    real, ours = both.run(*words)
    assert ours.returncode == real.returncode, ours.stderr
    assert ours.stderr.splitlines()[:1] == real.stderr.splitlines()[:1]
    assert ours.stdout.splitlines()[:1] == real.stdout.splitlines()[:1]


def test_what_submits_nothing_ends_with_slurms_exit_code(both: Both) -> None:
    for words in REFUSED:
        real, ours = both.run(*words.split())
        assert ours.returncode == real.returncode, (words, real.stderr, ours.stderr)
