"""Processes that become a gang: because somebody said so, or because they share GPU memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moiety.arbiter import events as ev
from moiety.model.gang import Gang
from moiety.wire.layout import SharedFlag

if TYPE_CHECKING:
    from moiety.agent.client import Client
    from moiety.agent.node import Node


def band(node: Node, clients: Iterable[Client], gang: Gang, *, begun: bool = False) -> None:
    """Make processes members of a gang; `begun`: they were before the agent started."""
    for client in clients:
        client.gang = gang.name
        node.timeline.gangs[client.number] = gang.name
        node.log.info("in a gang", client=str(client), gang=gang.name, size=gang.size)
        node.feed(ev.Banded(client.number, gang.name, gang.size, begun))


def shares(node: Node, client: Client, flags: int) -> None:
    """A process exported or imported GPU memory: it may wait for those that it shares that with.

    With whom is not known: with those of its workload that exported or imported any, unless a gang
    was named for them. Processes that do not fit on their GPUs together stay on their own.
    """
    client.shares |= flags
    if client.gang:
        return
    own = [c for c in node.clients.values() if c.workload == client.workload and c.shares]
    if len(own) < 2 or not any(c.shares & SharedFlag.IMPORTED for c in own):
        return
    if why := node.arbiter.refuse_gang(c.number for c in own):
        node.log.warning("share memory and cannot hold together", client=str(client), reason=why)
        return
    band(node, [c for c in own if not c.gang], Gang(client.workload))
