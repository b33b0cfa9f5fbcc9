"""Tells the agent of a node what an administrator guarantees to the pods of namespaces.

The ConfigMap `moiety-namespaces` says it (namespace_limits.py). Until the API server answers, what
was read last counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from moiety.agent.control import protocol
from moiety.kube.agent_client import AgentClient
from moiety.kube.namespace_guard import NamespaceGuard
from moiety.model.errors import MoietyError

LOOK_S: Final = 30.0
"""Seconds between two looks at the ConfigMap."""


class NamespaceGuarantees:
    """What one agent was told of guarantees."""

    def __init__(
        self,
        guard: NamespaceGuard,
        line: AgentClient,
        log: Any,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing has been read yet."""
        self._guard = guard
        self._line = line
        self._log = log
        self._now_s = now_s
        self._look_s = 0.0
        """When the ConfigMap is read next."""
        self._parts: dict[str, float] = {}
        self._told: tuple[int, dict[str, float]] = (0, {})
        """The pid of the agent that was told, and the parts."""
        self._problem = ""

    async def tell(self, agent_pid: int) -> None:
        """Bring the agent with this pid up to date. A failure is logged once, and tried again."""
        problem = ""
        try:
            if self._now_s() >= self._look_s:
                self._look_s = self._now_s() + LOOK_S
                self._parts = await self._guard.guaranteed()
            if self._told != (agent_pid, self._parts) and (self._parts or self._told[1]):
                parts = dict(self._parts)
                await self._line.ask(protocol.GuaranteeNamespaces(parts=parts), protocol.Done)
                self._told = agent_pid, parts
        except MoietyError as error:
            problem = error.what
            if problem != self._problem:
                self._log.error("namespaces_not_guaranteed", problem=problem, hint=error.hint)
        self._problem = problem
