"""Where every field of `native/wire/wire.h` lies, as tables that the tests hold against a compiler.

A layout lists (field, code) in the header's order; the codes are those of `struct`, and `x`
pads out the bytes that are reserved. Everything is little endian and naturally aligned.
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag
from typing import Final

MAGIC: Final = 0x5459494D
VERSION: Final = 1
NAME_BYTES: Final = 64
TEXT_BYTES: Final = 240
UUID_BYTES: Final = 16
TOKEN_BYTES: Final = 32
PIECES_MAX: Final = 8
GPUS_MAX: Final = 32
NO_GPU: Final = 0xFFFFFFFF
SLOTS_MAX: Final = 1024
UNKNOWN_MAX: Final = 32
LEASE_BYTES: Final = 4096
LEASE_OPEN: Final = 1


class Type(IntEnum):
    """What a packet is; `enum mw_type`."""

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
    PIN_BYTES = 34
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
    WARNING = 52
    TERMINAL_LINE = 55


class WelcomeFlag(IntFlag):
    """`mw_welcome.flags`."""

    ARENA = 1


class HelloFlag(IntFlag):
    """`mw_hello.flags`."""

    RESUMED = 1
    HOLDING = 2
    PINNED = 4
    TALKS = 8


class AllocFlag(IntFlag):
    """`mw_alloc.flags` and `mw_free.flags`."""

    PINNED = 1
    MANAGED = 2


class FreeFlag(IntFlag):
    """`mw_free.flags`, besides those of `AllocFlag`."""

    TO_CREDIT = 4


class SharedFlag(IntFlag):
    """`mw_shared.flags`."""

    EXPORTED = 1
    IMPORTED = 2


class ShareFlag(IntFlag):
    """`mw_share.flags`."""

    ASKED = 1
    HELD = 2
    GONE = 4


class MemoryMode(IntEnum):
    """How a process allocates; `enum mw_memory_mode`."""

    SWAP = 0
    MANAGED = 1


class EvictedFlag(IntFlag):
    """`mw_evicted.flags`."""

    LAST = 1
    FAILED = 2


class Refusal(IntEnum):
    """Why a request was refused; `enum mw_refusal`."""

    VERSION = 1
    PROTOCOL = 2
    LIMIT = 3
    CAPACITY = 4
    GPU = 5
    STOPPING = 6
    FULL = 7


Layout = tuple[tuple[str, str], ...]

HEADER: Final = ("header", "HHI")

LAYOUTS: Final[dict[str, Layout]] = {
    "mw_header": (("type", "H"), ("bytes", "H"), ("serial", "I")),
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
    "mw_refused": (HEADER, ("code", "I"), ("version", "I"), ("text", f"{TEXT_BYTES}s")),
    "mw_terminal_line": (HEADER, ("text", f"{TEXT_BYTES}s")),
    "mw_attach": (
        HEADER,
        ("uuid", f"{UUID_BYTES}s"),
        ("total_bytes", "Q"),
        ("allocated_bytes", "Q"),
        ("resident_bytes", "Q"),
        ("pinned_bytes", "Q"),
        ("managed_bytes", "Q"),
    ),
    "mw_limit_reply": (
        HEADER,
        ("gpu", "I"),
        ("reserved", "4x"),
        ("limit_bytes", "Q"),
        ("used_bytes", "Q"),
    ),
    "mw_attached": (
        HEADER,
        ("gpu", "I"),
        ("reserved", "4x"),
        ("limit_bytes", "Q"),
        ("chunk_bytes", "Q"),
    ),
    "mw_amount": (HEADER, ("gpu", "I"), ("reserved", "4x"), ("bytes", "Q")),
    "mw_alloc": (HEADER, ("gpu", "I"), ("flags", "I"), ("bytes", "Q")),
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
    "mw_lease_note": (HEADER, ("epoch", "I"), ("reserved", "4x")),
    "mw_drained": (HEADER, ("epoch", "I"), ("gpu", "I"), ("resident_bytes", "Q")),
    "mw_idle_timeout": (HEADER, ("idle_us", "Q")),
    "mw_queue_depth": (HEADER, ("queue_us", "Q")),
    "mw_arena": (HEADER, ("segment", "Q"), ("bytes", "Q")),
    "mw_pinned": (HEADER, ("reason", f"{NAME_BYTES}s")),
    "mw_shared": (HEADER, ("flags", "I"), ("reserved", "4x")),
    "mw_unknown": (HEADER, ("calls", "Q"), ("name", f"{NAME_BYTES}s")),
    "mw_mode": (HEADER, ("mode", "I"), ("reserved", "4x")),
    "mw_warning": (HEADER, ("text", f"{TEXT_BYTES}s")),
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
    "mw_lease": (("word", "I"), ("reserved", "4x")),
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
        ("reserved", "48x"),
        ("slots", f"{SLOTS_MAX * 64}x"),
    ),
}


def packer(name: str) -> struct.Struct:
    """The `struct` of one layout; reserved bytes are written as zero and ignored when read."""
    return struct.Struct("<" + "".join(code for _, code in LAYOUTS[name]))


def offsets(name: str) -> dict[str, int]:
    """Where each field of one layout begins."""
    found: dict[str, int] = {}
    codes = "<"
    for field, code in LAYOUTS[name]:
        found[field] = struct.calcsize(codes)
        codes += code
    return found


COUNTERS_BYTES: Final = packer("mw_counters").size
