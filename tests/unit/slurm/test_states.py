"""Slurm's states and reasons of the pool's workloads."""

from __future__ import annotations

import pytest

from moiety.pool.control.outcomes import of_remains
from moiety.pool.launch.supervised import Remains
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import ENDS, WAITING, WorkState
from moiety.pool.starter.records import ProcessIdentity, Started
from moiety.slurm.show import reasons, states
from moiety.slurm.show.states import JobState
from tests.support.slurm_rows import NOW_S, USUAL, job_of, ran


def test_each_state_of_the_pool_has_one_of_slurm() -> None:
    assert set(states.OURS) == set(map(str, WorkState))
    assert frozenset(map(str, ENDS)) == states.ENDS
    assert frozenset(map(str, WAITING)) == states.WAITING


def test_a_machine_that_went_down_is_a_node_that_failed() -> None:
    row = WorkRow(**USUAL)
    begun = Started(1, "another boot", ProcessIdentity(1, 1), ProcessIdentity(2, 2), "session",
                    frozenset(), 1.0)  # fmt: skip
    outcome = of_remains(row, Remains(started=begun), NOW_S)
    values = ran("failed", reason=outcome.values["reason"])
    assert job_of(**values).state is JobState.NODE_FAIL
    assert job_of(**ran("failed", reason="its program ended")).state is JobState.FAILED


def test_states_are_named_in_two_ways() -> None:
    assert states.parse("pd") is states.parse("PENDING") is JobState.PENDING
    assert states.parse("nothing") is None
    assert states.ours_of(frozenset({JobState.PENDING})) == {"pending", "held"}
    assert states.ours_of(frozenset({JobState.NODE_FAIL})) == {"failed"}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"state": WorkState.HELD, "reason": "held by its user"}, "JobHeldUser"),
        ({"state": WorkState.HELD, "reason": "held by root"}, "JobHeldUser"),
        ({"state": WorkState.HELD, "reason": "held by boss"}, "JobHeldAdmin"),
        ({"state": WorkState.HELD, "reason": "3 starts", "failures": 3}, "JobHoldMaxRequeue"),
        ({"begin_after_s": NOW_S + 60}, "BeginTime"),
        ({"kind": "gpus-full"}, "Resources"),
        ({"kind": "reserved"}, "Priority"),
        ({"kind": "queue-limit"}, "AssocGrpGRES"),
        ({"kind": "model"}, "BadConstraints"),
        ({}, "None"),
        (ran("failed", exit_code=3), "NonZeroExitCode"),
        (ran("timed out"), "TimeLimit"),
        (ran("done"), "None"),
    ],
)
def test_a_reason_is_the_nearest_of_slurms(values: dict[str, object], reason: str) -> None:
    assert job_of(**values).reason == reason  # type: ignore[arg-type]


def test_each_kind_of_the_engine_has_a_reason() -> None:
    from moiety.policy.model.decisions import Reason

    assert set(map(str, Reason)) <= set(reasons.BY_KIND)


def test_a_dependency_is_a_reason_before_the_others() -> None:
    row = job_of(kind="gpus-full").row
    assert reasons.reason_of({**row, "blocked": "waits"}, "gpus-full", NOW_S) == "Dependency"
    assert reasons.reason_of({**row, "blocked": "never"}) == "DependencyNeverSatisfied"
