"""Who starts the agent again, and when not."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from moiety.agent.supervisor import BACKOFF_FIRST_S, BACKOFF_MAX_S, be_a_child, supervise


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def child(end: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        be_a_child()
        end()
        os._exit(99)
    return pid


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_child_that_exits_ends_it_with_its_code() -> None:
    assert supervise(lambda: child(lambda: os._exit(83))) == 83


def test_a_killed_child_is_replaced_at_once_and_then_more_slowly() -> None:
    pauses: list[float] = []
    ends = iter([die] * 10)

    def start() -> int:
        end = next(ends, None)
        return child(end or (lambda: os._exit(0)))

    assert supervise(start, pauses.append) == 0
    assert pauses[:3] == [0.0, BACKOFF_FIRST_S, 2 * BACKOFF_FIRST_S]
    assert max(pauses) == BACKOFF_MAX_S
    assert pauses == sorted(pauses)


def test_a_child_killed_by_the_end_that_was_asked_for_is_not_replaced() -> None:
    started: list[int] = []

    def start() -> int:
        started.append(child(signal.pause))
        # To the supervisor, which passes it on, and to this thread: others here block no signals.
        signal.raise_signal(signal.SIGTERM)
        return started[-1]

    assert supervise(start) == 0
    assert len(started) == 1
