"""How ladders and exemptions are written and read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.enforcement.policy import (
    ORDER,
    EscalationStep,
    Ladder,
    Policy,
    Rung,
    Who,
    parse_exemptions,
    parse_ladder,
)

WHO = Who(
    pid=7,
    started=70,
    uid=1000,
    user="alice",
    command="python3.11",
    container="3f" * 32,
    runtime="docker",
    pod="8d4f5a6b-1c2d-4e3f-9a0b-5c6d7e8f9a0b",
    where="docker 3f3f3f3f3f3f",
)


@pytest.mark.parametrize(
    ("text", "rungs"),
    [
        ("off", ()),
        ("warn", (Rung(EscalationStep.WARN),)),
        ("event, 30s, kill", (Rung(EscalationStep.EVENT), Rung(EscalationStep.KILL, 30.0))),
        (
            "warn,event,kill",
            (
                Rung(EscalationStep.WARN),
                Rung(EscalationStep.EVENT),
                Rung(EscalationStep.KILL, 60.0),
            ),
        ),
        ("warn,0s,kill", (Rung(EscalationStep.WARN), Rung(EscalationStep.KILL))),
        (
            "2min,warn,1min,30s,kill",
            (Rung(EscalationStep.WARN, 120.0), Rung(EscalationStep.KILL, 90.0)),
        ),
    ],
)
def test_a_ladder_is_read(text: str, rungs: tuple[Rung, ...]) -> None:
    assert parse_ladder(text) == Ladder(rungs)
    assert parse_ladder(text).kills == ("kill" in text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("shoot", "'shoot' is no step; write warn, event, kill"),
        ("", "'' is no step"),
        ("kill,warn", "out of order"),
        ("warn,warn", "out of order"),
        ("warn,30s", "ends with a time"),
        ("off,warn", "'off' is no step"),
        ("warn,30x,kill", "unknown unit"),
    ],
)
def test_a_ladder_that_makes_no_sense_is_refused_in_a_sentence(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_ladder(text)


@given(
    st.sets(st.sampled_from(ORDER)),
    st.lists(st.integers(0, 90).map(float), min_size=3, max_size=3),
)
def test_what_is_written_is_read_again(steps: set[EscalationStep], times: list[float]) -> None:
    chosen = [step for step in ORDER if step in steps]
    ladder = Ladder(tuple(Rung(step, at) for step, at in zip(chosen, times, strict=False)))
    assert parse_ladder(str(ladder)) == ladder


def test_by_default_nobody_is_ended() -> None:
    policy = Policy()
    assert not any(each.kills for each in (policy.unregistered, policy.limit, policy.lease))
    assert str(policy.unregistered) == "warn,event"


@pytest.mark.parametrize(
    ("text", "is_let_off"),
    [
        ("user:alice", True),
        ("user:1000", True),
        ("user:bob", False),
        ("command:python*", True),
        ("command:python", False),
        ("container:3f3f*", True),
        ("container:3f3f3f3f3f3f", True),
        ("pod:8d4f5a6b-*", True),
        ("gpu:2", True),
        ("gpu:1", False),
        ("user:bob,gpu:2", True),
        ("", False),
    ],
)
def test_who_is_let_off(text: str, is_let_off: bool) -> None:
    policy = Policy(exempt=parse_exemptions(text))
    assert (policy.lets_off(WHO, 2) is not None) == is_let_off


def test_an_unknown_container_is_not_let_off_by_a_star() -> None:
    bare = Who(pid=7, started=70, uid=0, user="root", command="x")
    assert Policy(exempt=parse_exemptions("container:*")).lets_off(bare, 0) is None


def test_what_belongs_to_the_driver_is_let_off_by_default() -> None:
    mps = Who(pid=7, started=70, uid=0, user="root", command="nvidia-cuda-mps-server")
    assert str(Policy().lets_off(mps, 0)) == "command:nvidia-*"


@pytest.mark.parametrize("text", ["alice", "colour:red", "user:", ":x"])
def test_an_exemption_that_names_nobody_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no exemption"):
        parse_exemptions(text)
