"""`sacct`'s command line and lines."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from moiety.pool.model.states import WorkState
from moiety.slurm.show import options, sacct
from moiety.slurm.show.jobs import SlurmJob
from moiety.slurm.show.options import Given
from moiety.slurm.show.states import JobState
from tests.support.slurm_rows import job_of, ran


def given(*words: str) -> Given:
    return options.read("sacct", words, sacct.OPTIONS)[0]


def printed(jobs: list[SlurmJob], *words: str) -> list[str]:
    found = given(*words)
    wanted = sacct.wanted_of(found, time.time())
    return list(sacct.table(found, sacct.cells_of(found), jobs, wanted))


def test_what_submitit_asks_for() -> None:
    waits = replace(job_of(id=20, array_id=20, array_index=2, array_at_once=25),
                    indices=(2, 3, 4))  # fmt: skip
    lines = printed([job_of(**ran()), waits], "-o", "JobID,State,NodeList", "--parsable2",
                    "-j", "7", "-j", "20")  # fmt: skip
    assert lines == ["JobID|State|NodeList", "7|COMPLETED|gpu1", "7.batch|COMPLETED|gpu1",
                     "20_[2-4%25]|PENDING|None assigned"]  # fmt: skip


def test_what_snakemake_asks_for() -> None:
    lines = printed(
        [job_of(**ran())], "-X", "--parsable2", "--clusters", "all", "--noheader",
        "--format=JobIdRaw,State", "--starttime", "2026-11-23T12:00", "--endtime", "now",
        "--name", "sweep",
    )  # fmt: skip
    assert lines == ["7|COMPLETED"]
    assert printed([job_of(**ran())], "-j", "7", "-n", "-X", "-o", "nodelist%-256") == [
        "gpu1".ljust(256) + " "
    ]


def test_columns_have_titles_and_dashes() -> None:
    lines = printed([job_of(**ran())], "-X", "-b")
    assert lines == [
        "JobID             State ExitCode ",
        "------------ ---------- -------- ",
        "7             COMPLETED      0:0 ",
    ]
    assert printed([job_of(**ran())], "-X", "-b", "-p")[1] == "7|COMPLETED|0:0|"


def test_a_step_may_be_asked_for_alone() -> None:
    lines = printed([job_of(**ran())], "-n", "-P", "-o", "jobid", "-j", "7.batch")
    assert lines == ["7.batch"]
    step = {"number": 0, "name": "a", "command": "a", "tasks": 1, "cpus": 1, "gpus": 0,
            "began_s": 9_100.0, "ended_s": 9_101.0, "exit_code": 0, "exit_signal": 0}  # fmt: skip
    job = replace(job_of(**ran()), steps=[step, step | {"number": 1}])
    for words, expected in (
        (["7"], ["7", "7.batch", "7.0", "7.1"]),
        (["7.1"], ["7.1"]),
        (["7.0,7.batch"], ["7.batch", "7.0"]),
        (["7.9"], []),
        (["7.1", "-X"], ["7"]),
    ):
        assert printed([job], "-n", "-P", "-o", "jobid", "-j", *words) == expected
    waits = [job_of(), job_of(state=WorkState.HELD)]
    assert printed(waits, "-n", "-P", "-o", "jobid", "-j", "7") == ["7", "7"]


def test_todays_work_is_meant_unless_jobs_are_named() -> None:
    now_s = time.mktime((2026, 11, 25, 12, 0, 0, 0, 0, -1))
    assert sacct.wanted_of(given(), now_s).since_s == now_s - 12 * 3600
    assert sacct.wanted_of(given("-j", "7"), now_s).since_s == 0.0
    assert sacct.wanted_of(given("-S", "now-1day"), now_s).since_s == now_s - 86400
    assert JobState.CONFIGURING in (sacct.wanted_of(given("-s", "R"), now_s).states or ())


def test_own_work_is_meant_unless_root_asks() -> None:
    users = sacct.wanted_of(given(), 0.0).users
    assert bool(users) is (os.getuid() != 0)
    assert sacct.wanted_of(given("-u", "0"), 0.0).users == {"root"}
    assert sacct.wanted_of(given("-a"), 0.0).users == frozenset()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "bogus"], 'sacct: error: Invalid field requested: "bogus"'),
        (["-j", "x"], "sacct: error: Invalid job id: x"),
        (["-s", "XX"], "sacct: error: Invalid job state: XX"),
        (["-S", "soon"], "sacct: error: Invalid time specification (pos=0): soon"),
        (["-u", "no-such-user"], "sacct: error: Invalid user id: no-such-user"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sacct.main(words) == 1
    assert capsys.readouterr().err.splitlines()[0] == said


def test_helpformat_names_all_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert sacct.main(["--helpformat"]) == 0
    words = capsys.readouterr().out.split()
    assert {"JobID", "JobIDRaw", "MaxRSS", "DerivedExitCode", "AllocTRES"} <= set(words)
