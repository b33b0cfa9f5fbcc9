"""What is kept of a job comes back as it was."""

from __future__ import annotations

from moiety.slurm.labels import JobLabels, of_labels, to_labels


def test_what_was_said_comes_back_and_the_rest_is_left_out() -> None:
    job = JobLabels(program="srun", account="nlp", nice=-5, ntasks=4, tasks=4, notes="a\nb")
    labels = to_labels(job)
    assert labels == {
        "slurm.program": "srun",
        "slurm.account": "nlp",
        "slurm.nice": "-5",
        "slurm.ntasks": "4",
        "slurm.tasks": "4",
        "slurm.notes": "a\nb",
    }
    assert of_labels(labels) == job
    assert of_labels(to_labels(JobLabels())) == JobLabels()


def test_work_of_other_programs_has_none_of_it() -> None:
    assert of_labels({}) is None
    assert of_labels({"slurm.account": "nlp"}) is None


def test_a_number_that_is_none_counts_as_not_said() -> None:
    assert of_labels({"slurm.program": "sbatch", "slurm.ntasks": "x"}) == JobLabels()
