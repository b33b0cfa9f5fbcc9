"""What can be submitted, and what is refused with its reason."""

from __future__ import annotations

import msgspec
import pytest

from moiety.model.errors import BadArgument
from moiety.pool.model.records import Submission, shape_of
from moiety.pool.model.states import ACTIVE, ENDS, FOLLOWS, WAITING, WorkState, may_follow
from tests.support.pool_store import submission


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"name": "a\nb"}, "is no name"),
        ({"name": "\x1b[31m"}, "is no name"),
        ({"name": "x" * 200}, "is no name"),
        ({"project": "(outside)"}, "is no project"),
        ({"program": "true"}, "absolute"),
        ({"cwd": "here"}, "absolute"),
        ({"argv": []}, "absolute"),
        ({"gpus": -1}, "number of GPUs"),
        ({"gpus": 65}, "number of GPUs"),
        ({"gpu": 0.0}, "no part of a GPU"),
        ({"gpu": 1.5}, "no part of a GPU"),
        ({"gpus": 0, "memory_bytes": 1}, "on no GPU"),
        ({"memory_bytes": -1}, "is no memory"),
        ({"cpus": -1.0}, "processors"),
        ({"cpus": 1e15}, "processors"),
        ({"memory_bytes": 1 << 62}, "is no memory"),
        ({"memory_bytes": 2, "memory_limit_bytes": 1}, "below the memory"),
        ({"time_limit_s": 0.0}, "no time limit"),
        ({"priority": 10**9}, "no priority"),
        ({"opportunistic": True, "preemptible": False}, "one of the two|always be ended"),
        ({"environment": {"A": "x\0y"}}, "NUL"),
        ({"variables": {"A": "x\0y"}}, "NUL"),
        ({"stdin": "/x\0y"}, "NUL"),
        ({"variables": {"A": "x" * (2 << 20)}}, "more than 2 MiB"),
        ({"labels": {"A": "x" * (1 << 16)}}, "labels have more than"),
        ({"environment": {"A": "x" * (3 << 20)}}, "2 MiB"),
    ],
)
def test_a_submission_that_makes_no_sense_is_refused(values: dict[str, object], text: str) -> None:
    with pytest.raises(BadArgument, match=text) as caught:
        submission(**values).check()
    assert caught.value.exit_code == 64


def test_a_submission_that_makes_sense_is_taken() -> None:
    submission(name="sweep-1", project="nlp", gpu=0.5, memory_bytes=1, time_limit_s=60.0).check()


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"program":"/a","argv":["a"],"cwd":"/","uid":0}', type=Submission)


def test_a_part_of_a_mebibyte_is_a_whole_one() -> None:
    assert shape_of(submission(memory_bytes=1)) == (0, 1)


def test_states_are_apart_and_nothing_follows_an_end() -> None:
    assert set(WorkState) == WAITING | ACTIVE | ENDS
    assert set(FOLLOWS) == WAITING | ACTIVE
    assert may_follow(WorkState.PENDING, WorkState.STARTING)
    assert not may_follow(WorkState.HELD, WorkState.STARTING)
    assert not any(may_follow(end, state) for end in ENDS for state in WorkState)
