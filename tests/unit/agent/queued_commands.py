"""Commands that wait for GPUs in the queue of one agent, for its tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moiety.agent.control import card_queue as module
from moiety.agent.control import protocol
from moiety.agent.system import processes
from moiety.agent.system.processes import Peer
from moiety.model.cards import CardRequest
from moiety.model.share import Share
from moiety.testing.waiting import Changes
from tests.unit.agent.test_creation import Agent

ANY = CardRequest()
FIRST, OTHER = Peer(71, 1001, 1001), Peer(72, 1002, 1002)


class Command:
    """A `moiety run --wait` and its connection."""

    def __init__(self, day: Day, share: Share, request: CardRequest | None, peer: Peer) -> None:
        self.told: list[tuple[int, int]] = []
        self.reasons: list[str] = []
        self.ended = asyncio.Event()
        self.is_read = False
        asked = protocol.CreateWorkload("a.out", [], "/", share, cards=request, wait=True)
        conversation: Any = self
        self.was_read_after = False

        async def answer() -> protocol.Created:
            try:
                return await day.agent.creation.create(asked, peer, conversation)
            finally:
                self.was_read_after = self.is_read

        self.answer = asyncio.ensure_future(answer())
        self.changes = day.changes
        self.answer.add_done_callback(self._done)

    def _done(self, answer: asyncio.Future[protocol.Created]) -> None:
        # Read, so that an error that no test waits for is not reported while another one fails.
        if not answer.cancelled():
            answer.exception()
        self.changes.tell()

    async def tell(self, answer: protocol.Waiting) -> None:
        self.told.append((answer.place, answer.number))
        self.reasons.append(answer.reason)
        self.changes.tell()

    async def hung_up(self) -> None:
        self.is_read = True
        try:
            await self.ended.wait()
        finally:
            self.is_read = False

    @property
    def waits(self) -> bool:
        return not self.answer.done() and bool(self.told)


class Day:
    """An agent whose machine has these GPUs, and the commands of one test."""

    def __init__(self, *names: str) -> None:
        self.agent = Agent(*names)
        self.queue = self.agent.queue
        self.changes = Changes()

    def wait(self, share: Share, request: CardRequest | None = ANY, peer: Peer = FIRST) -> Command:
        return Command(self, share, request, peer)

    async def run(
        self, share: Share, request: CardRequest | None = ANY, peer: Peer = FIRST
    ) -> protocol.Created:
        """A command that does not wait."""
        asked = protocol.CreateWorkload("b.out", [], "/", share, cards=request)
        return await self.agent.creation.create(asked, peer)

    async def until(self, is_so: Callable[[], bool]) -> None:
        await self.changes.until(is_so)

    async def tried(self) -> None:
        """Let all who wait try once more, to the end."""
        await self.queue._try_all({})

    def end(self, created: protocol.Created) -> None:
        """A program ends."""
        del self.agent.workloads.by_id[created.id]
        self.queue.changed()


STARTED = {FIRST.pid: 1000, OTHER.pid: 2000}
"""When the process with each pid started."""


def quicken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only what happens make the queue try again, and at once."""
    monkeypatch.setattr(processes, "start_time", STARTED.get)
    monkeypatch.setattr(module, "TOGETHER_S", 0.0)
    monkeypatch.setattr(module, "AGAIN_S", 3600.0)  # only what happens lets one try again


def day(*names: str) -> Callable[[Callable[[Day], Coroutine[Any, Any, None]]], None]:
    """Run one test on a machine with these GPUs."""

    def run(test: Callable[[Day], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            await test(Day(*names))

        asyncio.run(main())

    return run
