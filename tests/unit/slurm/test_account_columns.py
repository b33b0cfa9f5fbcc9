"""The columns of `sacct`, for jobs and for their steps."""

from __future__ import annotations

import pytest

from moiety.pool.model.states import WorkState
from moiety.slurm import times
from moiety.slurm.labels import JobLabels
from moiety.slurm.show.account_columns import NAMES
from moiety.slurm.show.account_lines import AccountLine
from moiety.slurm.show.columns import lines, percent_cells
from moiety.slurm.show.jobs import SlurmJob
from tests.support.slurm_rows import STEP, job_of, ran


def values(line: AccountLine, text: str) -> list[str]:
    cells = percent_cells(text, NAMES, "|", pytest.fail)
    assert len(cells) == len(text.split(","))
    (found,) = lines(cells, [line], header=False)
    return found.split("|")[:-1]


def test_a_job_that_has_ended() -> None:
    used = {"max_rss_kib": 2048, "user_s": 1.5, "system_s": 0.25}
    job = job_of(JobLabels(cpus=4, mem_mib=8192, comment="mine"),
                 **ran("failed", exit_code=3, **used))  # fmt: skip
    text = "JobID,State,ExitCode,DerivedExitCode,Elapsed,ElapsedRaw,TotalCPU,ReqMem,MaxRSS"
    assert values(AccountLine(job), text) == [
        "7", "FAILED", "3:0", "0:0", "00:01:02", "62", "00:01.750", "8G", "",
    ]  # fmt: skip
    assert values(AccountLine(job, "batch"), text) == [
        "7.batch", "FAILED", "3:0", "", "00:01:02", "62", "00:01.750", "", "2048K",
    ]  # fmt: skip
    assert values(AccountLine(job), "AllocTRES,ReqTRES,AllocGRES,Comment,NodeList,AllocCPUS") == [
        *["billing=4,cpu=4,gres/gpu=2,mem=8G,node=1"] * 2, "gpu:2", "mine", "gpu1", "4",
    ]  # fmt: skip


def test_who_cancelled_it_is_said_by_number() -> None:
    job = job_of(**ran("cancelled", reason="cancelled by root", exit_signal=15))
    assert values(AccountLine(job), "State,ExitCode") == ["CANCELLED by 0", "0:0"]
    assert values(AccountLine(job, "batch"), "State,ExitCode") == ["CANCELLED", "0:15"]
    caught = job_of(**ran("cancelled", reason="cancelled by root", exit_code=5))
    assert values(AccountLine(caught, "batch"), "State,ExitCode") == ["FAILED", "5:0"]
    late = job_of(**ran("timed out", exit_signal=15))
    assert values(AccountLine(late), "State,ExitCode") == ["TIMEOUT", "0:0"]
    assert values(AccountLine(late, "batch"), "State,ExitCode") == ["CANCELLED", "0:15"]


def test_a_job_that_waits_or_begins() -> None:
    assert values(AccountLine(job_of()), "State,Start,End,NodeList,AllocCPUS") == [
        "PENDING", "Unknown", "Unknown", "None assigned", "0",
    ]  # fmt: skip
    for state in (WorkState.STARTING, WorkState.RUNNING, WorkState.ENDING):
        assert values(AccountLine(job_of(state=state, began_s=9_500.0)), "State") == ["RUNNING"]


def step_of(job: SlurmJob, **values_: object) -> AccountLine:
    return AccountLine(job, "1", STEP | values_)


@pytest.mark.parametrize(
    ("code", "number", "state", "text"),
    [
        (0, 0, "COMPLETED", "0:0"),
        (7, 0, "FAILED", "7:0"),
        (137, 0, "FAILED", "9:0"),
        (0, 11, "CANCELLED", "0:11"),
    ],
)
def test_a_step_that_has_told_its_end(code: int, number: int, state: str, text: str) -> None:
    for job in (job_of(**ran("failed", exit_code=1)), job_of(state=WorkState.RUNNING, began_s=1.0)):
        line = step_of(job, exit_code=code, exit_signal=number)
        assert values(line, "JobID,JobName,State,ExitCode,ElapsedRaw,NTasks,AllocCPUS") == [
            "7.1", "train", state, text, "10", "2", "2",
        ]  # fmt: skip
        assert values(line, "AllocTRES,ReqTRES,SubmitLine,Layout,MaxRSS,Partition,User") == [
            "cpu=2,gres/gpu=1,node=1", "", "srun train --fast", "Block", "", "", "",
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (job_of(state=WorkState.RUNNING, began_s=9_100.0), ["RUNNING", "0:0", "Unknown", "890"]),
        (job_of(**ran("failed", exit_code=3)), ["CANCELLED by 0", "0:9", "", "52"]),
        (job_of(**ran("cancelled", exit_signal=9)), ["CANCELLED", "0:15", "", "52"]),
        (job_of(**ran("timed out", exit_signal=15)), ["CANCELLED", "0:15", "", "52"]),
    ],
)
def test_a_step_whose_end_was_never_told_ends_with_its_job(
    job: SlurmJob, expected: list[str]
) -> None:
    line = step_of(job, ended_s=None)
    expected[2] = expected[2] or times.stamp(job.row["ended_s"])
    assert values(line, "State,ExitCode,End,ElapsedRaw") == expected


def test_every_column_has_a_value_for_every_line() -> None:
    lines_ = [
        AccountLine(job_of()),
        AccountLine(job_of(**ran())),
        AccountLine(job_of(**ran()), "batch"),
        step_of(job_of(**ran())),
    ]
    for column in NAMES.values():
        assert all(isinstance(column.value(line), str) for line in lines_), column.title
        assert column.width, column.title
