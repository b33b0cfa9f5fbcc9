"""A GPU on which different workloads fail at once is drained; a program that fails is not one."""

from __future__ import annotations

import msgspec

from moiety.pool.control.card_health import CardHealth
from moiety.pool.control.outcomes import AttemptOutcome
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState

ROW = WorkRow(
    id=1, name="w", project="default", uid=0, user="ann", state=WorkState.RUNNING,
    gpus=1, gpu_milli=1000, submitted_s=0.0, began_s=100.0, attempt=1, cards=[2],
)  # fmt: skip
FAILED = AttemptOutcome(WorkState.FAILED, "exited 1")
RETRIED = AttemptOutcome(WorkState.PENDING, "signaled 11")
NOT_STARTED = AttemptOutcome(WorkState.PENDING, "failed to start")
DONE = AttemptOutcome(WorkState.DONE, "exited 0")
CANCELLED = AttemptOutcome(WorkState.CANCELLED, "signaled 15")
PREEMPTED = AttemptOutcome(WorkState.PENDING, "for nlp")


def work(number: int, **values: object) -> WorkRow:
    return msgspec.structs.replace(ROW, id=number, **({"command": f"python {number}.py"} | values))


def drained(*ends: tuple[WorkRow, AttemptOutcome], after_s: float = 1.0) -> dict[int, str]:
    health, found = CardHealth(), dict[int, str]()
    for row, outcome in ends:
        found |= health.ended(row, outcome, 100.0 + after_s)
    return found


def test_the_third_workload_that_fails_at_once_drains_the_gpu() -> None:
    ends = [(work(7), FAILED), (work(8), FAILED), (work(9), RETRIED)]
    assert drained(*ends[:2]) == {}
    assert drained(*ends) == {2: "workloads 7, 8, 9 failed on it within 10 s each"}
    assert drained(*ends, after_s=10.0) == {}, "they have used their GPU"


def test_what_goes_well_is_a_new_beginning() -> None:
    assert drained((work(7), FAILED), (work(8), FAILED), (work(1), DONE), (work(9), FAILED)) == {}


def test_a_program_counts_once_and_another_user_of_it_again() -> None:
    same = [(work(at, command="python train.py"), FAILED) for at in range(5)]
    assert drained(*same) == {}, "it was submitted again and again"
    others = [(work(at, command="python train.py", uid=at), FAILED) for at in range(3)]
    assert drained(*others) == {2: "workloads 0, 1, 2 failed on it within 10 s each"}


def test_a_sweep_with_a_mistake_in_its_script_drains_nothing() -> None:
    health = CardHealth()
    for at in range(24):
        row = work(at, command=f"python train.py --lr 0.{at}", cards=[at % 8])
        assert health.ended(row, FAILED, 101.0) == {}
    shell = [(work(at, command=f"/bin/sh -c 'python {at}'"), FAILED) for at in range(5)]
    assert drained(*shell) == {}


def test_work_that_could_not_be_started_says_nothing() -> None:
    assert drained(*((work(at), NOT_STARTED) for at in range(9))) == {}


def test_a_program_that_fails_everywhere_says_nothing_about_a_gpu() -> None:
    wrong = work(3)
    elsewhere = (msgspec.structs.replace(wrong, id=4, cards=[5]), FAILED)
    assert drained((wrong, FAILED), elsewhere, (work(6), FAILED), (work(7), FAILED)) == {}
    assert 2 in drained((wrong, FAILED), (work(6), FAILED), (work(7), FAILED), elsewhere)


def test_what_was_ended_by_others_says_nothing() -> None:
    ends = [
        (work(at), outcome) for at, outcome in enumerate((FAILED, FAILED, CANCELLED, PREEMPTED))
    ]
    assert drained(*ends) == {}


def test_all_gpus_of_a_workload_are_in_doubt() -> None:
    ends = [(work(at, cards=[0, 1]), FAILED) for at in range(2)]
    assert drained(*ends, (work(5, cards=[1]), FAILED)) == {
        1: "workloads 0, 1, 5 failed on it within 10 s each"
    }
