"""Commands of one user wait, so that those of others, and programs, are served."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control import protocol, server
from moiety.agent.control.server import LISTS, ControlServer
from moiety.agent.core.rate_limits import RateLimits
from moiety.agent.system.paths import Directory
from moiety.agent.system.processes import Peer

USER = Peer(1, 12345, 12345)


class Agent:
    """A server with programs; it notes how long each request waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, programs: int) -> None:
        self.waits: list[float] = []

        async def sleep(wait_s: float) -> None:
            self.waits.append(wait_s)

        async def answer(*_: object) -> protocol.Done:
            return protocol.Done()

        monkeypatch.setattr(server, "asyncio", SimpleNamespace(sleep=sleep))
        known = SimpleNamespace(by_number=dict.fromkeys(range(programs)))
        commands: Any = SimpleNamespace(clients=known, answer=answer)
        runtime: Any = SimpleNamespace(now=lambda: 0.0)
        untouched: Any = None
        self.server = ControlServer(untouched, commands, runtime, untouched, RateLimits(1 << 16))

    def ask(self, line: bytes, peer: Peer = USER) -> protocol.Answer:
        conversation: Any = None
        return asyncio.run(self.server._answer_line(line, peer, True, conversation))

    def served_at_once(self, line: bytes, peer: Peer = USER, most: int = 2000) -> int:
        """How many such requests of one moment are answered without a wait."""
        for number in range(most):
            self.ask(line, peer)
            if self.waits and self.waits[-1] > 0:
                return number
        return most


@pytest.mark.parametrize(
    "request_", [kind() for kind in LISTS], ids=lambda each: type(each).__name__
)
@pytest.mark.parametrize(("programs", "at_once"), [(0, 1000), (80, 90), (800, 9)])
def test_a_list_of_programs_counts_by_its_length(
    monkeypatch: pytest.MonkeyPatch,
    request_: protocol.ControlRequest,
    programs: int,
    at_once: int,
) -> None:
    agent = Agent(monkeypatch, programs)
    assert agent.served_at_once(protocol.encode(request_)) == at_once


def test_other_requests_and_lines_that_make_no_sense_count_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for line in (protocol.encode(protocol.Ping()), b"{"):
        assert Agent(monkeypatch, 800).served_at_once(line) == 1000
    answer = Agent(monkeypatch, 0).ask(b"{")
    assert isinstance(answer, protocol.Failed)
    assert answer.kind == "BadRequest"


def test_administrators_never_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(monkeypatch, 800)
    root = Peer(1, 0, 0)
    assert agent.served_at_once(protocol.encode(protocol.Ps()), root) == 2000
    assert agent.waits == []


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_the_socket_stays_only_where_the_next_agent_is_waited_for(
    tmp_path: Path, is_waited_for: bool
) -> None:
    commands: Any = SimpleNamespace(options=SimpleNamespace(metrics=None))
    unused: Any = None
    agents = ControlServer(Directory(tmp_path), commands, unused, unused, RateLimits(1 << 16))

    async def life() -> None:
        await agents.open()
        assert agents.directory.control.is_socket()
        agents.close(is_waited_for=is_waited_for)

    asyncio.run(life())
    assert agents.directory.control.is_socket() == is_waited_for
