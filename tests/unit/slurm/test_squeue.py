"""`squeue`'s command line: which jobs are meant, in which order and columns."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from moiety.pool.model.states import WorkState
from moiety.slurm.programs import PROGRAMS
from moiety.slurm.show import options, squeue
from moiety.slurm.show.options import Given, UsageError
from moiety.slurm.show.selection import matches, names
from moiety.slurm.show.states import JobState
from tests.support.slurm_rows import job_of, ran

HEAVY = ("asyncio", "click", "msgspec", "numpy", "sqlite3", "starlette", "uvicorn")


def given(*words: str) -> Given:
    return options.read("squeue", words, squeue.OPTIONS)[0]


def test_jobs_are_chosen_by_what_is_said() -> None:
    job = job_of()
    for words, is_meant in (
        ((), True),
        (("-j", "7"), True),
        (("-j", "8,9"), False),
        (("-u", "root"), True),
        (("-u", "0"), True),
        (("-n", "sweep,other"), True),
        (("-n", "other"), False),
        (("-t", "PD"), True),
        (("-t", "R,CG"), False),
        (("-t", "all"), True),
        (("-p", "pool"), True),
        (("-p", "other"), False),
        (("-A", "nlp"), True),
        (("-A", "other"), False),
    ):
        assert matches(job, squeue.wanted_of(given(*words))) is is_meant, words


def test_ended_work_is_asked_for_only_if_its_state_is() -> None:
    assert squeue.wanted_of(given()).since_s is None
    assert squeue.wanted_of(given("-t", "PD,R")).since_s is None
    assert squeue.wanted_of(given("-t", "F")).since_s == 0.0
    assert squeue.wanted_of(given("--states=all")).states == frozenset(JobState)


def test_a_number_means_a_job_a_task_or_all_of_an_array() -> None:
    task = job_of(id=21, array_id=20, array_index=1)
    for text, is_meant in (("20", True), ("21", True), ("20_1", True), ("20_[0-1]", True),
                           ("20_2", False), ("22", False)):  # fmt: skip
        (wanted,) = squeue.wanted_of(given("-j", text)).ids
        assert names(wanted, task) is is_meant, text


def test_the_usual_order_is_that_of_slurm() -> None:
    jobs = [job_of(id=1, state=WorkState.RUNNING), job_of(id=2), job_of(id=3, priority=5),
            job_of(id=4)]  # fmt: skip
    assert [job.number for job in squeue.ordered(jobs, "P,t,-p")] == [3, 2, 4, 1]
    assert [job.number for job in squeue.ordered(jobs, "-i")] == [4, 3, 2, 1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-j", "abc"), "squeue: error: Invalid job id: abc"),
        (("-t", "XX"), "squeue: error: Invalid job state specified: XX"),
        (("-i", "0"), "squeue: error: invalid entry for --iterate=0"),
        (("word",), "squeue: error: Unrecognized option: word"),
    ],
)
def test_what_makes_no_sense_is_refused_in_slurms_words(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert squeue.main(list(words)) == 1
    assert capsys.readouterr().err.splitlines()[0] == said


def test_a_user_that_is_none_has_no_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert not matches(job_of(), squeue.wanted_of(given("-u", "no-such-user")))
    assert "Invalid user: no-such-user" in capsys.readouterr().err


def test_formats_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    assert [cell.column.title for cell in squeue.cells_of(given())] == ["JOBID"]
    monkeypatch.setenv("SQUEUE_FORMAT2", "jobid,state")
    assert [cell.column.title for cell in squeue.cells_of(given())] == ["JOBID", "STATE"]
    assert len(squeue.cells_of(given("-o", "%t"))) == 1


def test_json_has_slurms_names() -> None:
    found = squeue.as_json(job_of(**ran("failed", exit_code=3)))
    assert (found["job_id"], found["job_state"], found["exit_code"]) == (7, "FAILED", 3)


def test_the_programs_load_nothing_slow() -> None:
    modules = [name for name in PROGRAMS.values() if ".show." in name]
    assert len(modules) == 5
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; import {', '.join(modules)}; "
            f"print([name for name in {HEAVY!r} if name in sys.modules])",
        ],
        capture_output=True,
        text=True,
        env={**os.environ},
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_a_command_line_error_is_one_of_usage() -> None:
    with pytest.raises(UsageError):
        squeue.wanted_of(given("-t", "nothing"))
