"""What a message of a process must keep to, beyond its layout."""

from __future__ import annotations

from moiety.agent.core.client import REQUESTS_MAX, Client
from moiety.arbiter import events as ev
from moiety.model.errors import ProtocolError
from moiety.wire.layout import NO_GPU


def not_in_share(client: Client, uuid: bytes, gpu: int) -> str:
    """Return why a GPU is not one of the process' share; empty if it is."""
    if not client.may_use or uuid in client.may_use or gpu in client.unspoken:
        return ""
    return f"its share is not of GPU {gpu}"


def pinned_gpu(gpu: int) -> int:
    """A GPU of a message about pins, as events name it."""
    return ev.EVERY_GPU if gpu == NO_GPU else gpu


def must_be_attached(client: Client, gpu: int) -> None:
    """Raise ProtocolError unless the process uses the GPU."""
    if gpu not in client.gpus:
        raise ProtocolError(f"GPU {gpu} is not attached")


def must_be_new(client: Client, serial: int) -> None:
    """Raise ProtocolError if a request has no serial of its own, or too many wait."""
    if not serial:
        raise ProtocolError("a request needs a serial")
    if serial in client.attaching or serial in client.allocating or serial in client.pinning:
        raise ProtocolError(f"request {serial} is not answered yet")
    if len(client.attaching) + len(client.allocating) + len(client.pinning) >= REQUESTS_MAX:
        raise ProtocolError(f"more than {REQUESTS_MAX} requests wait for an answer")
