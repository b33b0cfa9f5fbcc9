"""The columns of `sacct`, for jobs and for their steps."""

from __future__ import annotations

import pytest

from moiety.pool.model.states import WorkState
from moiety.slurm.labels import JobLabels
from moiety.slurm.show.account_columns import NAMES, AccountLine
from moiety.slurm.show.columns import lines, percent_cells
from tests.support.slurm_rows import job_of, ran


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
        "7", "FAILED", "3:0", "3:0", "00:01:02", "62", "00:01.750", "8G", "",
    ]  # fmt: skip
    assert values(AccountLine(job, "batch"), text) == [
        "7.batch", "FAILED", "3:0", "", "00:01:02", "62", "00:01.750", "", "2048K",
    ]  # fmt: skip
    assert values(AccountLine(job), "AllocTRES,ReqTRES,AllocGRES,Comment,NodeList,AllocCPUS") == [
        *["billing=4,cpu=4,gres/gpu=2,mem=8G,node=1"] * 2, "gpu:2", "mine", "gpu1", "4",
    ]  # fmt: skip


def test_who_cancelled_it_is_said_by_number() -> None:
    job = job_of(**ran("cancelled", reason="cancelled by root", exit_signal=15))
    assert values(AccountLine(job), "State,ExitCode") == ["CANCELLED by 0", "0:15"]
    assert values(AccountLine(job, "batch"), "State") == ["CANCELLED"]


def test_a_job_that_waits_or_begins() -> None:
    assert values(AccountLine(job_of()), "State,Start,End,NodeList,AllocCPUS") == [
        "PENDING", "Unknown", "Unknown", "None assigned", "0",
    ]  # fmt: skip
    for state in (WorkState.STARTING, WorkState.RUNNING, WorkState.ENDING):
        assert values(AccountLine(job_of(state=state, began_s=9_500.0)), "State") == ["RUNNING"]


def test_every_column_has_a_value_for_every_line() -> None:
    lines_ = [
        AccountLine(job_of()),
        AccountLine(job_of(**ran())),
        AccountLine(job_of(**ran()), "batch"),
    ]
    for column in NAMES.values():
        assert all(isinstance(column.value(line), str) for line in lines_), column.title
        assert column.width, column.title
