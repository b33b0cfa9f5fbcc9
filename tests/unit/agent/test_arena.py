"""The arena with a real ledger and a real arbiter, over memory that exists on paper."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from moiety.agent.arena import prefault
from moiety.agent.arena.arena import RESERVE_BYTES, REST_S, Arena, ArenaSize
from moiety.agent.core.journal import Journal
from moiety.arbiter import events as ev
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.devices.budget import budget
from moiety.wire.codec import decode
from moiety.wire.layout import Type
from moiety.wire.messages import ArenaMessage

MIB = 1 << 20
GIB = 1 << 30
SEGMENT = 16 * MIB


@dataclass(eq=False)
class Loop:
    """Time that passes when it is told to."""

    now_s: float = 0.0
    calls: list[tuple[float, Callable[..., Any]]] = field(default_factory=list)
    arrived: list[tuple[Callable[..., Any], tuple[Any, ...]]] = field(default_factory=list)

    def time(self) -> float:
        return self.now_s

    def call_at(self, when_s: float, call: Callable[..., Any]) -> Loop:
        self.calls = [(when_s, call)]
        return self

    def cancel(self) -> None:
        self.calls = []

    def call_soon_threadsafe(self, call: Callable[..., Any], *args: Any) -> None:
        self.arrived.append((call, args))

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        due = [call for when_s, call in self.calls if when_s <= self.now_s]
        self.calls = [each for each in self.calls if each[0] > self.now_s]
        for call in due:
            call()


@dataclass(eq=False)
class Client:
    """A process that keeps what it is sent."""

    number: int
    pid: int = 0
    started: int = 0
    gpus: frozenset[int] = frozenset()
    sent: list[ArenaMessage] = field(default_factory=list)
    closed: bool = False

    @property
    def connection(self) -> Client:
        return self

    def send(self, packet: bytes, fd: int = -1) -> None:
        note = decode(packet)
        assert isinstance(note, ArenaMessage)
        assert (fd >= 0) == bool(note.type == Type.ARENA and note.segment)
        self.sent.append(note)


class Paper:
    """Memory operations without memory."""

    def __init__(self) -> None:
        self.done = threading.Semaphore(0)
        self.broken = False

    def make(self, size: int, node: int | None, stopped: Callable[[], bool], /) -> int:
        del node, stopped
        if self.broken:
            raise MemoryError("no pages")
        assert size == SEGMENT
        return os.memfd_create("paper")


class Setting:
    """An agent with one GPU of 100 MiB and an arena of `size`; `free` is what the host has left."""

    def __init__(self, size: int = GIB, ready: int | None = None, host_part: float = 0.0) -> None:
        self.loop = Loop()
        self.clients: dict[int, Client] = {}
        self.journal = Journal()
        self.arbiter = Arbiter([GpuSpec(0, 100 * MIB, 100 * MIB)], Settings(arena_bytes=size))
        self.free = 64 * GIB
        self.paper = Paper()
        runtime = SimpleNamespace(
            now=self.loop.time,
            call_at=self.loop.call_at,
            feed=self.feed,
            log=structlog.get_logger(),
        )
        self.arena = Arena(
            cast("Any", runtime),
            cast("Any", self.loop),
            ArenaSize(size, size if ready is None else ready, SEGMENT, 8 * MIB, host_part),
            clients=cast("Any", self.clients),
            gpus={},
            arbiter=self.arbiter,
            journal=self.journal,
            memory=self.paper,
            available=lambda: self.free,
        )

    def feed(self, event: ev.Event) -> None:
        list(self.arbiter.handle(self.loop.time(), event))
        self.arena.on_event(event)

    def start(self, number: int, mebibytes: int) -> Client:
        client = self.clients[number] = Client(number)
        self.feed(ev.Hello(number))
        self.feed(ev.Attach(number, 0, 1, 0, 100 * MIB))
        self.feed(ev.AllocRequest(number, 0, 2, mebibytes * MIB))
        return client

    def settle(self) -> None:
        """Let a little time pass, and all that is made become ready."""
        self.loop.pass_s(0.1)
        worker = self.arena._worker
        for _ in range(100):
            worker.submit(lambda: None).result()
            arrived, self.loop.arrived = self.loop.arrived, []
            if not arrived:
                return
            for call, args in arrived:
                call(*args)


@pytest.fixture
def setting() -> Any:
    made: list[Setting] = []

    def make(*args: Any, **kwargs: Any) -> Setting:
        made.append(Setting(*args, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.arena.stop()


def test_segments_are_there_as_soon_as_two_have_too_much(setting: Any) -> None:
    here = setting()
    first = here.start(1, 80)
    here.settle()
    assert here.arena.ready_bytes == 0
    second = here.start(2, 40)
    here.settle()
    assert [note.bytes for note in first.sent] == [SEGMENT, SEGMENT]  # 20 MiB may have to leave
    assert [note.bytes for note in second.sent] == [SEGMENT, SEGMENT]
    assert here.arena.ready_bytes == 5 * SEGMENT


def test_an_arena_that_prepares_nothing_gives_nothing(setting: Any) -> None:
    here = setting(ready=0)
    assert not here.arena.prepares
    here.start(1, 80)
    here.start(2, 40)
    here.settle()
    assert here.arena.ready_bytes == 0


def test_nothing_is_made_where_the_host_has_no_memory_left(setting: Any) -> None:
    here = setting()
    here.free = RESERVE_BYTES + SEGMENT - 1
    first = here.start(1, 80)
    here.start(2, 40)
    here.settle()
    assert here.arena.ready_bytes == 0
    here.arena.need(first, SEGMENT)
    assert [(note.type, note.bytes) for note in first.sent] == [(Type.ARENA, 0)]
    (short,) = here.journal.ring
    assert (short.reason, short.severity) == ("HostMemoryShort", "warning")
    assert "because the host is short of memory" in short.message


@pytest.mark.parametrize("size", [SEGMENT, 1 << 50])
def test_a_process_gets_no_more_than_it_has_allocated(setting: Any, size: int) -> None:
    here = setting()
    first = here.start(1, 20)
    nothing = here.clients[2] = Client(2)
    here.feed(ev.Hello(2))
    for _ in range(20):
        here.arena.need(first, size)
        here.arena.need(nothing, size)
        here.settle()
    assert here.arena.ready_bytes == 2 * SEGMENT
    assert here.arena.segments.held_bytes(2) == 0
    assert (Type.ARENA, 0) in [(note.type, note.bytes) for note in nothing.sent]


@pytest.mark.parametrize("size", [0, SEGMENT, 1 << 60])
def test_segments_from_before_are_no_more_than_a_process_has_allocated(
    setting: Any, size: int
) -> None:
    here = setting(size=4 * GIB)
    first = here.start(1, 20)
    for number in range(1, 100):
        here.arena.adopt(first, number, size)
    assert len(here.arena.segments.foreign[1]) <= 2
    assert here.arena.ready_bytes <= GIB
    here.start(2, 90)
    here.settle()
    assert here.arena.segments.held_bytes(2) > 0


def test_what_cannot_be_made_is_an_answer_too(setting: Any) -> None:
    here = setting()
    here.paper.broken = True
    first = here.start(1, 80)
    here.start(2, 40)
    here.arena.need(first, SEGMENT)
    here.settle()
    assert (Type.ARENA, 0) in [(note.type, note.bytes) for note in first.sent]


def test_a_host_that_runs_short_lets_no_more_in(setting: Any) -> None:
    here = setting()
    here.start(1, 80)
    here.start(2, 40)
    here.settle()
    assert here.arena.size_bytes == GIB
    here.free = RESERVE_BYTES + 128 * MIB
    for _ in range(3):
        here.loop.pass_s(REST_S)
        here.settle()
    assert 5 * SEGMENT <= here.arena.size_bytes <= 128 * MIB + 5 * SEGMENT
    here.free = 64 * GIB
    here.loop.pass_s(REST_S)
    assert here.arena.size_bytes == GIB


def test_after_a_rest_the_first_event_is_followed_by_a_look(setting: Any) -> None:
    here = setting()
    here.start(1, 80)
    here.settle()
    for _ in range(2):
        here.loop.pass_s(1.1)
    here.free = RESERVE_BYTES
    here.loop.pass_s(1.1)
    assert here.arena.size_bytes == GIB, "nothing happens: it looks less often"
    here.feed(ev.LeaseRequest(1))
    here.loop.pass_s(0.1)
    assert here.arena.size_bytes < GIB


def test_a_host_that_runs_short_gets_back_at_once_what_nobody_uses(setting: Any) -> None:
    here = setting()
    first = here.start(1, 80)
    here.start(2, 40)
    here.settle()
    assert here.arena.ready_bytes == 5 * SEGMENT, "one of them is spare"
    here.feed(ev.Free(1, 0, 60 * MIB, 60 * MIB))
    here.free = 0
    for _ in range(3):
        here.loop.pass_s(1.1)
        here.settle()
    assert here.arena.ready_bytes == 4 * SEGMENT
    assert Type.ARENA_BACK in [note.type for note in first.sent], "nothing of it may have to leave"


def test_an_arena_follows_a_host_that_gets_more_memory(setting: Any) -> None:
    here = setting(host_part=0.5)
    grown: list[int] = []
    here.arena.on_grown.append(grown.append)
    here.free = RESERVE_BYTES + 2 * GIB
    here.start(1, 80)
    here.settle()
    assert (here.arena.size_bytes, grown) == (GIB, [])
    here.free = RESERVE_BYTES + 2 * GIB + GIB // 8
    here.loop.pass_s(REST_S)
    assert (here.arena.size_bytes, grown) == (GIB, []), "an eighth more, or nothing"
    here.free = RESERVE_BYTES + 16 * GIB
    here.loop.pass_s(REST_S)
    assert (here.arena.size_bytes, grown) == (8 * GIB, [8 * GIB])
    assert here.arena.segments.limit_bytes == 8 * GIB
    here.free = RESERVE_BYTES + GIB
    here.loop.pass_s(REST_S)
    assert here.arena.size_bytes == GIB


def test_an_arena_that_was_named_stays_as_it_is(setting: Any) -> None:
    here = setting()
    here.free = 512 * GIB
    here.start(1, 80)
    here.settle()
    assert here.arena.size_bytes == GIB
    fixed = ArenaSize.of(GIB, 2 * SEGMENT, [budget(96 * MIB)], 0.5)
    assert fixed.grown(64 * GIB).ready_bytes == 2 * SEGMENT, "what is prepared was named"


def test_the_segments_of_one_who_left_go_with_it(setting: Any) -> None:
    here = setting()
    before = len(os.listdir("/proc/self/fd"))
    first = here.start(1, 80)
    here.start(2, 40)
    here.settle()
    del here.clients[1]
    here.arena.on_left(first)
    here.feed(ev.Left(1))
    here.settle()
    assert here.arena.ready_bytes == 3 * SEGMENT  # the other's, and the spare one
    assert len(os.listdir("/proc/self/fd")) == before + 3


def test_stopping_leaves_no_descriptor_open(setting: Any) -> None:
    here = setting()
    before = len(os.listdir("/proc/self/fd"))
    here.start(1, 80)
    here.start(2, 40)
    here.settle()
    assert len(os.listdir("/proc/self/fd")) == before + 5
    here.arena.stop()
    assert len(os.listdir("/proc/self/fd")) == before


def test_segments_suit_the_card() -> None:
    assert ArenaSize.of(GIB, None, [budget(96 * MIB)]).segment_bytes == 16 * MIB
    assert ArenaSize.of(GIB, None, [budget(2 * GIB)]).segment_bytes == 128 * MIB
    big = ArenaSize.of(200 * GIB, 50 * GIB, [budget(80 * GIB), budget(16 * GIB)])
    assert (big.segment_bytes, big.ready_bytes) == (GIB, 50 * GIB)
    assert big.moving_bytes == 2 * 4 * 64 * MIB
    assert prefault.STEP_BYTES <= 16 * MIB


def test_who_waits_for_a_process_that_does_not_answer_is_told_after_a_deadline(
    setting: Any,
) -> None:
    here = setting(ready=4 * SEGMENT)
    late: list[int] = []
    here.arena.deadline_s = lambda: 3.0
    here.arena.on_overdue.append(lambda client: late.append(client.number))
    first, second = here.start(1, 80), here.start(2, 80)
    here.settle()
    assert [note.segment > 0 for note in first.sent] == [True] * 4
    here.arena.need(second, SEGMENT)
    assert [note.type for note in first.sent[4:]] == [Type.ARENA_BACK]
    here.loop.pass_s(2.9)
    assert (late, second.sent) == ([], [])
    here.loop.pass_s(0.2)
    assert late == [1]
    (none,) = second.sent
    assert (none.type, none.segment) == (Type.ARENA, 0)
    here.loop.pass_s(3.0)
    assert late == [1, 1], "it is reported until it answers"
    here.arena.back(first, 0)
    here.loop.pass_s(10.0)
    assert late == [1, 1]
