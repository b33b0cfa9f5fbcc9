"""The arbiter's instructions, carried out: lease words are written and packets sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moiety.agent import processes
from moiety.arbiter import instructions as do
from moiety.wire.layout import Refusal, Type
from moiety.wire.messages import Amount, Attached, LeaseNote, Pace, Refused, Watch

if TYPE_CHECKING:
    from moiety.agent.client import Client
    from moiety.agent.node import Node

CODES = {"limit": Refusal.LIMIT, "capacity": Refusal.CAPACITY, "gpu": Refusal.GPU}


def carry_out(node: Node, instruction: do.Instruction) -> None:
    """Do it; an instruction for a process that is gone is void."""
    client = node.clients.get(instruction.tenant)
    if client is not None:
        _CARRY[type(instruction)](node, client, instruction)


def _grant(node: Node, client: Client, wanted: do.Grant) -> None:
    del node
    client.page.open(wanted.epoch)  # before the packet: who reads that finds the word open
    client.connection.send(LeaseNote(Type.GRANT, 0, wanted.epoch).encode())


def _revoke(node: Node, client: Client, wanted: do.Revoke) -> None:
    del node
    client.page.close(wanted.epoch)
    client.connection.send(LeaseNote(Type.REVOKE, 0, wanted.epoch).encode())


def _room(node: Node, client: Client, wanted: do.Room) -> None:
    node.timeline.restoring(client.number, wanted.gpu, wanted.bytes)
    node.sample(client, wanted.gpu)
    client.connection.send(Amount(Type.ROOM, 0, wanted.gpu, wanted.bytes).encode())


def _evict(node: Node, client: Client, wanted: do.Evict) -> None:
    node.timeline.evicting(client.number, wanted.gpu)
    client.connection.send(Amount(Type.EVICT, 0, wanted.gpu, wanted.bytes).encode())


def _watch(node: Node, client: Client, wanted: do.Watch) -> None:
    del node
    idle_us = max(1, round(wanted.idle_s * 1e6)) if wanted.idle_s > 0 else 0
    client.connection.send(Watch(idle_us=idle_us).encode())


def _pace(node: Node, client: Client, wanted: do.Pace) -> None:
    del node
    client.connection.send(Pace(queue_us=round(wanted.queue_s * 1e6)).encode())


def _admitted(node: Node, client: Client, wanted: do.Admitted) -> None:
    serial, gpu = wanted.serial, wanted.gpu
    if client.attaching.pop(serial, None) is not None:
        node.timeline.joined(client.number, gpu)
        attach(node, client, serial, gpu)
        node.sample(client, gpu)
    elif client.allocating.pop(serial, None) is not None:
        client.connection.send(Amount(Type.ALLOCATED, serial, gpu).encode())
        node.sample(client, gpu)


def attach(node: Node, client: Client, serial: int, gpu: int) -> None:
    """Tell a process how it may use a GPU."""
    reply = Attached(
        serial=serial,
        gpu=gpu,
        limit_bytes=node.limit_bytes(client, gpu),
        chunk_bytes=node.gpus[gpu].budget.chunk_bytes,
    )
    client.connection.send(reply.encode())


def _refused(node: Node, client: Client, wanted: do.Refused) -> None:
    if client.attaching.pop(wanted.serial, None) is not None:
        client.gpus.discard(wanted.gpu)
        node.gpus_changed(client)
    client.allocating.pop(wanted.serial, None)
    code = CODES[wanted.code]
    client.connection.send(Refused(serial=wanted.serial, code=code, text=wanted.text).encode())
    node.timeline.refused(client.number, wanted.gpu, wanted.text)
    node.log.info("refused", client=str(client), code=wanted.code, text=wanted.text)


def _overdue(node: Node, client: Client, wanted: do.Overdue) -> None:
    client.overdue_s = wanted.waited_s
    node.timeline.overdue(client.number, wanted.waited_s)
    node.log.warning(
        "does not give the GPU back",
        client=str(client),
        waited_s=round(wanted.waited_s, 3),
        stopped=processes.is_stopped(client.pid),
        kill=wanted.kill,
    )
    if wanted.kill:
        processes.kill(client.pidfd)


_CARRY: dict[type, Callable[[Any, Any, Any], None]] = {
    do.Admitted: _admitted,
    do.Refused: _refused,
    do.Room: _room,
    do.Grant: _grant,
    do.Revoke: _revoke,
    do.Evict: _evict,
    do.Watch: _watch,
    do.Pace: _pace,
    do.Overdue: _overdue,
}
