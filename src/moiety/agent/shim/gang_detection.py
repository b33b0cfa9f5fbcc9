"""Processes that become a gang: because a user named one, or because they share GPU memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from moiety.agent.core.client import Client
from moiety.agent.core.journal import Journal
from moiety.agent.core.runtime import Runtime
from moiety.agent.core.timeline import Timeline
from moiety.arbiter import events as ev
from moiety.arbiter.machine import Arbiter
from moiety.model.gang import Gang
from moiety.wire.layout import Refusal, SharedFlag
from moiety.wire.messages import RefusedMessage

PATIENCE_S: Final = 5.0
"""Seconds until a program is told that it waits for the rest of its gang."""
_FOUND: Final = "shared:"
"""Prefix of gangs that no user named; a user's name cannot begin so."""


class GangDetection:
    """Makes processes members of gangs."""

    def __init__(
        self,
        runtime: Runtime,
        clients: Mapping[int, Client],
        *,
        arbiter: Arbiter,
        timeline: Timeline,
        journal: Journal,
    ) -> None:
        self._runtime = runtime
        self._clients = clients
        self._arbiter = arbiter
        self._timeline = timeline
        self._journal = journal

    def join(self, client: Client, gang: Gang, *, begun: bool = False) -> None:
        """Make a process a member of the gang that its user named; `begun`: all were there once."""
        self._band([client], gang.name, gang.size, begun=begun)
        there = sum(other.gang == gang.name for other in self._clients.values())
        if gang.size and there > gang.size:
            self._tell(
                client,
                f"it is one of {there} processes of gang {gang.name}, whose size is {gang.size}; "
                f"all of them hold GPUs together (--gang-size {there})",
            )
        self._runtime.call_at(self._runtime.now() + PATIENCE_S, self._look_for_rest, client)

    def shared(self, client: Client, flags: int) -> None:
        """A process exported or imported GPU memory that it made itself.

        The other side is not known: it may be any process of the workload that did so.
        """
        client.shares |= flags
        own = [c for c in self._clients.values() if c.workload == client.workload and c.shares]
        if any(c.shares & SharedFlag.IMPORTED for c in own):
            self._unite(own)

    def opened(self, exporter: Client, importer: Client) -> None:
        """A process opened memory of another: from now on they may wait for each other's work."""
        self._unite([exporter, importer])

    def _unite(self, clients: list[Client]) -> None:
        """Make one gang of these clients and of the members of their gangs.

        Not if their users named different gangs, or if their GPUs cannot hold them all.
        """
        gangs = {c.gang for c in clients if c.gang}
        named = {gang for gang in gangs if not gang.startswith(_FOUND)}
        if len(clients) < 2 or len(named) > 1:
            return
        name = min(named or gangs or {self._new_name(clients[0])})
        members = [c for c in self._clients.values() if c.gang in gangs or c in clients]
        joining = [c for c in members if c.gang != name]
        if not joining:
            return
        if why := self._arbiter.refuse_gang(c.number for c in members):
            who = ", ".join(map(str, joining))
            self._runtime.log.warning("gang_refused", clients=who, reason=why)
            text = f"share memory and cannot hold the GPUs together: {why}"
            self._journal.often(name, "Gang", f"{who} {text}", joining[0])
            return
        self._band(joining, name, 0)

    def _new_name(self, client: Client) -> str:
        name = _FOUND + client.workload
        taken = any(other.gang == name for other in self._clients.values())
        return f"{name}.{client.number}" if taken else name

    def _band(
        self, clients: Iterable[Client], name: str, size: int, *, begun: bool = False
    ) -> None:
        for client in clients:
            client.gang = name
            self._timeline.gangs[client.number] = name
            self._runtime.log.info("gang_joined", client=str(client), gang=name, size=size)
            self._runtime.feed(ev.GangJoined(client.number, name, size, begun))

    def _look_for_rest(self, client: Client) -> None:
        missing = self._arbiter.missing(client.gang)
        if missing and self._clients.get(client.number) is client:
            self._tell(
                client,
                f"it gets no GPU before its gang {client.gang} is whole: {missing} more must start "
                "(moiety ps shows who is there)",
            )

    def _tell(self, client: Client, text: str) -> None:
        """Write a line to the program's standard error, and record it."""
        self._runtime.log.warning("terminal_line", client=str(client), text=text)
        self._journal.often(client.number, "Gang", text, client)
        client.connection.send(RefusedMessage(code=Refusal.GPU, text=text).encode())
