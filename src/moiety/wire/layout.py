"""The numbers and layouts of `native/wire/wire.h`; made from it by tools/wire.py."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

MAGIC: Final = 0x5459494D
""""MIYT" as bytes on the wire"""
VERSION: Final = 1
VERSION_LEAST: Final = 1
"""the oldest that an agent serves: MW_VERSION - 1, but at least 1"""
NAME_BYTES: Final = 64
"""names are UTF-8, cut and padded with zeros"""
TEXT_BYTES: Final = 240
"""a sentence for a person"""
UUID_BYTES: Final = 16
"""of a GPU"""
TOKEN_BYTES: Final = 32
"""random; a client that knows a token may open the memory behind it"""
PIECES_MAX: Final = 8
"""pieces of exported memory, with their descriptors, in a message"""
GPUS_MAX: Final = 32
"""GPUs of one node that a client may attach"""
NO_GPU: Final = 0xFFFFFFFF
"""in place of a GPU's index"""
UNKNOWN_MAX: Final = 32
"""names of unknown entry points that a client reports"""
GPU_LIST_BYTES: Final = 512
"""MW_GPUS_MAX UUIDs of MW_UUID_BYTES each"""
SLOTS_MAX: Final = 1024
"""threads of one process inside the gate"""
LEASE_BYTES: Final = 4096
"""size of the lease page's memfd"""
LEASE_OPEN: Final = 1


class Type(IntEnum):
    """The type of a message; `enum mw_type`."""

    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    ATTACH = 4
    ATTACHED = 5
    CONTEXT = 6
    DETACH = 7
    ALLOC_REQUEST = 8
    ALLOC_REPLY = 9
    FREE = 10
    LEASE_REQUEST = 11
    RESTORE_BUDGET = 12
    RESTORED = 13
    GRANT = 14
    REVOKE = 15
    RESIDENT = 16
    DRAINED = 17
    EVICT = 18
    EVICTED = 19
    SET_IDLE_TIMEOUT = 20
    IDLE = 21
    PINNED = 22
    LIMIT_QUERY = 23
    SET_QUEUE_DEPTH = 24
    ARENA = 25
    ARENA_BACK = 26
    ARENA_NEED = 27
    BUSY = 28
    MODE = 29
    LIMIT = 30
    DRIVER_OOM = 31
    PIN_REQUEST = 34
    EXPORT = 35
    IMPORT = 36
    UNSHARE = 37
    ALLOW_ONE = 38
    SHARED = 39
    UNKNOWN = 40
    LIMIT_REPLY = 41
    CREDIT_GRANT = 42
    CREDIT_REVOKE = 43
    CREDIT_USED = 44
    CREDIT_RETURNED = 45
    PIN_REPLY = 46
    UNPIN = 47
    WARNING = 52
    TERMINAL_LINE = 55
    GPUS_QUERY = 56
    GPUS = 57
    CONTENT_QUERY = 60
    CONTENT_REPLY = 61


class WelcomeFlag(IntFlag):
    """`mw_welcome.flags`."""

    ARENA = 1
    """the agent prepares host memory: MW_ARENA_NEED asks for it"""
    ZERO_FILL = 2
    """new memory is set to zeros"""


class HelloFlag(IntFlag):
    """`mw_hello.flags`."""

    RESUMED = 1
    """the client had an agent before; MW_ATTACH brings its state"""
    HOLDING = 2
    """it holds a lease now: the word must be open in the new page"""
    PINNED = 4
    """it is pinned"""
    TALKS = 8
    """a person sits before it and wants to know why it stands still"""


class AllocFlag(IntFlag):
    """`mw_alloc.flags`."""

    PINNED = 1
    """these bytes can never leave: residue"""
    MANAGED = 2
    """the driver pages them: none is resident without a lease"""


class FreeFlag(IntFlag):
    """`mw_free.flags`."""

    TO_CREDIT = 4
    """MW_FREE: the bytes return to the credit; all were resident"""
    DAMAGED = 8
    """MW_FREE: they were damaged in host memory, and are lost"""


class ShareFlag(IntFlag):
    """`mw_share.flags`."""

    ASKED = 1
    """the sender wants what is behind the token"""
    HELD = 2
    """the sender has it open"""
    GONE = 4
    """MW_UNSHARE: the exporter has also given the memory back"""


class EvictedFlag(IntFlag):
    """`mw_evicted.flags`."""

    LAST = 1
    """the order is carried out as far as it can be"""
    FAILED = 2
    """host memory or the driver refused: fewer bytes than ordered"""


class SharedFlag(IntFlag):
    """`mw_shared.flags`."""

    EXPORTED = 1
    """other processes may use memory of this one"""
    IMPORTED = 2
    """this process uses memory of others"""


class Refusal(IntEnum):
    """Why a request is refused; `enum mw_refusal`."""

    VERSION = 1
    """the other side speaks another version"""
    PROTOCOL = 2
    """the message makes no sense here"""
    LIMIT = 3
    """above the tenant's memory limit"""
    CAPACITY = 4
    """neither the GPU nor host memory can hold it"""
    GPU = 5
    """there is no such GPU here, or not for this workload"""
    STOPPING = 6
    """the agent shuts down"""
    FULL = 7
    """this user has, or sends, as much as one user may"""


class MemoryMode(IntEnum):
    """How a process allocates memory; `enum mw_memory_mode`."""

    SWAP = 0
    """in chunks that the shim moves"""
    MANAGED = 1
    """as managed memory, which the driver pages on faults"""


Layout = tuple[tuple[str, str], ...]

HEADER: Final = ("header", "HHI")

LAYOUTS: Final[dict[str, Layout]] = {
    "mw_header": (
        ("type", "H"),
        ("bytes", "H"),
        ("serial", "I"),
    ),
    "mw_hello": (
        HEADER,
        ("magic", "I"),
        ("version", "H"),
        ("flags", "H"),
        ("pid", "I"),
        ("epoch", "I"),
        ("program", f"{NAME_BYTES}s"),
    ),
    "mw_welcome": (
        HEADER,
        ("version", "I"),
        ("tenant", "I"),
        ("epoch", "I"),
        ("mode", "I"),
        ("flags", "I"),
    ),
    "mw_refused": (
        HEADER,
        ("code", "I"),
        ("version", "I"),
        ("text", f"{TEXT_BYTES}s"),
    ),
    "mw_attach": (
        HEADER,
        ("uuid", f"{UUID_BYTES}s"),
        ("total_bytes", "Q"),
        ("allocated_bytes", "Q"),
        ("resident_bytes", "Q"),
        ("pinned_bytes", "Q"),
        ("managed_bytes", "Q"),
    ),
    "mw_attached": (
        HEADER,
        ("gpu", "I"),
        ("together", "I"),
        ("limit_bytes", "Q"),
        ("chunk_bytes", "Q"),
        ("others_bytes", "Q"),
    ),
    "mw_limit_reply": (
        HEADER,
        ("gpu", "I"),
        ("reserved", "4x"),
        ("limit_bytes", "Q"),
        ("used_bytes", "Q"),
    ),
    "mw_amount": (
        HEADER,
        ("gpu", "I"),
        ("reserved", "4x"),
        ("bytes", "Q"),
    ),
    "mw_alloc": (
        HEADER,
        ("gpu", "I"),
        ("flags", "I"),
        ("bytes", "Q"),
    ),
    "mw_free": (
        HEADER,
        ("gpu", "I"),
        ("flags", "I"),
        ("bytes", "Q"),
        ("resident_bytes", "Q"),
    ),
    "mw_credit": (
        HEADER,
        ("gpu", "I"),
        ("reserved", "4x"),
        ("bytes", "Q"),
        ("most_bytes", "Q"),
    ),
    "mw_evicted": (
        HEADER,
        ("gpu", "I"),
        ("flags", "I"),
        ("bytes", "Q"),
        ("resident_bytes", "Q"),
    ),
    "mw_lease_note": (
        HEADER,
        ("epoch", "I"),
        ("reserved", "4x"),
    ),
    "mw_drained": (
        HEADER,
        ("epoch", "I"),
        ("gpu", "I"),
        ("resident_bytes", "Q"),
    ),
    "mw_idle_timeout": (
        HEADER,
        ("idle_us", "Q"),
    ),
    "mw_queue_depth": (
        HEADER,
        ("queue_us", "Q"),
    ),
    "mw_pinned": (
        HEADER,
        ("reason", f"{NAME_BYTES}s"),
    ),
    "mw_pin": (
        HEADER,
        ("gpu", "I"),
        ("reserved", "4x"),
        ("bytes", "Q"),
        ("call", f"{NAME_BYTES}s"),
    ),
    "mw_terminal_line": (
        HEADER,
        ("text", f"{TEXT_BYTES}s"),
    ),
    "mw_unknown": (
        HEADER,
        ("calls", "Q"),
        ("name", f"{NAME_BYTES}s"),
    ),
    "mw_mode": (
        HEADER,
        ("mode", "I"),
        ("reserved", "4x"),
    ),
    "mw_shared": (
        HEADER,
        ("flags", "I"),
        ("reserved", "4x"),
    ),
    "mw_warning": (
        HEADER,
        ("text", f"{TEXT_BYTES}s"),
    ),
    "mw_share": (
        HEADER,
        ("token", f"{TOKEN_BYTES}s"),
        ("gpu", "I"),
        ("flags", "I"),
        ("bytes", "Q"),
        ("piece_bytes", "Q"),
        ("offset", "Q"),
        ("first", "I"),
        ("pieces", "I"),
    ),
    "mw_gpus_query": (
        HEADER,
        ("reserved", "8x"),
    ),
    "mw_gpus": (
        HEADER,
        ("count", "I"),
        ("mig", "I"),
        ("uuids", f"{GPU_LIST_BYTES}s"),
    ),
    "mw_arena": (
        HEADER,
        ("segment", "Q"),
        ("bytes", "Q"),
    ),
    "mw_content": (
        HEADER,
        ("gpu", "I"),
        ("reserved", "4x"),
        ("zero_bytes", "Q"),
        ("host_bytes", "Q"),
    ),
    "mw_lease": (
        ("word", "I"),
        ("reserved", "4x"),
    ),
    "mw_slot": (
        ("depth", "I"),
        ("blocked", "I"),
        ("passes", "Q"),
        ("tid", "I"),
        ("reserved", "44x"),
    ),
    "mw_counters": (
        ("handoffs", "Q"),
        ("drained_ns", "Q"),
        ("evicted_bytes", "Q"),
        ("evicted_ns", "Q"),
        ("restored_bytes", "Q"),
        ("restored_ns", "Q"),
        ("waited_ns", "Q"),
        ("unknown_calls", "Q"),
        ("closed_passes", "Q"),
        ("zero_bytes", "Q"),
        ("host_bytes", "Q"),
        ("host_counted", "Q"),
        ("reserved", "32x"),
        ("slots", "65536x"),
    ),
}
