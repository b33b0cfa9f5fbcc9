"""Which lines whoever sits before a program gets, and which not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moiety.agent.core.client import Client
from moiety.agent.shim.wait_messages import SPACING_S, WaitMessages
from moiety.arbiter.settings import Settings
from moiety.arbiter.snapshots import GpuView, TenantGpuView, TenantView
from moiety.model.share import Priority, Share
from moiety.wire.codec import Counters, decode
from moiety.wire.messages import TerminalLineMessage

GIB = 1 << 30


class Connection:
    def __init__(self) -> None:
        self.said: list[str] = []

    def send(self, packet: bytes) -> None:
        message = decode(packet)
        assert isinstance(message, TerminalLineMessage)
        self.said.append(message.text)


@dataclass
class Someone:
    """As much of a Client as is looked at."""

    number: int
    talks: bool = True
    program: str = "train"
    connection: Connection = field(default_factory=Connection)
    allocating: dict[int, int] = field(default_factory=dict)
    attaching: dict[int, int] = field(default_factory=dict)
    restored: Counters = field(default_factory=Counters)

    def counters(self) -> Counters:
        return self.restored

    uid: int = 7

    def __str__(self) -> str:
        return f"{self.program} (pid {100 + self.number})"

    def name_for(self, viewer: Someone | None) -> str:
        return str(self) if viewer and viewer.uid == self.uid else f"tenant {self.number} of alice"


class Loop:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.due: list[tuple[float, Any]] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, when: float, callback: Any) -> Any:
        self.due.append((when, callback))
        return self

    def cancel(self) -> None:
        self.due.clear()

    def pass_until(self, end_s: float) -> None:
        while self.due and min(self.due)[0] <= end_s:
            self.due.sort()
            self.now_s, callback = self.due.pop(0)
            callback()
        self.now_s = end_s


@dataclass
class Arbiter:
    views: dict[int, TenantView] = field(default_factory=dict)
    holders: tuple[int, ...] = ()
    queued: list[int] = field(default_factory=list)

    def tenants(self) -> list[TenantView]:
        return list(self.views.values())

    def gpus(self) -> list[GpuView]:
        return [GpuView(0, 0, 0, 0, 0, 0, self.holders, tuple(self.queued))]

    def queue(self) -> list[int]:
        return self.queued


class Surroundings:
    """As much of an agent as is looked at, with its WaitMessages."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.arbiter = Arbiter()
        self.clients: dict[int, Someone] = {}
        self.settings = Settings(arena_bytes=0)
        self.recovery = SimpleNamespace(is_settled=True)
        runtime = SimpleNamespace(now=self.loop.time, call_at=self.loop.call_at)
        self.notices = WaitMessages(
            cast("Any", runtime),
            cast("Any", self.clients),
            arbiter=cast("Any", self.arbiter),
            recovery=cast("Any", self.recovery),
            settings=cast("Any", SimpleNamespace(now=self.settings)),
        )

    def add(self, number: int, **more: Any) -> Someone:
        self.clients[number] = Someone(number, **more)
        on = TenantGpuView(4 * GIB, 4 * GIB, 0, 8 * GIB)
        self.arbiter.views[number] = TenantView(number, "idle", None, "", 0, 0, gpus={0: on})
        return self.clients[number]

    def change(self, number: int, **changes: Any) -> None:
        self.arbiter.views[number] = replace(self.arbiter.views[number], **changes)

    def hold(self, *numbers: int) -> None:
        self.arbiter.holders = numbers
        for number in numbers:
            self.change(number, state="holding", waiting_since_s=None, since_s=self.loop.now_s)

    def wait(self, number: int, reason: str = "tenant 1 holds the GPU") -> None:
        if number not in self.arbiter.queued:
            self.arbiter.queued.append(number)
        self.change(
            number, state="queued", waiting_since_s=self.loop.now_s, reason=reason, since_s=0.0
        )
        self.notices.may_wait()


@pytest.fixture
def node() -> Surroundings:
    made = Surroundings()
    made.add(1, program="first", talks=False)
    made.hold(1)
    return made


def test_other_users_programs_are_not_named_to_who_waits_for_them(node: Surroundings) -> None:
    node.notices._shared = True
    stranger, mate = node.add(2, uid=8), node.add(3)
    for number in (2, 3):
        node.wait(number)
    node.loop.pass_until(104)
    assert "held by tenant 1 of alice for 3 s" in stranger.connection.said[0]
    assert "held by first (pid 101) for 3 s" in mate.connection.said[0]


def test_a_long_wait_is_named_once_with_its_holder_and_its_end(node: Surroundings) -> None:
    second = node.add(2)
    node.wait(2)
    node.loop.pass_until(102.5)
    assert second.connection.said == []
    node.loop.pass_until(150)
    text = "waiting for GPU 0, 3 s so far; held by first (pid 101) for 3 s"
    assert second.connection.said == [text]
    node.arbiter.queued.clear()
    node.hold(2)
    node.loop.pass_until(152)
    assert second.connection.said == [text, "the program continues after 50 s"]
    assert node.loop.due == []


def test_a_wait_that_lasts_is_named_ever_more_seldom(node: Surroundings) -> None:
    second = node.add(2)
    node.wait(2)
    node.loop.pass_until(100 + 3 + 7 * SPACING_S - 1)
    waited = [line.split(", ")[1].split(" so far")[0] for line in second.connection.said]
    assert waited == ["3 s", "1 min 3 s", "3 min 3 s"]


def test_many_turns_are_no_more_lines_than_one_long_wait(node: Surroundings) -> None:
    second = node.add(2)
    for _ in range(40):  # holds for 5 s, waits for 5 s
        node.wait(2)
        node.loop.pass_until(node.loop.now_s + 5)
        node.hold(2)
        node.loop.pass_until(node.loop.now_s + 5)
        node.hold(1)
    waits = [line for line in second.connection.said if line.startswith("waiting")]
    assert len(waits) == 3
    assert len(second.connection.said) == 6


def test_a_short_wait_and_who_does_not_talk_are_left_in_peace(node: Surroundings) -> None:
    second, third = node.add(2), node.add(3, talks=False)
    node.wait(2)
    node.wait(3)
    node.loop.pass_until(102)
    node.hold(2)
    node.loop.pass_until(110)
    assert second.connection.said == third.connection.said == []
    assert node.loop.due == []


def test_a_holder_that_waits_for_room_is_told_too(node: Surroundings) -> None:
    second = node.add(2)
    node.hold(1, 2)
    second.allocating[7] = 0
    node.notices.may_wait()
    node.loop.pass_until(110)
    assert second.connection.said == [
        "waiting for GPU 0, 3 s so far; held by first (pid 101) for 4 s"
    ]


def test_reasons_that_say_more_and_the_place_in_the_queue_are_told(node: Surroundings) -> None:
    second = node.add(2)
    node.add(3, talks=False)
    node.add(4, talks=False)
    node.wait(4)
    node.wait(2, "its limit of 30 % of the GPU is used up for the moment")
    node.wait(3)
    node.change(3, share=Share(priority=Priority.HIGH))
    node.loop.pass_until(104)
    assert second.connection.said[0].split("; ")[2:] == [
        "its limit of 30 % of the GPU is used up for the moment",
        "place 3 of 3 in the queue",
    ]


def test_gigabytes_that_come_back_are_named_with_how_long_that_takes(node: Surroundings) -> None:
    second = node.add(2, restored=Counters(restored_bytes=10 * GIB, restored_ns=10**9))
    client = cast("Client", second)
    node.change(2, gpus={0: TenantGpuView(12 * GIB, 7 * GIB, 0, 16 * GIB)})
    node.notices.restoring(client, 0, 2 * GIB)
    assert second.connection.said == ["restoring 7 GiB, about 700 ms"]
    node.notices.restoring(client, 0, 2 * GIB)
    node.loop.now_s += SPACING_S / 2
    node.notices.restoring(client, 0, 2 * GIB)
    assert len(second.connection.said) == 1
    node.loop.now_s += SPACING_S
    node.notices.restoring(client, 0, 2 * GIB)
    assert len(second.connection.said) == 2


def test_what_is_back_at_once_is_not_worth_a_word(node: Surroundings) -> None:
    second = node.add(2)
    node.notices.restoring(cast("Client", second), 0, GIB // 2)
    node.notices.after_s = 0
    node.change(2, gpus={0: TenantGpuView(12 * GIB, 0, 0, 16 * GIB)})
    node.loop.now_s += 10
    node.notices.restoring(cast("Client", second), 0, GIB)
    node.wait(2)
    node.loop.pass_until(1000)
    assert second.connection.said == []


def test_names_cannot_write_on_a_terminal(node: Surroundings) -> None:
    node.clients[1].program = "\x1b[2Jevil\n\x9b"
    second = node.add(2)
    node.wait(2)
    node.loop.pass_until(104)
    assert "held by ?[2Jevil?? (pid 101)" in second.connection.said[0]
