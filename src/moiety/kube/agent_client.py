"""The agent of this node, for code that must not wait: asked in a thread, found again when it ends.

It owns one conversation. Questions follow one another; when the agent was killed and is coming
back, a question waits for the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from moiety.agent.control import protocol
from moiety.agent.control.client import Call, HungUp
from moiety.agent.system.paths import Directory
from moiety.model import errors

A = TypeVar("A", bound=protocol.Answer)
AGAIN_S: Final = 0.1


class AgentClient:
    """One conversation with the agent, in a thread of its own."""

    def __init__(
        self, find: Callable[[], Directory], *, patience_s: float = 15.0, timeout_s: float = 10.0
    ) -> None:
        """`patience_s`: how long a question waits for an agent that is not there."""
        self._find = find
        self._patience_s = patience_s
        self._timeout_s = timeout_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="agent")
        self._call: Call | None = None
        self._closed = False

    async def ask(self, request: protocol.ControlRequest, answer: type[A]) -> A:
        """What the agent answers; raises what it raised, or NoAgent after a while."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._ask, request, answer)

    async def ask_status(self) -> protocol.NodeStatus:
        """How agent and GPUs are; raises as `ask`."""
        return await self.ask(protocol.Status(), protocol.NodeStatus)

    async def close(self) -> None:
        """Hang up."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._hang_up)
        self._thread.shutdown(wait=False)

    def abandon(self) -> None:
        """Leave in the middle of a question: who waits for its answer waits no more."""
        self._closed = True
        call = self._call
        if call is not None:
            call.interrupt()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _ask(self, request: protocol.ControlRequest, answer: type[A]) -> A:
        until_s = time.monotonic() + self._patience_s
        while True:
            try:
                if self._call is None:
                    self._call = Call(self._find(), self._timeout_s)
                return self._call.ask(request, answer)
            except (HungUp, errors.NoAgent, errors.AgentStopping):
                self._hang_up()
                if self._closed or time.monotonic() >= until_s:
                    raise
                time.sleep(AGAIN_S)
            except errors.AgentSilent:
                self._hang_up()  # its answer may come later, and would be taken for another's
                raise

    def _hang_up(self) -> None:
        if self._call is not None:
            self._call.close()
            self._call = None
