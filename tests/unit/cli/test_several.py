"""A command with several targets: each has its turn, and what became of each is said at once."""

from __future__ import annotations

import pytest

from moiety.cli.several import each
from moiety.model.errors import NoPool, WorkStateWrong, WorkUnknown


def held(target: str) -> str:
    """What becomes of a target: one is not there, one has ended."""
    if target == "nosuch":
        raise WorkUnknown(target)
    if target == "over":
        raise WorkStateWrong("workload 3 is done: it cannot become held", "")
    return f"{target} is held"


def test_a_refusal_is_said_and_the_others_have_their_turn(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found, code = each(["1", "nosuch", "over", "2"], held, lambda _, text: print(text))
    assert (found, code) == (["1 is held", "2 is held"], WorkUnknown("nosuch").exit_code)
    said = capsys.readouterr()
    assert said.out == "1 is held\n2 is held\n"
    assert "the pool has no workload nosuch" in said.err
    assert "workload 3 is done" in said.err


def test_a_refusal_of_the_only_target_is_raised() -> None:
    with pytest.raises(WorkUnknown):
        each(["nosuch"], held, None)
    assert each(["1"], held, None) == (["1 is held"], 0)


def test_an_error_that_all_would_meet_is_raised_once() -> None:
    asked = []

    def do(target: str) -> str:
        asked.append(target)
        raise NoPool("/run/moiety")

    with pytest.raises(NoPool):
        each(["1", "2"], do, None)
    assert asked == ["1"]
