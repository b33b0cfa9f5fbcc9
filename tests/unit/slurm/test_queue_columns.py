"""The columns of `squeue`, by letter and by name."""

from __future__ import annotations

import pytest

from moiety.pool.model.states import WorkState
from moiety.slurm.labels import JobLabels
from moiety.slurm.show.columns import key_of, lines, long_cells, short_cells
from moiety.slurm.show.jobs import SlurmJob
from moiety.slurm.show.queue_columns import LETTERS, NAMES
from tests.support.slurm_rows import NOW_S, job_of, ran


def short(job: SlurmJob, text: str) -> str:
    (line,) = lines(short_cells(text, LETTERS, pytest.fail), [job], header=False)
    return line


def test_what_tools_ask_for() -> None:
    waits = job_of(kind="gpus-full")
    assert short(waits, "%i %t") == "7 PD"
    assert short(waits, "%i|%T") == "7|PENDING"
    assert short(waits, "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R") == (
        "                 7      pool    sweep     root PD       0:00      1 (Resources)"
    )
    runs = job_of(state=WorkState.RUNNING, began_s=NOW_S - 65, time_limit_s=600.0)
    assert short(runs, "%t %M %L %l %N %R") == "R 1:05 8:55 10:00 gpu1 gpu1"
    assert short(job_of(**ran("failed", exit_code=2)), "%t %R") == "F (NonZeroExitCode)"


def test_what_was_said_of_requeues_and_memory_is_shown() -> None:
    job = job_of(JobLabels(mem_mib=1000, mem_per_cpu_mib=500, cpus=2), requeue=True)
    assert short(job, "%m") == "500M"
    for requeue in (False, True):
        (line,) = lines(
            long_cells("requeue:", NAMES, pytest.fail), [job_of(requeue=requeue)], header=False
        )
        assert line == str(int(requeue))


def test_the_engines_sentence_stands_behind_the_word() -> None:
    job = job_of(kind="gpus-full", why="2 of 8 GPUs are free, and it asks for 4")
    cells = long_cells("ReasonList:60,Reason", NAMES, pytest.fail)
    (line,) = lines(cells, [job], header=False)
    assert line.startswith("(2 of 8 GPUs are free, and it asks for 4)")
    assert line.rstrip().endswith("Resources")


def test_every_column_has_a_value_for_every_job() -> None:
    jobs = [job_of(), job_of(uid=123456789), job_of(JobLabels(mem_mib=500)), job_of(**ran())]
    for column in [*LETTERS.values(), *NAMES.values()]:
        assert all(isinstance(column.value(job), str) for job in jobs), column.title
    assert all(key_of(name) == name for name in NAMES)
