"""The table of states says everything that can happen to a tenant."""

from __future__ import annotations

import itertools

import pytest

from moiety.arbiter.states import TRANSITIONS, Cause, State, after


@pytest.mark.parametrize(("state", "cause"), list(itertools.product(State, Cause)))
def test_nothing_else_happens(state: State, cause: Cause) -> None:
    if (state, cause) in TRANSITIONS:
        assert after(state, cause) in State
    else:
        with pytest.raises(KeyError):
            after(state, cause)


def test_every_state_is_reached_and_left() -> None:
    assert {state for state, _ in TRANSITIONS} == set(State)
    assert set(TRANSITIONS.values()) == set(State)


def test_every_cause_has_its_place() -> None:
    assert {cause for _, cause in TRANSITIONS} == set(Cause)
    for cause in Cause:
        assert len({to for (_, why), to in TRANSITIONS.items() if why is cause}) == 1
