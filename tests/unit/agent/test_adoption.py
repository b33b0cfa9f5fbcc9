"""Workloads that a new agent takes over, now or as soon as the system lets it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, cast

from moiety.agent.control.adoption import AGAIN_S, Adoption
from moiety.agent.control.records import Record
from moiety.agent.control.workloads import Workloads
from moiety.agent.core.runtime import Runtime


class Said:
    """A log, and a clock that runs what is due."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.log = self
        self.now_s = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def error(self, event: str, **_: object) -> None:
        self.events.append(event)

    warning = error

    def now(self) -> float:
        return self.now_s

    def call_at(self, when_s: float, call: Callable[[], None], *args: Any) -> None:
        assert not args
        self.due.append((when_s, call))

    def go_on(self) -> None:
        (self.now_s, call), *self.due = self.due
        call()


class Refusing:
    """Workloads whose sockets the system refuses for some time."""

    def __init__(self, **refusals: int) -> None:
        self.left = refusals
        self.error = errno.ENOSPC
        self.adopted: list[str] = []

    def adopt(self, record: Record) -> None:
        if self.left.get(record.id, 0) > 0:
            self.left[record.id] -= 1
            raise OSError(self.error, os.strerror(self.error))
        self.adopted.append(record.id)


def record(identity: str) -> Record:
    return Record(identity, 0, 1, 1, "p", ["p"], "/")


def adoption(workloads: Refusing, said: Said) -> Adoption:
    return Adoption(cast("Workloads", workloads), cast("Runtime", said))


def test_a_socket_that_is_refused_for_now_is_tried_again() -> None:
    workloads, said = Refusing(b=2), Said()
    adopting = adoption(workloads, said)
    adopting.adopt([record("a"), record("b"), record("c")])
    assert workloads.adopted == ["a", "c"]
    assert [each.id for each in adopting.waiting] == ["b"]
    said.go_on()
    assert said.now_s == AGAIN_S
    said.go_on()
    assert workloads.adopted == ["a", "c", "b"]
    assert not adopting.waiting
    assert not said.due
    assert said.events == ["workload_waits"]


def test_a_folder_that_was_removed_is_given_up() -> None:
    workloads, said = Refusing(a=1), Said()
    workloads.error = errno.ENOENT
    adopting = adoption(workloads, said)
    adopting.adopt([record("a"), record("b")])
    assert workloads.adopted == ["b"]
    assert not adopting.waiting
    assert said.events == ["workload_lost"]
