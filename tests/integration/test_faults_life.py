"""Programs that fork, replace themselves, end threads, or end in the middle of something.

A neighbour that does not fit beside them computes meanwhile: it goes on, and is right to the last
word. What else of this kind is tried elsewhere: docs/faults.md.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.agent.core.journal_events import Event
from moiety.testing.node import finish
from moiety.testing.waiting import DEADLINE_S
from tests.support.fault_injection import ENDLESS, Ordeal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
Build = Callable[[str], Path]
LEFT = {
    "early": 2,
    "late": 1,
    "exec": 2,
    "replace": 2,
    "threads": 1,
    "cancel": 1,
    "leave": 1,
    "capture": 1,
}
"""how many tenants a program has been by its end: each that leaves is told of"""


@pytest.fixture(scope="module")
def beside(
    tmp_path_factory: pytest.TempPathFactory, native: Path, programs: Path
) -> Iterator[Ordeal]:
    """A node on which somebody computes all the time, and is right in the end."""
    with Ordeal(tmp_path_factory.mktemp("beside"), native, programs / "worker") as made:
        neighbour = made.start_worker(ENDLESS, round_ms=200)
        made.until(lambda: made.turns() > 0, "the neighbour computes")
        yield made
        made.finish([neighbour])


def events(ordeal: Ordeal, *reasons: str, after: int = 0) -> list[Event]:
    found: list[Event] = []
    with Call(ordeal.directory, DEADLINE_S) as call:
        more = True
        while more:
            last = found[-1].number if found else after
            page = call.ask(protocol.Events(last), protocol.Happened)
            found += page.events
            more = page.more
    return [event for event in found if not reasons or event.reason in reasons]


@pytest.mark.parametrize("how", LEFT)
def test_a_life_beside_a_neighbour(beside: Ordeal, build: Build, how: str) -> None:
    before, turns = events(beside)[-1].number, beside.turns()
    code, _, said = finish(beside.start([str(build("lives")), how], limited=False))
    assert (code, said) == (0, ""), said
    beside.until(lambda: len(events(beside, "Left", after=before)) == LEFT[how], "who is told of")
    assert beside.tenants() == 1
    beside.until(lambda: beside.turns() > turns, "the neighbour made room, and goes on")


def strict(tmp_path: Path, native: Path, *options: str) -> Ordeal:
    """A node whose agent does not wait long for who does not answer."""
    return Ordeal(tmp_path, native, tmp_path, "--revoke-deadline", "500ms", *options)


def test_who_dies_leaves_nothing_although_its_child_lives(
    tmp_path: Path, native: Path, programs: Path, build: Build
) -> None:
    with Ordeal(tmp_path, native, programs / "worker") as ordeal:
        neighbour = ordeal.start_worker(ENDLESS)
        ordeal.until(lambda: ordeal.tenants() == 1, "the neighbour is there")
        code, said, _ = finish(ordeal.start([str(build("lives")), "orphan"]))
        child = int(said)
        try:
            assert code == 0
            ordeal.until(lambda: ordeal.tenants() == 1, "only the neighbour is there")
            os.kill(child, 0)  # while the child lives
            ordeal.finish([neighbour])
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(("policy", "reason"), [("fence", "Fenced"), ("kill", "Killed")])
def test_a_kernel_that_hangs(
    tmp_path: Path, native: Path, build: Build, policy: str, reason: str
) -> None:
    lives = str(build("lives"))
    with strict(tmp_path, native, "--overdue", policy) as ordeal:
        hung = ordeal.start([lives, "hang"])
        assert hung.stdout is not None
        assert hung.stdout.readline() == "hangs\n"
        neighbour = ordeal.start([lives, "plain"])
        ordeal.until(lambda: bool(events(ordeal, reason)), "it is told of")
        if policy == "fence":
            assert (hung.poll(), neighbour.poll()) == (None, None), "nobody dies"
            hung.kill()
        assert finish(neighbour)[0] == 0
        assert hung.wait(DEADLINE_S) == -signal.SIGKILL
        assert {event.pid for event in events(ordeal, reason)} == {hung.pid}
        ordeal.until(lambda: ordeal.tenants() == 0, "nobody is left")
        ordeal.finish([])


def test_no_host_memory_to_evict_to(tmp_path: Path, native: Path, build: Build) -> None:
    lives = str(build("lives"))
    with strict(tmp_path, native, "--arena", "8MiB") as ordeal:
        hung = ordeal.start([lives, "hang"])
        assert hung.stdout is not None
        assert hung.stdout.readline() == "hangs\n"
        code, _, said = finish(ordeal.start([lives, "plain"]))
        assert code == 1, "it is refused, and does not wait in vain"
        assert "host memory for evicted data (0 B) are full" in said
        ordeal.until(lambda: bool(events(ordeal, "Refused")), "it is told of")
        assert hung.poll() is None
        hung.kill()
        ordeal.until(lambda: ordeal.tenants() == 0, "what it had is free")
        assert finish(ordeal.start([lives, "plain"]))[0] == 0
