"""Whoever asks what programs have is not told before what these said is taken in."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.core import catch_up as module
from moiety.agent.core.catch_up import catch_up


class Program:
    """One program's socket, as the agent sees it, and the words that were taken in."""

    def __init__(self, *, is_read: bool = True) -> None:
        self.here, self.there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.here.setblocking(False)
        self.connection = SimpleNamespace(fd=self.here.fileno(), is_read=is_read)
        self.heard: list[bytes] = []

    def hear(self) -> None:
        self.heard.append(self.here.recv(64))

    def close(self) -> None:
        self.here.close()
        self.there.close()


def caught_up(program: Program, take: Callable[[], bool], *, reads: bool = False) -> None:
    """Catch up with a program that the loop reads, one packet at a time, or does not."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        if reads:
            loop.add_reader(program.here, program.hear)
        clients: Any = {1: program}
        await catch_up(clients, take)
        loop.remove_reader(program.here)

    asyncio.run(main())


@pytest.fixture
def program() -> Any:
    made = Program()
    yield made
    made.close()


def taking(*answers: bool) -> tuple[list[None], Callable[[], bool]]:
    left: list[bool] = list(answers)
    calls: list[None] = []

    def take() -> bool:
        calls.append(None)
        return left.pop(0) if left else True

    return calls, take


def test_nothing_is_waited_for_where_nobody_said_anything(program: Program) -> None:
    calls, take = taking()
    caught_up(program, take)
    assert len(calls) == 1


def test_what_was_sent_before_is_read_first(program: Program) -> None:
    for number in range(20):
        program.there.send(b"%d" % number)
    caught_up(program, taking()[1], reads=True)
    assert len(program.heard) == 20


def test_what_the_thread_has_read_is_taken_to_its_end(program: Program) -> None:
    calls, take = taking(False, False)
    caught_up(program, take)
    assert len(calls) == 3


def test_a_program_that_is_never_read_holds_nobody_up(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_S", 0.02)
    program.there.send(b"more")
    calls, take = taking()
    caught_up(program, take)
    assert len(calls) > 1
    assert not program.heard


def test_one_that_has_to_pause_is_not_waited_for() -> None:
    program = Program(is_read=False)
    program.there.send(b"more")
    calls, take = taking()
    caught_up(program, take)
    assert len(calls) == 1
    program.close()
