"""The messages as frozen values, each of which knows its bytes.

One class stands for one struct of `native/wire/wire.h`; where several messages share a struct,
`type` tells them apart. `serial` is that of the request a reply belongs to, or 0.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar, Final, Self

import msgspec

from moiety.model.errors import ProtocolError
from moiety.wire.layout import (
    COUNTERS_BYTES,
    MAGIC,
    NO_GPU,
    TOKEN_BYTES,
    VERSION,
    Type,
    offsets,
    packer,
)


class OtherVersion(ProtocolError):
    """The packet is a greeting in another version of the protocol."""

    def __init__(self, version: int) -> None:
        super().__init__(f"the other side speaks protocol version {version}, this one {VERSION}")
        self.version = version


class Message(msgspec.Struct, frozen=True):
    """What every message has: its type and its serial."""

    type: int
    serial: int = 0

    LAYOUT: ClassVar[str]
    TYPES: ClassVar[tuple[Type, ...]]
    TEXT_BYTES: ClassVar[int] = 0
    """how long the last field is, if that is text"""

    def encode(self) -> bytes:
        """The packet to send; text that is too long is cut between two characters."""
        kind, serial, *rest = msgspec.structs.astuple(self)
        if self.TEXT_BYTES:
            rest[-1] = cut(rest[-1], self.TEXT_BYTES)
        packed: struct.Struct = PACKERS[self.LAYOUT]
        try:
            return packed.pack(kind, packed.size, serial, *rest)
        except struct.error as error:
            raise ProtocolError(f"{self!r} does not fit its fields: {error}") from None

    @classmethod
    def unpacked(cls, fields: tuple[Any, ...]) -> Self:
        """The message whose struct holds these fields."""
        kind, _, serial, *rest = fields
        if cls.TEXT_BYTES:
            rest[-1] = rest[-1].split(b"\0", 1)[0].decode("utf-8", "replace")
        return cls(kind, serial, *rest)


def cut(text: str, limit: int) -> bytes:
    """As much of `text` as fits into `limit` bytes of UTF-8, up to the first NUL."""
    encoded = text.split("\0", 1)[0].encode("utf-8", "replace")
    return encoded[:limit].decode("utf-8", "ignore").encode() if len(encoded) > limit else encoded


class HelloMessage(Message, frozen=True):
    """A process introduces itself (carries the counters' memfd)."""

    LAYOUT = "mw_hello"
    TYPES = (Type.HELLO,)
    TEXT_BYTES = 64

    type: int = Type.HELLO
    serial: int = 0
    magic: int = MAGIC
    version: int = VERSION
    flags: int = 0
    pid: int = 0
    epoch: int = 0
    program: str = ""


class WelcomeMessage(Message, frozen=True):
    """The agent's answer (carries the lease page's memfd)."""

    LAYOUT = "mw_welcome"
    TYPES = (Type.WELCOME,)

    type: int = Type.WELCOME
    serial: int = 0
    version: int = VERSION
    tenant: int = 0
    epoch: int = 0
    mode: int = 0
    flags: int = 0


class RefusedMessage(Message, frozen=True):
    """No, and why."""

    LAYOUT = "mw_refused"
    TYPES = (Type.REFUSED,)
    TEXT_BYTES = 240

    type: int = Type.REFUSED
    serial: int = 0
    code: int = 0
    version: int = VERSION
    text: str = ""


class AttachMessage(Message, frozen=True):
    """A process is about to create its first context on a GPU, or (LOOKUP) asks for its limit."""

    LAYOUT = "mw_attach"
    TYPES = (Type.ATTACH, Type.LIMIT_QUERY)

    type: int = Type.ATTACH
    serial: int = 0
    uuid: bytes = bytes(16)
    total_bytes: int = 0
    allocated_bytes: int = 0
    resident_bytes: int = 0
    pinned_bytes: int = 0
    managed_bytes: int = 0


class AttachedMessage(Message, frozen=True):
    """There is room for the context."""

    LAYOUT = "mw_attached"
    TYPES = (Type.ATTACHED,)

    type: int = Type.ATTACHED
    serial: int = 0
    gpu: int = 0
    limit_bytes: int = 0
    chunk_bytes: int = 0


class AmountMessage(Message, frozen=True):
    """So many bytes on one GPU; what about them is the type's."""

    LAYOUT = "mw_amount"
    TYPES = (
        Type.CONTEXT,
        Type.DETACH,
        Type.RESTORE_BUDGET,
        Type.RESIDENT,
        Type.EVICT,
        Type.ALLOC_REPLY,
        Type.LIMIT,
        Type.PIN_BYTES,
        Type.CREDIT_REVOKE,
        Type.CREDIT_RETURNED,
    )

    gpu: int = 0
    bytes: int = 0


class AllocMessage(Message, frozen=True):
    """May so many bytes more be allocated? With DRIVER_OOM: the driver itself lacks them."""

    LAYOUT = "mw_alloc"
    TYPES = (Type.ALLOC_REQUEST, Type.DRIVER_OOM)

    type: int = Type.ALLOC_REQUEST
    serial: int = 0
    gpu: int = 0
    flags: int = 0
    bytes: int = 0


class FreeMessage(Message, frozen=True):
    """Bytes were freed, or (CREDIT_USED) allocated from the allowance."""

    LAYOUT = "mw_free"
    TYPES = (Type.FREE, Type.CREDIT_USED)

    type: int = Type.FREE
    serial: int = 0
    gpu: int = 0
    flags: int = 0
    bytes: int = 0
    resident_bytes: int = 0


class CreditMessage(Message, frozen=True):
    """So many bytes more may be allocated without asking."""

    LAYOUT = "mw_credit"
    TYPES = (Type.CREDIT_GRANT,)

    type: int = Type.CREDIT_GRANT
    serial: int = 0
    gpu: int = 0
    bytes: int = 0
    most_bytes: int = 0


class EvictedMessage(Message, frozen=True):
    """Bytes were moved out."""

    LAYOUT = "mw_evicted"
    TYPES = (Type.EVICTED,)

    type: int = Type.EVICTED
    serial: int = 0
    gpu: int = 0
    flags: int = 0
    bytes: int = 0
    resident_bytes: int = 0


class LeaseNoteMessage(Message, frozen=True):
    """Something about the lease with this epoch; what, is the type's."""

    LAYOUT = "mw_lease_note"
    TYPES = (
        Type.LEASE_REQUEST,
        Type.RESTORED,
        Type.GRANT,
        Type.REVOKE,
        Type.IDLE,
        Type.BUSY,
        Type.ALLOW_ONE,
    )

    epoch: int = 0


class LimitReplyMessage(Message, frozen=True):
    """What a workload may have on a GPU and what its processes allocated there."""

    LAYOUT = "mw_limit_reply"
    TYPES = (Type.LIMIT_REPLY,)

    type: int = Type.LIMIT_REPLY
    serial: int = 0
    gpu: int = 0
    limit_bytes: int = 0
    used_bytes: int = 0


class TerminalLineMessage(Message, frozen=True):
    """A line for whoever sits before a program."""

    LAYOUT = "mw_terminal_line"
    TYPES = (Type.TERMINAL_LINE,)
    TEXT_BYTES = 240

    type: int = Type.TERMINAL_LINE
    serial: int = 0
    text: str = ""


class DrainedMessage(Message, frozen=True):
    """Nothing of the process runs any more; so much of it is resident on the last of its GPUs."""

    LAYOUT = "mw_drained"
    TYPES = (Type.DRAINED,)

    type: int = Type.DRAINED
    serial: int = 0
    epoch: int = 0
    gpu: int = NO_GPU
    resident_bytes: int = 0


class IdleTimeoutMessage(Message, frozen=True):
    """Tell when nothing was submitted for so long; 0 ends it."""

    LAYOUT = "mw_idle_timeout"
    TYPES = (Type.SET_IDLE_TIMEOUT,)

    type: int = Type.SET_IDLE_TIMEOUT
    serial: int = 0
    idle_us: int = 0


class QueueDepthMessage(Message, frozen=True):
    """Keep no more than so much unfinished work submitted; 0: as much as the program likes."""

    LAYOUT = "mw_queue_depth"
    TYPES = (Type.SET_QUEUE_DEPTH,)

    type: int = Type.SET_QUEUE_DEPTH
    serial: int = 0
    queue_us: int = 0


class ArenaMessage(Message, frozen=True):
    """Something about a segment of host memory; what, is the type's."""

    LAYOUT = "mw_arena"
    TYPES = (Type.ARENA, Type.ARENA_BACK, Type.ARENA_NEED)

    segment: int = 0
    bytes: int = 0


class PinnedMessage(Message, frozen=True):
    """Nothing of this process can leave any more."""

    LAYOUT = "mw_pinned"
    TYPES = (Type.PINNED,)
    TEXT_BYTES = 64

    type: int = Type.PINNED
    serial: int = 0
    reason: str = ""


class SharedMessage(Message, frozen=True):
    """Other processes may use memory of this one, or this one uses theirs."""

    LAYOUT = "mw_shared"
    TYPES = (Type.SHARED,)

    type: int = Type.SHARED
    serial: int = 0
    flags: int = 0


class ShareMessage(Message, frozen=True):
    """Something about memory that one process exports and others open; what, is the type's.

    An IMPORT with pieces brings their descriptors, in order.
    """

    LAYOUT = "mw_share"
    TYPES = (Type.EXPORT, Type.IMPORT, Type.UNSHARE)

    token: bytes = bytes(TOKEN_BYTES)
    gpu: int = 0
    flags: int = 0
    bytes: int = 0
    piece_bytes: int = 0
    offset: int = 0
    first: int = 0
    pieces: int = 0


class UnknownMessage(Message, frozen=True):
    """Something of the driver was used that the shim does not know, so often until now."""

    LAYOUT = "mw_unknown"
    TYPES = (Type.UNKNOWN,)
    TEXT_BYTES = 64

    type: int = Type.UNKNOWN
    serial: int = 0
    calls: int = 0
    name: str = ""


class ModeMessage(Message, frozen=True):
    """How memory is allocated from now on."""

    LAYOUT = "mw_mode"
    TYPES = (Type.MODE,)

    type: int = Type.MODE
    serial: int = 0
    mode: int = 0


class WarningMessage(Message, frozen=True):
    """A sentence for the person in front of the program, who reads its stderr."""

    LAYOUT = "mw_warning"
    TYPES = (Type.WARNING,)
    TEXT_BYTES = 240

    type: int = Type.WARNING
    serial: int = 0
    text: str = ""


MESSAGES: Final[tuple[type[Message], ...]] = (
    HelloMessage,
    WelcomeMessage,
    RefusedMessage,
    AttachMessage,
    AttachedMessage,
    AmountMessage,
    AllocMessage,
    FreeMessage,
    CreditMessage,
    EvictedMessage,
    LeaseNoteMessage,
    LimitReplyMessage,
    TerminalLineMessage,
    DrainedMessage,
    IdleTimeoutMessage,
    QueueDepthMessage,
    ArenaMessage,
    PinnedMessage,
    SharedMessage,
    UnknownMessage,
    ModeMessage,
    WarningMessage,
    ShareMessage,
)
PACKERS: Final = {cls.LAYOUT: packer(cls.LAYOUT) for cls in MESSAGES}
_READERS: Final = {int(kind): (PACKERS[cls.LAYOUT], cls) for cls in MESSAGES for kind in cls.TYPES}
_HEADER: Final = packer("mw_header")
_GREETING: Final = struct.Struct("<IH")
_GREETING_AT: Final = offsets("mw_hello")["magic"]


_LEASE_NOTE: Final = PACKERS[LeaseNoteMessage.LAYOUT]


def lease_note(kind: int, epoch: int) -> bytes:
    """The packet of a `LeaseNote`, quickly: somebody waits for it."""
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
    if version != VERSION:
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
_COUNTERS_HEAD: Final = struct.Struct("<10Q")


def decode_counters(page: bytes) -> Counters:
    """The totals at the start of a counters page (all of it, or its first bytes)."""
    if len(page) < _COUNTERS_HEAD.size:
        raise ProtocolError(
            f"a counters page of {len(page)} bytes is cut short of {COUNTERS_BYTES}"
        )
    return Counters(*_COUNTERS_HEAD.unpack_from(page))
