"""The agent of this node, for asynchronous code: a thread sends the requests, and reconnects.

It owns one connection. Requests follow one another; while a killed agent starts again, a request
waits for the new agent.
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
    """One connection to the agent, in its own thread."""

    def __init__(
        self, find: Callable[[], Directory], *, patience_s: float = 15.0, timeout_s: float = 10.0
    ) -> None:
        """`patience_s`: how long a request waits for an agent that does not run."""
        self._find = find
        self._patience_s = patience_s
        self._timeout_s = timeout_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="agent")
        self._call: Call | None = None
        self._closed = False

    async def ask(self, request: protocol.ControlRequest, answer: type[A]) -> A:
        """The agent's answer; raises the agent's error, or NoAgent after `patience_s`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._ask, request, answer)

    async def ask_status(self) -> protocol.NodeStatus:
        """The state of agent and GPUs; raises as `ask`."""
        return await self.ask(protocol.Status(), protocol.NodeStatus)

    async def close(self) -> None:
        """Close the connection."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._hang_up)
        self._thread.shutdown(wait=False)

    def abandon(self) -> None:
        """Close the connection during a request: its caller stops waiting."""
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
                self._hang_up()  # a late answer would count for the next request
                raise

    def _hang_up(self) -> None:
        if self._call is not None:
            self._call.close()
            self._call = None
