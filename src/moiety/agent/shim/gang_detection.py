"""Processes that become a gang: because somebody said so, or because they share GPU memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from moiety.arbiter import events as ev
from moiety.model.gang import Gang
from moiety.wire.layout import Refusal, SharedFlag
from moiety.wire.messages import RefusedMessage

if TYPE_CHECKING:
    from moiety.agent.core.client import Client
    from moiety.agent.core.runtime import Node

PATIENCE_S: Final = 5.0
"""who waits longer for the rest of its gang is told so"""
_FOUND: Final = "shared:"
"""what names of gangs begin with that nobody named; no user can name one so"""


def enter(node: Node, client: Client, gang: Gang, *, begun: bool = False) -> None:
    """Make a process a member of the gang that its user named; `begun`: all were there once."""
    _band(node, [client], gang.name, gang.size, begun=begun)
    there = sum(other.gang == gang.name for other in node.clients.values())
    if gang.size and there > gang.size:
        _tell(
            node,
            client,
            f"it is one of {there} processes of gang {gang.name}, whose size is {gang.size}; all "
            f"of them hold GPUs together (--gang-size {there})",
        )
    node.loop.call_at(node.loop.time() + PATIENCE_S, _look_for_rest, node, client)


def shares(node: Node, client: Client, flags: int) -> None:
    """A process exported or imported GPU memory that it made itself.

    With whom is not known: with those of its workload that exported or imported any.
    """
    client.shares |= flags
    own = [c for c in node.clients.values() if c.workload == client.workload and c.shares]
    if any(c.shares & SharedFlag.IMPORTED for c in own):
        _unite(node, own)


def opened(node: Node, exporter: Client, importer: Client) -> None:
    """A process sees memory of another: from now on they may wait for each other's work."""
    _unite(node, [exporter, importer])


def _unite(node: Node, clients: list[Client]) -> None:
    """Let these, and whoever is in a gang with one of them, be one gang.

    Not if their users named different gangs for them, or if they do not fit on their GPUs together.
    """
    gangs = {c.gang for c in clients if c.gang}
    named = {gang for gang in gangs if not gang.startswith(_FOUND)}
    if len(clients) < 2 or len(named) > 1:
        return
    name = min(named or gangs or {_new_name(node, clients[0])})
    members = [c for c in node.clients.values() if c.gang in gangs or c in clients]
    joining = [c for c in members if c.gang != name]
    if not joining:
        return
    if why := node.arbiter.refuse_gang(c.number for c in members):
        who = ", ".join(map(str, joining))
        node.log.warning("share memory and cannot hold together", clients=who, reason=why)
        text = f"share memory and cannot hold the GPUs together: {why}"
        node.journal.often(name, "Gang", f"{who} {text}", joining[0])
        return
    _band(node, joining, name, 0)


def _new_name(node: Node, client: Client) -> str:
    name = _FOUND + client.workload
    taken = any(other.gang == name for other in node.clients.values())
    return f"{name}.{client.number}" if taken else name


def _band(
    node: Node, clients: Iterable[Client], name: str, size: int, *, begun: bool = False
) -> None:
    for client in clients:
        client.gang = name
        node.timeline.gangs[client.number] = name
        node.log.info("in a gang", client=str(client), gang=name, size=size)
        node.feed(ev.GangJoined(client.number, name, size, begun))


def _look_for_rest(node: Node, client: Client) -> None:
    missing = node.arbiter.missing(client.gang)
    if missing and node.clients.get(client.number) is client:
        _tell(
            node,
            client,
            f"it gets no GPU before its gang {client.gang} is whole: {missing} more must start "
            "(moiety ps shows who is there)",
        )


def _tell(node: Node, client: Client, text: str) -> None:
    """Say something to whoever reads the program's standard error."""
    node.log.warning("told", client=str(client), text=text)
    node.journal.often(client.number, "Gang", text, client)
    client.connection.send(RefusedMessage(code=Refusal.GPU, text=text).encode())
