"""The variables of each process of a step."""

from __future__ import annotations

from moiety.slurm.step.ranks import StepShape, cards_of, least_used, of_rank

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
    assert seen(StepShape(0, 1, gpus=1, cards=("1",)), 0) == ("1", "5")
    each = StepShape(0, 3, gpus_per_task=1, cards=("1", "2"))
    assert [seen(each, rank) for rank in range(3)] == [("1", "5"), ("2", "7"), ("1", "5")]


def test_a_step_gets_what_the_fewest_others_use() -> None:
    cards = ["0", "1", "GPU-2"]
    assert least_used(cards, 1, []) == ("0",)
    assert least_used(cards, 1, ["0", "1"]) == ("GPU-2",)
    assert least_used(cards, 2, ["0", "0", "1"]) == ("1", "GPU-2")
    assert least_used(cards, 9, ["7"]) == ("0", "1", "GPU-2")
    assert least_used([], 1, ["7"]) == ()
