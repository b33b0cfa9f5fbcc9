"""Packets into messages, and the pages that a process and the agent share into numbers."""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from moiety.model.errors import ProtocolError
from moiety.wire.layout import MAGIC, VERSION, VERSION_LEAST, Type
from moiety.wire.message import Message
from moiety.wire.messages import MESSAGES, LeaseNoteMessage
from moiety.wire.structs import COUNTERS_BYTES, offsets, packer


class OtherVersion(ProtocolError):
    """The packet is a greeting in a version of the protocol that is not served."""

    def __init__(self, version: int) -> None:
        own = f"{VERSION_LEAST} to {VERSION}" if VERSION_LEAST < VERSION else f"{VERSION}"
        super().__init__(f"the other side speaks protocol version {version}, this one {own}")
        self.version = version


PACKERS: Final = {cls.LAYOUT: packer(cls.LAYOUT) for cls in MESSAGES}
_READERS: Final = {int(kind): (PACKERS[cls.LAYOUT], cls) for cls in MESSAGES for kind in cls.TYPES}
_HEADER: Final = packer("mw_header")
_GREETING: Final = struct.Struct("<IH")
_GREETING_AT: Final = offsets("mw_hello")["magic"]


_LEASE_NOTE: Final = PACKERS[LeaseNoteMessage.LAYOUT]


def lease_note(kind: int, epoch: int) -> bytes:
    """The packet of a `LeaseNoteMessage`, packed quickly: a tenant waits for it."""
    return _LEASE_NOTE.pack(kind, _LEASE_NOTE.size, 0, epoch)


def decode(packet: bytes) -> Message:
    """The message in one packet; raises ProtocolError for anything else."""
    if len(packet) < _HEADER.size:
        raise ProtocolError(f"a packet of {len(packet)} bytes is shorter than a header")
    kind, size, _ = _HEADER.unpack_from(packet)
    reader = _READERS.get(kind)
    if reader is None:
        raise ProtocolError(f"there is no message of type {kind}")
    if kind == Type.HELLO:
        _check_version(packet)
    packed, cls = reader
    if size != len(packet) or size != packed.size:
        raise ProtocolError(
            f"{Type(kind).name} takes {packed.size} bytes; it says {size} and has {len(packet)}"
        )
    return cls.unpacked(packed.unpack(packet))


def _check_version(packet: bytes) -> None:
    """A greeting keeps its start in every version: look there before the size."""
    if len(packet) < _GREETING_AT + _GREETING.size:
        raise ProtocolError(f"a greeting of {len(packet)} bytes has no version in it")
    magic, version = _GREETING.unpack_from(packet, _GREETING_AT)
    if magic != MAGIC:
        raise ProtocolError(f"a greeting has {MAGIC:#x} in it, not {magic:#x}: this is no shim")
    if not VERSION_LEAST <= version <= VERSION:
        raise OtherVersion(version)


class Counters(msgspec.Struct, frozen=True):
    """What a process counted about itself since it started."""

    handoffs: int = 0
    drained_ns: int = 0
    evicted_bytes: int = 0
    evicted_ns: int = 0
    restored_bytes: int = 0
    restored_ns: int = 0
    waited_ns: int = 0
    unknown_calls: int = 0
    closed_passes: int = 0
    zero_bytes: int = 0
    host_bytes: int = 0
    host_counted: int = 0


_WORK: Final = struct.Struct("<8xQ8xQ8xQ")
WORK_BYTES: Final = _WORK.size


def decode_work(page: bytes) -> tuple[int, int, int]:
    """Nanoseconds spent in draining, evicting and restoring so far; zeros for a page cut short.

    The few fields of a counters page that are wanted at each hand-off.
    """
    drained_ns, evicted_ns, restored_ns = (
        _WORK.unpack(page) if len(page) == _WORK.size else (0,) * 3
    )
    return drained_ns, evicted_ns, restored_ns


_COUNTERS: Final = packer("mw_counters")
_COUNTERS_HEAD: Final = struct.Struct("<12Q")


def decode_counters(page: bytes) -> Counters:
    """The totals at the start of a counters page (all of it, or its first bytes)."""
    if len(page) < _COUNTERS_HEAD.size:
        raise ProtocolError(
            f"a counters page of {len(page)} bytes is cut short of {COUNTERS_BYTES}"
        )
    return Counters(*_COUNTERS_HEAD.unpack_from(page))
