"""The lines of `sacct`: which there are, and what they say of a job as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moiety.slurm.labels import JobLabels
from moiety.slurm.show.account_lines import AccountLine, derived_exit, steps_of
from tests.support.slurm_rows import STEP, job_of, ran


def test_the_worst_step_that_ended_in_time_is_derived() -> None:
    steps = [STEP, STEP | {"exit_code": 2}, STEP | {"exit_signal": 9}]
    assert derived_exit(replace(job_of(**ran()), steps=steps)) == "2:0"
    assert derived_exit(replace(job_of(**ran("cancelled")), steps=steps)) == "0:0"
    assert derived_exit(replace(job_of(**ran()), steps=[STEP | {"ended_s": None}])) == "0:0"


def test_which_lines_a_job_has() -> None:
    def names(program: str, **values_: Any) -> list[str]:
        job = replace(job_of(JobLabels(program=program), **values_), steps=[STEP])
        return [line.step for line in steps_of(job)]

    assert names("sbatch", **ran()) == ["batch", "1"]
    assert names("srun", **ran()) == names("salloc", **ran()) == ["1"]
    assert names("sbatch") == []


def test_a_line_has_the_times_of_its_step_or_of_its_job() -> None:
    job = job_of(**ran())
    step = AccountLine(job, "1", STEP)
    assert (step.began_s, step.ended_s, step.ran_s) == (9_110.0, 9_120.0, 10.0)
    batch = AccountLine(job, "batch")
    assert (batch.began_s, batch.ended_s, batch.ran_s) == (9_100.0, 9_162.0, 62.0)
    untold = AccountLine(job, "1", STEP | {"ended_s": None})
    assert (untold.was_told, untold.ended_s) == (False, 9_162.0)
