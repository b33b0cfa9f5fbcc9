"""The variables of each process of a step."""

from __future__ import annotations

from moiety.slurm.step.ranks import StepShape, cards_of, of_rank

JOB = {"CUDA_VISIBLE_DEVICES": "0,1,2", "SLURM_JOB_GPUS": "4,5,7", "SLURM_NTASKS": "9", "A": "1"}


def test_each_process_has_its_rank() -> None:
    found = of_rank(JOB, StepShape(3, 2, cpus_per_task=4), 1, "node", 77)
    assert {name: found[name] for name in ("A", "SLURM_PROCID", "SLURM_LOCALID")} == {
        "A": "1",
        "SLURM_PROCID": "1",
        "SLURM_LOCALID": "1",
    }
    assert found["SLURM_NTASKS"] == found["SLURM_STEP_NUM_TASKS"] == "2"
    assert (found["SLURM_STEP_ID"], found["SLURM_GTIDS"]) == ("3", "0,1")
    assert (found["SLURM_CPUS_PER_TASK"], found["SLURM_TASK_PID"]) == ("4", "77")


def test_processes_see_all_gpus_some_or_one_each() -> None:
    def seen(shape: StepShape, rank: int) -> tuple[str, str]:
        found = cards_of(JOB, shape, rank)
        return found["CUDA_VISIBLE_DEVICES"], found["SLURM_STEP_GPUS"]

    assert seen(StepShape(0, 2), 1) == ("0,1,2", "4,5,7")
    assert seen(StepShape(0, 2, gpus=2), 1) == ("0,1", "4,5")
    assert [seen(StepShape(0, 3, gpus_per_task=1), rank) for rank in range(3)] == [
        ("0", "4"),
        ("1", "5"),
        ("2", "7"),
    ]
    assert cards_of({}, StepShape(0, 1), 0) == {}
