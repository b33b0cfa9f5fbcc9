"""Options are read as getopt_long reads them, and every one of the table can be read."""

from __future__ import annotations

import pytest

from moiety.slurm.errors import JobRefused
from moiety.slurm.getopt import Reader
from moiety.slurm.options import (
    ALL,
    OPTIONS,
    VARIABLES,
    Argument,
    Effect,
    options_of,
)


def said(*words: str, program: str = "sbatch") -> dict[str, str]:
    found, rest = Reader(program).read(words)
    assert rest == []
    return {option.name: value for option, value in found}


def test_values_are_behind_glued_or_the_next_word() -> None:
    assert said("--ntasks=2", "-N1", "-c", "4", "--mem", "4G", "-Hn3") == {
        "ntasks": "3",
        "nodes": "1",
        "cpus-per-task": "4",
        "mem": "4G",
        "hold": "",
    }


def test_a_value_that_may_lack_is_behind_an_equals_sign_only() -> None:
    assert said("--exclusive") == {"exclusive": ""}
    assert said("--exclusive=user") == {"exclusive": "user"}
    _, rest = Reader("sbatch").read(["--exclusive", "user"])
    assert rest == ["user"]
    assert said("-K0", program="srun") == {"kill-on-bad-exit": "0"}


def test_prefixes_count_if_only_one_name_begins_so() -> None:
    assert said("--constrain=a", "--job=x", "--tasks-per=2") == {
        "constraint": "a",
        "job-name": "x",
        "ntasks-per-node": "2",
    }
    with pytest.raises(JobRefused, match=r"'--exclu' is ambiguous; possibilities: '--exclu"):
        said("--exclu")
    assert said("--mem=1") == {"mem": "1"}, "a whole name is never ambiguous"


def test_options_end_at_the_first_word_that_is_none() -> None:
    found, rest = Reader("sbatch").read(["-n", "2", "job.sh", "-n", "3"])
    assert ([value for _, value in found], rest) == (["2"], ["job.sh", "-n", "3"])
    assert Reader("sbatch").read(["--", "-n"]) == ([], ["-n"])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--bogus=1"], "unrecognized option '--bogus=1'"),
        (["--cpus_per_task=2"], "unrecognized option"),
        (["-y"], "invalid option -- 'y'"),
        (["--ntasks"], "option '--ntasks' requires an argument"),
        (["-n"], "option requires an argument -- 'n'"),
        (["--hold=1"], "doesn't allow an argument"),
        (["--container=x"], "--container cannot be used here"),
        (["--uid=0"], "--uid cannot be used here"),
    ],
)
def test_what_cannot_be_read_is_refused(words: list[str], text: str) -> None:
    with pytest.raises(JobRefused, match=text):
        Reader("sbatch").read(words)


@pytest.mark.parametrize("program", ALL)
def test_every_option_of_the_table_can_be_read(program: str) -> None:
    letters = [option.short for option in options_of(program) if option.short]
    names = [option.name for option in options_of(program)]
    assert len(set(letters)) == len(letters)
    assert len(set(names)) == len(names)
    for option in options_of(program):
        if option.effect is Effect.REFUSED:
            continue
        value = "" if option.argument is Argument.NONE else "1"
        word = f"--{option.name}={value}" if value else f"--{option.name}"
        assert said(word, program=program) == {option.alias_of or option.name: value}


def test_variables_count_and_false_ones_do_not() -> None:
    known = {"SBATCH_GRES": "gpu:1", "SBATCH_REQUEUE": "0", "SBATCH_WAIT": "", "SBATCH_QOS": "x"}
    found = Reader("sbatch").of_environment(known)
    assert {option.name: value for option, value in found} == {"gres": "gpu:1", "qos": "x"}
    for program, variables in VARIABLES.items():
        assert set(variables.values()) <= {option.name for option in options_of(program)}


def test_every_option_says_what_it_does() -> None:
    assert all(option.words or option.alias_of for option in OPTIONS)
