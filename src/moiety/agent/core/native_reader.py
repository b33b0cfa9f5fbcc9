"""The thread that reads programs' sockets without Python's lock: libmoiety-agent.so, by ctypes.

The layouts are those of native/agent/agent_abi.h. The thread starts no process and runs no Python;
each call here waits at most for the packet that the thread handles at this moment.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from moiety.devices.native import native_dir
from moiety.model.errors import NativeLibraryMissing

LIBRARY: Final = "libmoiety-agent.so"
RING_BYTES: Final = 1 << 20
HOLD_NS: Final = 5_000_000
"""After the first half of a hand-off, the agent sleeps for so long if the second does not come."""
HEADS_MAX: Final = 32
"""The most transitions that are armed at first, each with those that follow it."""
FOLLOWING_MAX: Final = 3
"""The most transitions that follow one, each after the one before it."""
PACKET_BYTES: Final = 4096
FDS_MAX: Final = 253
_ENDED: Final = 1
_BURST, _FIRED, _SENT, _ASKED = 1, 2, 4, 8


class ReaderRecord(ctypes.Structure):
    """`struct ma_record`: what stands before each packet in the ring."""

    _fields_ = (
        ("key", ctypes.c_uint64),
        ("at_ns", ctypes.c_uint64),
        ("kind", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("fds", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("error", ctypes.c_int32),
        ("user", ctypes.c_uint32),
        ("shot", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


class Shot(ctypes.Structure):
    """`struct ma_shot`: a message, the lease word that it changes, and the note that follows."""

    _fields_ = (
        ("source", ctypes.c_uint64),
        ("target", ctypes.c_uint64),
        ("word", ctypes.c_void_p),
        ("expected", ctypes.c_uint32),
        ("wanted", ctypes.c_uint32),
        ("type", ctypes.c_uint32),
        ("epoch", ctypes.c_uint32),
        ("gpus", ctypes.c_uint32),
        ("note", ctypes.c_uint32),
        ("note_epoch", ctypes.c_uint32),
        ("next", ctypes.c_uint32),
        ("not_before_ns", ctypes.c_int64),
        ("not_after_ns", ctypes.c_int64),
        ("asks_until_ns", ctypes.c_int64),
    )


class ReaderCounts(ctypes.Structure):
    """`struct ma_counts`: what became of messages that can change a lease."""

    _fields_ = (
        ("fired", ctypes.c_uint64),
        ("asked", ctypes.c_uint64),
        ("unread", ctypes.c_uint64),
        ("unarmed", ctypes.c_uint64),
        ("other", ctypes.c_uint64),
    )


class ArmedState(IntEnum):
    """What `disarm` found: `enum ma_armed`."""

    IDLE = 0
    ARMED = 1
    FIRED = 2
    """A transition was carried out, or its source asked for its next lease while it was armed.

    Those messages are the first that `take` returns.
    """
    BOTH_FIRED = 3
    """At least the next one of that transition was carried out, too."""


class Taken(NamedTuple):
    """What the thread read from one connection."""

    key: int
    at_s: float
    """When it was read, on the clock of `time.monotonic`."""
    packet: bytes
    fds: list[int]
    ended: bool
    error: int
    """The errno for which the connection ended; 0: it was closed."""
    burst: bool
    """A whole turn was read in a row: nothing more is read before `resume`."""
    fired: bool
    sent: bool
    """The note of the transition that was fired is sent, too."""
    shot: int
    """The number of that transition, as it was armed."""
    asked: bool
    """It is the next request of a tenant that has to drain: what was armed stayed so."""


_SHOTS_MAX: Final = (1 + FOLLOWING_MAX) * HEADS_MAX
_RECORD: Final = ctypes.sizeof(ReaderRecord)
_LARGEST: Final = _RECORD + PACKET_BYTES + FDS_MAX * 4


def _load() -> ctypes.CDLL:
    folder = native_dir()
    path = folder / LIBRARY if folder else None
    if path is None or not path.exists():
        raise NativeLibraryMissing(LIBRARY)
    library = ctypes.CDLL(str(path), use_errno=True)
    reader, key = ctypes.c_void_p, ctypes.c_uint64
    for name, result, arguments in (
        ("start", reader, (ctypes.c_uint64, ctypes.c_uint64, ctypes.POINTER(ctypes.c_int))),
        ("stop", None, (reader,)),
        ("add", key, (reader, ctypes.c_int, ctypes.c_uint32)),
        ("remove", None, (reader, key)),
        ("resume", None, (reader, key)),
        ("take", ctypes.c_int, (reader, ctypes.c_void_p)),
        ("arm", ctypes.c_int, (reader, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)),
        ("disarm", ctypes.c_int, (reader,)),
        ("counts", None, (reader, ctypes.POINTER(ReaderCounts))),
    ):
        function = getattr(library, f"moiety_agent_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class NativeReader:
    """One such thread, with its ring.

    `event_fd` is readable while `take` has something. After the first half of a hand-off it is so
    a moment after the second, or after `hold_ns`: the programs need the processors meanwhile.
    """

    def __init__(self, ring_bytes: int = RING_BYTES, hold_ns: int = HOLD_NS) -> None:
        """Start the thread; raises NativeLibraryMissing, or OSError if it cannot start."""
        library = self._library = _load()
        event_fd = ctypes.c_int(-1)
        self._reader = library.moiety_agent_start(ring_bytes, hold_ns, ctypes.byref(event_fd))
        if not self._reader:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        self.event_fd = event_fd.value
        self._buffer = ctypes.create_string_buffer(_LARGEST)
        self._bytes = memoryview(self._buffer).cast("B")
        self._head = ReaderRecord.from_buffer(self._buffer)
        self._shots = (Shot * _SHOTS_MAX)()

    def add(self, fd: int, account: int) -> int:
        """Read a socket from now on, in the turns of this user; returns its key, 0: it cannot."""
        return int(self._library.moiety_agent_add(self._reader, fd, account & 0xFFFFFFFF))

    def remove(self, key: int) -> None:
        """Disarm, and do not touch the socket any more; packets that were read are still taken."""
        self._library.moiety_agent_remove(self._reader, key)

    def resume(self, key: int) -> None:
        """Read on after a burst."""
        self._library.moiety_agent_resume(self._reader, key)

    def take(self) -> Taken | None:
        """Disarm, and return the oldest packet; None: there is none."""
        if not self._library.moiety_agent_take(self._reader, self._buffer):
            return None
        head = self._head
        end = _RECORD + head.bytes
        packet = self._bytes[_RECORD:end].tobytes()
        fds = self._bytes[end : end + 4 * head.fds].cast("i").tolist()
        flags = head.flags
        return Taken(
            head.key,
            head.at_ns / 1e9,
            packet,
            fds,
            head.kind == _ENDED,
            head.error,
            bool(flags & _BURST),
            bool(flags & _FIRED),
            bool(flags & _SENT),
            head.shot,
            bool(flags & _ASKED),
        )

    def arm(self, shots: Sequence[Shot], heads: int | None = None) -> bool:
        """Arm the first `heads` of these, or all; the others are armed once what they follow fired.

        False: a packet waits to be taken, so none is.
        """
        for number, shot in enumerate(shots):
            self._shots[number] = shot
        count = len(shots)
        first = count if heads is None else heads
        return bool(self._library.moiety_agent_arm(self._reader, self._shots, first, count))

    def disarm(self) -> ArmedState:
        """Disarm; a transition that is being carried out is waited for."""
        return ArmedState(self._library.moiety_agent_disarm(self._reader))

    def counts(self) -> dict[str, int]:
        """What became of messages that ask, drain or are silent, by the names of ReaderCounts."""
        counts = ReaderCounts()
        self._library.moiety_agent_counts(self._reader, ctypes.byref(counts))
        return {name: getattr(counts, name) for name, _ in ReaderCounts._fields_}

    def stop(self) -> None:
        """End the thread. Packets that were not taken are lost; take them before."""
        if self._reader:
            self._library.moiety_agent_stop(self._reader)
            self._reader = None
