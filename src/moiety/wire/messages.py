"""The messages as frozen values; made from `native/wire/wire.h` by tools/wire.py.

One class stands for one struct. Where several types share a struct, `type` tells them
apart. `serial` is that of the request that a reply answers, or 0.
"""

from __future__ import annotations

from typing import Final

from moiety.wire.layout import (
    GPU_LIST_BYTES,
    MAGIC,
    NAME_BYTES,
    NO_GPU,
    TEXT_BYTES,
    TOKEN_BYTES,
    UUID_BYTES,
    VERSION,
    Type,
)
from moiety.wire.message import Message


class HelloMessage(Message, frozen=True):
    """A process introduces itself, and carries the memfd of its counters."""

    LAYOUT = "mw_hello"
    TYPES = (Type.HELLO,)
    TEXT_LIMIT = NAME_BYTES
    type: int = Type.HELLO
    serial: int = 0
    magic: int = MAGIC
    version: int = VERSION
    flags: int = 0
    pid: int = 0
    epoch: int = 0
    program: str = ""


class WelcomeMessage(Message, frozen=True):
    """The agent answers, and carries the memfd of the lease page."""

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
    """A request is refused, and why."""

    LAYOUT = "mw_refused"
    TYPES = (Type.REFUSED,)
    TEXT_LIMIT = TEXT_BYTES
    type: int = Type.REFUSED
    serial: int = 0
    code: int = 0
    version: int = VERSION
    text: str = ""


class AttachMessage(Message, frozen=True):
    """A process is about to create its first context on a GPU, or asks for its limit there."""

    LAYOUT = "mw_attach"
    TYPES = (Type.ATTACH, Type.LIMIT_QUERY)
    type: int = Type.ATTACH
    serial: int = 0
    uuid: bytes = bytes(UUID_BYTES)
    total_bytes: int = 0
    allocated_bytes: int = 0
    resident_bytes: int = 0
    pinned_bytes: int = 0
    managed_bytes: int = 0


class AttachedMessage(Message, frozen=True):
    """There is memory for the context."""

    LAYOUT = "mw_attached"
    TYPES = (Type.ATTACHED,)
    type: int = Type.ATTACHED
    serial: int = 0
    gpu: int = 0
    together: int = 0
    limit_bytes: int = 0
    chunk_bytes: int = 0
    others_bytes: int = 0


class LimitReplyMessage(Message, frozen=True):
    """The limit of a workload on a GPU, and what all of its processes allocated there."""

    LAYOUT = "mw_limit_reply"
    TYPES = (Type.LIMIT_REPLY,)
    type: int = Type.LIMIT_REPLY
    serial: int = 0
    gpu: int = 0
    limit_bytes: int = 0
    used_bytes: int = 0


class AmountMessage(Message, frozen=True):
    """A number of bytes on one GPU; the type says which bytes."""

    LAYOUT = "mw_amount"
    TYPES = (
        Type.CONTEXT,
        Type.DETACH,
        Type.ALLOC_REPLY,
        Type.RESTORE_BUDGET,
        Type.RESIDENT,
        Type.EVICT,
        Type.LIMIT,
        Type.CREDIT_REVOKE,
        Type.CREDIT_RETURNED,
        Type.PIN_REPLY,
        Type.UNPIN,
        Type.CONTENT_QUERY,
    )
    gpu: int = 0
    bytes: int = 0


class AllocMessage(Message, frozen=True):
    """More bytes are wanted: by the program, or (MW_DRIVER_OOM) by the driver itself."""

    LAYOUT = "mw_alloc"
    TYPES = (Type.ALLOC_REQUEST, Type.DRIVER_OOM)
    type: int = Type.ALLOC_REQUEST
    serial: int = 0
    gpu: int = 0
    flags: int = 0
    bytes: int = 0


class FreeMessage(Message, frozen=True):
    """Bytes were freed, or (MW_CREDIT_USED) allocated from the credit."""

    LAYOUT = "mw_free"
    TYPES = (Type.FREE, Type.CREDIT_USED)
    type: int = Type.FREE
    serial: int = 0
    gpu: int = 0
    flags: int = 0
    bytes: int = 0
    resident_bytes: int = 0


class CreditMessage(Message, frozen=True):
    """This many more bytes may be allocated without a request.

    A credit counts as allocated and resident while it lasts. It ends when it was not used for a
    moment, and before MW_DRAINED.
    """

    LAYOUT = "mw_credit"
    TYPES = (Type.CREDIT_GRANT,)
    type: int = Type.CREDIT_GRANT
    serial: int = 0
    gpu: int = 0
    bytes: int = 0
    most_bytes: int = 0


class EvictedMessage(Message, frozen=True):
    """Bytes were evicted to host memory."""

    LAYOUT = "mw_evicted"
    TYPES = (Type.EVICTED,)
    type: int = Type.EVICTED
    serial: int = 0
    gpu: int = 0
    flags: int = 0
    bytes: int = 0
    resident_bytes: int = 0


class LeaseNoteMessage(Message, frozen=True):
    """A note about the lease with this epoch; the type says which."""

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


class DrainedMessage(Message, frozen=True):
    """No work of the process runs any more.

    It carries the last GPU's resident bytes: a successor waits for one message.
    """

    LAYOUT = "mw_drained"
    TYPES = (Type.DRAINED,)
    type: int = Type.DRAINED
    serial: int = 0
    epoch: int = 0
    gpu: int = NO_GPU
    resident_bytes: int = 0


class IdleTimeoutMessage(Message, frozen=True):
    """Report when nothing was submitted for this long; 0 ends it."""

    LAYOUT = "mw_idle_timeout"
    TYPES = (Type.SET_IDLE_TIMEOUT,)
    type: int = Type.SET_IDLE_TIMEOUT
    serial: int = 0
    idle_us: int = 0


class QueueDepthMessage(Message, frozen=True):
    """Keep at most this much unfinished work submitted; 0: any amount, as a new connection has."""

    LAYOUT = "mw_queue_depth"
    TYPES = (Type.SET_QUEUE_DEPTH,)
    type: int = Type.SET_QUEUE_DEPTH
    serial: int = 0
    queue_us: int = 0


class PinnedMessage(Message, frozen=True):
    """No byte of this process can leave any more."""

    LAYOUT = "mw_pinned"
    TYPES = (Type.PINNED,)
    TEXT_LIMIT = NAME_BYTES
    type: int = Type.PINNED
    serial: int = 0
    reason: str = ""


class PinMessage(Message, frozen=True):
    """Bytes are to stay on the GPU, because others than this process will use them."""

    LAYOUT = "mw_pin"
    TYPES = (Type.PIN_REQUEST,)
    TEXT_LIMIT = NAME_BYTES
    type: int = Type.PIN_REQUEST
    serial: int = 0
    gpu: int = NO_GPU
    bytes: int = NO_GPU
    call: str = ""


class TerminalLineMessage(Message, frozen=True):
    """A line for the terminal of a program; only for clients that said MW_HELLO_TALKS."""

    LAYOUT = "mw_terminal_line"
    TYPES = (Type.TERMINAL_LINE,)
    TEXT_LIMIT = TEXT_BYTES
    type: int = Type.TERMINAL_LINE
    serial: int = 0
    text: str = ""


class UnknownMessage(Message, frozen=True):
    """The program used an entry point that the shim does not know, twice as often as last."""

    LAYOUT = "mw_unknown"
    TYPES = (Type.UNKNOWN,)
    TEXT_LIMIT = NAME_BYTES
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


class SharedMessage(Message, frozen=True):
    """Other processes may use memory of this one, or this one uses theirs."""

    LAYOUT = "mw_shared"
    TYPES = (Type.SHARED,)
    type: int = Type.SHARED
    serial: int = 0
    flags: int = 0


class WarningMessage(Message, frozen=True):
    """A sentence for the person who reads the stderr of the program."""

    LAYOUT = "mw_warning"
    TYPES = (Type.WARNING,)
    TEXT_LIMIT = TEXT_BYTES
    type: int = Type.WARNING
    serial: int = 0
    text: str = ""


class ShareMessage(Message, frozen=True):
    """Memory that one client exports and others open, as legacy CUDA IPC does; the type says which.

    It comes in pieces of one size (the last may be smaller), each with a descriptor, several in one
    message.
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


class GpusQueryMessage(Message, frozen=True):
    """Which GPUs is the workload of this connection a share of?"""

    LAYOUT = "mw_gpus_query"
    TYPES = (Type.GPUS_QUERY,)
    type: int = Type.GPUS_QUERY
    serial: int = 0


class GpusMessage(Message, frozen=True):
    """The GPUs that a workload is a share of, in the order of their PCI addresses.

    The client hides all others from its program, which numbers these from 0.
    """

    LAYOUT = "mw_gpus"
    TYPES = (Type.GPUS,)
    type: int = Type.GPUS
    serial: int = 0
    count: int = 0
    mig: int = 0
    uuids: bytes = bytes(GPU_LIST_BYTES)


class ArenaMessage(Message, frozen=True):
    """A note about a segment of host memory; the type says which.

    A segment belongs to one client at a time, comes with its pages present and zero, and keeps its
    number while its agent lives.
    """

    LAYOUT = "mw_arena"
    TYPES = (Type.ARENA, Type.ARENA_BACK, Type.ARENA_NEED)
    type: int = Type.ARENA
    serial: int = 0
    segment: int = 0
    bytes: int = 0


class ContentMessage(Message, frozen=True):
    """What the bytes of a process on a GPU are.

    They do not change until its next lease, but for what it frees.
    """

    LAYOUT = "mw_content"
    TYPES = (Type.CONTENT_REPLY,)
    type: int = Type.CONTENT_REPLY
    serial: int = 0
    gpu: int = 0
    zero_bytes: int = 0
    host_bytes: int = 0


MESSAGES: Final = tuple(Message.__subclasses__())
