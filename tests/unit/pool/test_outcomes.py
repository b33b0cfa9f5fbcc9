"""What becomes of a workload when an attempt is over."""

from __future__ import annotations

import msgspec
import pytest

from moiety.pool.control.outcomes import (
    CANCELLED,
    REQUEUED,
    REQUEUED_HELD,
    of_exit,
    of_failed_start,
    of_remains,
)
from moiety.pool.launch.supervised import Remains, boot_id
from moiety.pool.model.records import PREEMPTED, WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.starter.records import (
    Damaged,
    EndReason,
    Exit,
    Exited,
    FailedToStart,
    Lost,
    Outcome,
    ProcessIdentity,
    Signaled,
    Started,
)

ROW = WorkRow(
    id=1, name="w", project="default", uid=0, user="ann", state=WorkState.RUNNING,
    gpus=1, gpu_milli=1000, submitted_s=0.0, attempt=1,
)  # fmt: skip


def ended(outcome: Outcome, reason: EndReason = EndReason.ENDED) -> Exit:
    return Exit(1, outcome, reason, 0.0, 1.0, 0.0, 0.0, 0)


@pytest.mark.parametrize(
    ("outcome", "reason", "intent", "state"),
    [
        (Exited(0), EndReason.ENDED, "", WorkState.DONE),
        (Exited(3), EndReason.ENDED, "", WorkState.FAILED),
        (Signaled(9), EndReason.ENDED, "", WorkState.FAILED),
        (Signaled(64), EndReason.ENDED, "", WorkState.FAILED),
        (Signaled(15), EndReason.TIME_LIMIT, "", WorkState.TIMED_OUT),
        (Signaled(15), EndReason.CANCELLED, CANCELLED, WorkState.CANCELLED),
        (Signaled(15), EndReason.CANCELLED, PREEMPTED, WorkState.PENDING),
        (Exited(0), EndReason.ENDED, PREEMPTED, WorkState.DONE),
        (Lost(), EndReason.ENDED, "", WorkState.FAILED),
        (FailedToStart(2, "open"), EndReason.ENDED, "", WorkState.PENDING),
        (FailedToStart(2, "open"), EndReason.ENDED, CANCELLED, WorkState.CANCELLED),
    ],
)
def test_an_exit_record_decides(
    outcome: Outcome, reason: EndReason, intent: str, state: WorkState
) -> None:
    row = msgspec.structs.replace(ROW, intent=intent)
    assert of_exit(row, ended(outcome, reason), 10.0).state is state


def test_failed_starts_come_back_later_each_time_and_the_third_holds() -> None:
    first = of_failed_start(ROW, "no folder", 100.0)
    assert first.values == {"failures": 1, "reason": "no folder", "not_before_s": 101.0}
    second = of_failed_start(msgspec.structs.replace(ROW, failures=1), "no folder", 100.0)
    assert second.values["not_before_s"] == 102.0
    third = of_failed_start(msgspec.structs.replace(ROW, failures=2), "no folder", 100.0)
    assert third.state is WorkState.HELD
    assert third.values["reason"] == "3 starts in a row failed: no folder"


def test_a_start_that_worked_forgets_the_failures() -> None:
    row = msgspec.structs.replace(ROW, failures=2)
    assert of_exit(row, ended(Exited(1)), 10.0).values["failures"] == 0


def test_a_program_that_failed_runs_again_later_each_time() -> None:
    row = msgspec.structs.replace(ROW, retries=2, restarts=3)
    first = of_exit(row, ended(Exited(7)), 100.0)
    assert (first.state, first.word) == (WorkState.PENDING, "exited 7")
    assert first.values == {
        "failures": 0, "restarts": 4, "retried": 1, "not_before_s": 102.0,
        "reason": "its program ended with exit code 7; try 2 of 3 follows",
    }  # fmt: skip
    second = of_exit(msgspec.structs.replace(row, retried=1), ended(Signaled(9)), 100.0)
    assert second.values["not_before_s"] == 104.0
    last = of_exit(msgspec.structs.replace(row, retried=2), ended(Exited(7)), 100.0)
    assert (last.state, last.values["exit_code"]) == (WorkState.FAILED, 7)
    for outcome, reason in ((Exited(0), EndReason.ENDED), (Exited(1), EndReason.TIME_LIMIT),
                            (Signaled(15), EndReason.CANCELLED)):  # fmt: skip
        assert of_exit(row, ended(outcome, reason), 1.0).state is not WorkState.PENDING
    assert of_exit(msgspec.structs.replace(row, retried=0, retries=2000), ended(Exited(1)), 0.0)


def test_a_pause_between_tries_has_an_end() -> None:
    row = msgspec.structs.replace(ROW, retries=1000, retried=999)
    assert of_exit(row, ended(Exited(1)), 0.0).values["not_before_s"] == 600.0


def test_work_comes_back_after_a_restart_or_a_lost_gpu_if_it_asked_for_it() -> None:
    process = ProcessIdentity(1, 1)
    before = Started(1, "another-boot", process, process, "session", frozenset(), 0.0)
    row = msgspec.structs.replace(ROW, requeue=True, cards=[2, 3])
    again = of_remains(row, Remains(started=before), 10.0)
    assert (again.state, again.values["restarts"]) == (WorkState.PENDING, 1)
    assert again.values["reason"] == "it runs again: the machine was restarted"
    cancelled = msgspec.structs.replace(row, intent=CANCELLED)
    assert of_remains(cancelled, Remains(started=before), 10.0).state is WorkState.FAILED
    failed = Remains(exit=ended(Exited(1)))
    lost = of_remains(row, failed, 10.0, frozenset({3}))
    assert (lost.state, lost.values["reason"]) == (
        WorkState.PENDING, "it runs again: GPU 3 was lost under it",
    )  # fmt: skip
    for each, cards in ((row, {1}), (msgspec.structs.replace(row, requeue=False), {3})):
        assert of_remains(each, failed, 10.0, frozenset(cards)).state is WorkState.FAILED
    done = of_remains(row, Remains(exit=ended(Exited(0))), 10.0, frozenset({3}))
    assert done.state is WorkState.DONE


def test_what_remains_decides_where_there_is_no_record() -> None:
    never = of_remains(ROW, Remains(), 10.0)
    assert (never.state, "failures" in never.values) == (WorkState.PENDING, False)
    cancelled = msgspec.structs.replace(ROW, intent=CANCELLED)
    assert of_remains(cancelled, Remains(), 10.0).state is WorkState.CANCELLED
    process = ProcessIdentity(1, 1)
    here = Started(1, boot_id(), process, process, "session", frozenset(), 0.0)
    lost = of_remains(ROW, Remains(started=here), 10.0)
    assert "its supervisor was killed" in lost.values["reason"]
    before = Started(1, "another-boot", process, process, "session", frozenset(), 0.0)
    restarted = of_remains(ROW, Remains(started=before), 10.0)
    assert "the machine was restarted" in restarted.values["reason"]
    for intent, after in (
        (PREEMPTED, WorkState.PENDING),
        (REQUEUED, WorkState.PENDING),
        (REQUEUED_HELD, WorkState.HELD),
        (CANCELLED, WorkState.FAILED),
    ):
        told = msgspec.structs.replace(ROW, intent=intent)
        for remains in (Remains(started=here), Remains(started=before)):
            assert of_remains(told, remains, 10.0).state is after
        assert of_exit(told, ended(Lost()), 10.0).state is after
    damaged = of_remains(ROW, Remains(damaged=Damaged("exit", "half")), 10.0)
    assert damaged.values["reason"] == "the record exit of its supervisor is damaged"
    assert {lost.state, restarted.state, damaged.state} == {WorkState.FAILED}


@pytest.mark.parametrize(
    ("intent", "state"), [(REQUEUED, WorkState.PENDING), (REQUEUED_HELD, WorkState.HELD)]
)
@pytest.mark.parametrize("reason", [EndReason.CANCELLED, EndReason.ENDED])
def test_work_that_is_requeued_waits_again_however_it_ends(
    intent: str, state: WorkState, reason: EndReason
) -> None:
    row = msgspec.structs.replace(ROW, state=WorkState.ENDING, intent=intent)
    outcome = of_exit(row, ended(Exited(0), reason), 1.0)
    assert (outcome.state, outcome.values["restarts"]) == (state, 1)


def test_what_it_used_is_written_down() -> None:
    record = Exit(1, Exited(0), EndReason.ENDED, 0.0, 1.0, 2.5, 0.5, 4096)
    values = of_exit(ROW, record, 1.0).values
    assert (values["max_rss_kib"], values["user_s"], values["system_s"]) == (4096, 2.5, 0.5)
