"""The arbiter's instructions, carried out: lease words are written and packets sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moiety.arbiter import instructions as do
from moiety.arbiter.states import WITH_LEASE
from moiety.model.format import format_duration
from moiety.model.share import Mode
from moiety.wire.codec import lease_note
from moiety.wire.layout import MemoryMode, Refusal, Type
from moiety.wire.messages import (
    AmountMessage,
    AttachedMessage,
    CreditMessage,
    IdleTimeoutMessage,
    ModeMessage,
    QueueDepthMessage,
    RefusedMessage,
)

if TYPE_CHECKING:
    from moiety.agent.core.client import Client
    from moiety.agent.core.runtime import Node

MODES = {Mode.SWAP: MemoryMode.SWAP, Mode.MANAGED: MemoryMode.MANAGED}
CODES = {"limit": Refusal.LIMIT, "capacity": Refusal.CAPACITY, "gpu": Refusal.GPU}


def carry_out(node: Node, instruction: do.Instruction) -> None:
    """Do it; an instruction for a process that is gone is void, but for what is written down."""
    if type(instruction) is do.StateChanged:
        _write_down(node, instruction)
        return
    client = node.clients.get(instruction.tenant)
    if client is not None:
        _CARRY[type(instruction)](node, client, instruction)


def _grant(node: Node, client: Client, wanted: do.Grant) -> None:
    client.page.open(wanted.epoch)  # before the packet: who reads that finds the word open
    node.kernel.give_way()  # who was woken may be on this very processor, and all else can wait
    client.connection.send(lease_note(Type.GRANT, wanted.epoch))


def _write_down(node: Node, change: do.StateChanged) -> None:
    """Add the end of a stay to the timeline, and what a new holder still waits for."""
    node.timeline.ended(change)
    if change.after in WITH_LEASE and (client := node.clients.get(change.tenant)):
        for gpu in set(client.allocating.values()):  # it is answered at once, or only after
            node.timeline.growing(client.number, gpu)  # room was made


def _revoke(node: Node, client: Client, wanted: do.Revoke) -> None:
    del node
    client.page.close(wanted.epoch)
    client.connection.send(lease_note(Type.REVOKE, wanted.epoch))


def _step(node: Node, client: Client, wanted: do.AllowOne) -> None:
    del node
    client.connection.send(lease_note(Type.ALLOW_ONE, wanted.epoch))


def _room(node: Node, client: Client, wanted: do.RestoreBudget) -> None:
    paged = node.arbiter.managed_bytes(client.number, wanted.gpu)
    if wanted.bytes > paged:  # the driver's pages come when they are touched, which nobody sees
        node.timeline.restoring(client.number, wanted.gpu, wanted.bytes - paged)
        if client.talks:
            node.notices.restoring(client, wanted.gpu, wanted.bytes - paged)
    node.sample(client, wanted.gpu)
    client.connection.send(AmountMessage(Type.RESTORE_BUDGET, 0, wanted.gpu, wanted.bytes).encode())


def _evict(node: Node, client: Client, wanted: do.Evict) -> None:
    node.timeline.evicting(client.number, wanted.gpu)
    client.connection.send(AmountMessage(Type.EVICT, 0, wanted.gpu, wanted.bytes).encode())


def _watch(node: Node, client: Client, wanted: do.SetIdleTimeout) -> None:
    del node
    idle_us = max(1, round(wanted.idle_s * 1e6)) if wanted.idle_s > 0 else 0
    client.connection.send(IdleTimeoutMessage(idle_us=idle_us).encode())


def _pace(node: Node, client: Client, wanted: do.SetQueueDepth) -> None:
    del node
    client.connection.send(QueueDepthMessage(queue_us=round(wanted.queue_s * 1e6)).encode())


def _allow(node: Node, client: Client, wanted: do.CreditGrant) -> None:
    del node
    told = CreditMessage(gpu=wanted.gpu, bytes=wanted.bytes, most_bytes=wanted.most_bytes)
    client.connection.send(told.encode())


def _recall(node: Node, client: Client, wanted: do.CreditRevoke) -> None:
    del node
    client.connection.send(AmountMessage(Type.CREDIT_REVOKE, 0, wanted.gpu).encode())


def _admitted(node: Node, client: Client, wanted: do.Admitted) -> None:
    serial, gpu = wanted.serial, wanted.gpu
    if not serial or client.attaching.pop(serial, None) is not None:
        node.timeline.joined(client.number, gpu)
        attach(node, client, serial, gpu)
        node.sample(client, gpu)
    elif client.allocating.pop(serial, None) is not None:
        client.connection.send(AmountMessage(Type.ALLOC_REPLY, serial, gpu).encode())
        if gpu not in client.allocating.values():
            node.timeline.grown(client.number, gpu)
        node.sample(client, gpu)


def attach(node: Node, client: Client, serial: int, gpu: int) -> None:
    """Tell a process how it may use a GPU."""
    client.limits[gpu] = node.limit_bytes(client, gpu)
    reply = AttachedMessage(
        serial=serial,
        gpu=gpu,
        limit_bytes=client.limits[gpu],
        chunk_bytes=node.gpus[gpu].budget.chunk_bytes,
    )
    client.connection.send(reply.encode())


def set_mode(client: Client, mode: Mode) -> None:
    """Tell a process how to allocate from now on, if it does not know."""
    if mode is not client.mode:
        client.mode = mode
        client.connection.send(ModeMessage(mode=MODES[mode]).encode())


def tell_limits(node: Node, client: Client) -> None:
    """Tell a process what it may allocate, where that is not what it was told."""
    for gpu, told in client.limits.items():
        limit = node.limit_bytes(client, gpu)
        if limit != told:
            client.limits[gpu] = limit
            client.connection.send(AmountMessage(Type.LIMIT, 0, gpu, limit).encode())


def _refused(node: Node, client: Client, wanted: do.Refused) -> None:
    if client.attaching.pop(wanted.serial, None) is not None:
        client.gpus.discard(wanted.gpu)
        node.gpus_changed(client)
    client.allocating.pop(wanted.serial, None)
    if wanted.gpu not in client.allocating.values():
        node.timeline.grown(client.number, wanted.gpu)
    code = CODES[wanted.code]
    client.connection.send(
        RefusedMessage(serial=wanted.serial, code=code, text=wanted.text).encode()
    )
    node.timeline.refused(client.number, wanted.gpu, wanted.text)
    if node.journal.often(client.number, "Refused", wanted.text, client, wanted.gpu):
        node.log.info("refused", client=str(client), code=wanted.code, text=wanted.text)


def _overdue(node: Node, client: Client, wanted: do.Overdue) -> None:
    node.timeline.overdue(client.number, wanted.waited_s)
    node.log.warning(
        "does not give the GPU back",
        client=str(client),
        waited_s=round(wanted.waited_s, 3),
        state=wanted.state,
        kill=wanted.kill,
    )
    waited = format_duration(max(0.1, round(wanted.waited_s, 1)))
    late = f"did not give the GPU back within {waited}"
    if wanted.state == "fenced":
        fence(node, client, fenced=True)
        node.journal.note("Fenced", f"{late}; others go on without what it has", client)
    else:
        node.journal.note("Overdue", late, client)
    if wanted.kill:
        node.journal.note("Killed", f"{late}, and the agent runs with --overdue kill", client)
        node.kernel.kill(client.pidfd)


def fence(node: Node, client: Client, *, fenced: bool) -> None:
    """Write down whether a process may have a lease: agents that follow keep to it."""
    if client.fenced != fenced:
        client.fenced = fenced
        node.gpus_changed(client)


def _look(node: Node, client: Client, wanted: do.CheckStopped) -> None:
    """What is found is an event of its own, after what else this one brought about."""
    del wanted
    node.loop.call_at(node.loop.time(), node.look, client)


_CARRY: dict[type, Callable[[Any, Any, Any], None]] = {
    do.Admitted: _admitted,
    do.Refused: _refused,
    do.RestoreBudget: _room,
    do.Grant: _grant,
    do.Revoke: _revoke,
    do.AllowOne: _step,
    do.Evict: _evict,
    do.SetIdleTimeout: _watch,
    do.SetQueueDepth: _pace,
    do.CreditGrant: _allow,
    do.CreditRevoke: _recall,
    do.Overdue: _overdue,
    do.CheckStopped: _look,
}
