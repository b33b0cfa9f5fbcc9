"""An agent that says what it has in memory.

`python -m tests.support.memory_probe OPTIONS` is `python -m moiety.agent OPTIONS`, and on SIGUSR1
collects its garbage and writes a `Weight` as JSON into the file that MOIETY_WEIGHT names. It does
that between two things that its loop does: amid one, what that works with would be weighed as well.
"""

from __future__ import annotations

import asyncio
import collections
import ctypes
import functools
import gc
import heapq
import os
import re
import signal
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec

from moiety.agent.core.journal import Journal
from moiety.agent.core.ring_buffer import Spans
from moiety.agent.process import main

VARIABLE: Final = "MOIETY_WEIGHT"
OURS: Final = "moiety."
CACHE_BLOCK_BYTES: Final = 0x290
"""The block with the numbers and the heads of what malloc keeps, with malloc's own words."""


class Weight(msgspec.Struct, frozen=True):
    """What a process has in memory, after a collection."""

    resident_bytes: int
    """As the kernel counts: with what allocators keep for later."""
    live_bytes: int
    """That something refers to: all that Python's and the C library's allocators gave out, but for
    the sentences of the last thousand events and of the timeline, which are long or short."""
    objects: dict[str, int]
    """That the collector knows, by type."""


class _Mallinfo(ctypes.Structure):
    """What mallinfo2 of glibc 2.33 returns."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


# Once: each look-up of a function in a library leaves a name of its own behind.
_mallinfo = ctypes.CDLL(None).mallinfo2
_mallinfo.restype = _Mallinfo


def weigh() -> Weight:
    """This process, now.

    The interpreter's cache of attributes is emptied for it: its 4,096 places fill with names slowly
    (opening a file as text leaves one), and hold nothing that a tenant left.
    """
    getattr(sys, "_clear_type_cache", lambda: None)()
    gc.collect()
    return Weight(
        resident_bytes=resident_bytes(os.getpid()),
        live_bytes=_python_bytes() + _malloc_bytes() - _sentences_bytes(),
        objects=objects(),
    )


def objects(ours_only: bool = False) -> dict[str, int]:
    """How many objects of each type there are; without those that hold no others."""
    found = collections.Counter(map(type, gc.get_objects()))
    return {
        f"{cls.__module__}.{cls.__qualname__}": count
        for cls, count in found.items()
        if not ours_only or str(cls.__module__).startswith(OURS)
    }


def resident_bytes(pid: int) -> int:
    """What the kernel counts as a process' memory."""
    for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
        if line.startswith(b"VmRSS:"):
            return int(line.split()[1]) << 10
    raise ProcessLookupError(pid)


def _sentences_bytes() -> int:
    """What is told in words of the past: always of as many events, but now in more, now in fewer.

    The more digits process ids have, for one, the longer they are.
    """
    found: dict[int, int] = {}
    for known in _past:
        if isinstance(known, Journal):
            assert len(known.ring) <= known.ring.maxlen, "events are dropped"
            sentences = (each.message for each in known.ring)
        else:
            sentences = (record[-1] for record in known)
        for sentence in sentences:
            found[id(sentence)] = -(-sys.getsizeof(sentence) // 16) * 16
    return sum(found.values())


_past: Final[list[Journal | Spans]] = []
"""The agent's, as they are made: it hides from the collector what it has from the start."""


def _remember(cls: type[Journal | Spans]) -> None:
    """Add to the above whatever is made of this class."""
    make = cls.__init__

    @functools.wraps(make)
    def remembered(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        _past.append(self)

    setattr(cls, "__init__", remembered)  # noqa: B010


def _python_bytes() -> int:
    """What Python's allocator of small objects has given out: it tells standard error only."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        try:
            os.dup2(file.fileno(), 2)
            sys._debugmallocstats()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        found = re.search(rb"# bytes in allocated blocks\s*=\s*([\d,]+)", file.read())
    if found is None:
        raise RuntimeError("this Python does not say what it has allocated")
    return int(found[1].replace(b",", b""))


def _malloc_bytes() -> int:
    """What malloc has given out; Python's own arenas are none of it."""
    info = _mallinfo()
    return int(info.uordblks + info.hblkhd) - _cached_bytes()


def _cached_bytes() -> int:
    """What this thread has freed and malloc keeps for its next wish, as if it were in use.

    glibc 2.30 to 2.41 have the numbers of such blocks at the begin of the heap, 64 sizes of 7 at
    most; where that looks otherwise, 0.
    """
    for line in Path("/proc/self/maps").read_bytes().splitlines():
        if line.endswith(b"[heap]"):
            start = int(line.split(b"-")[0], 16)
            break
    else:
        return 0
    if int.from_bytes(ctypes.string_at(start + 8, 8), "little") != CACHE_BLOCK_BYTES | 1:
        return 0
    counts = struct.unpack("<64H", ctypes.string_at(start + 16, 128))
    return sum(count * (32 + 16 * number) for number, count in enumerate(counts))


def _forget_cancelled(loop: asyncio.AbstractEventLoop) -> None:
    """Drop the timers that were called off, as the loop does by itself once they are many.

    Until then some wait for their time, now two and now fifty: nothing that a tenant left.
    """
    timers: list[asyncio.TimerHandle] = getattr(loop, "_scheduled")  # noqa: B009
    timers[:] = [timer for timer in timers if not timer.cancelled()]
    heapq.heapify(timers)
    setattr(loop, "_timer_cancelled_count", 0)  # noqa: B010


def _answer(path: Path) -> None:
    _forget_cancelled(asyncio.get_running_loop())
    partial = path.with_name(path.name + ".new")
    partial.write_bytes(msgspec.json.encode(weigh()))
    partial.replace(path)


def _asked(path: Path) -> None:
    """A signal came, in the middle of anything."""
    asyncio.get_running_loop().call_soon_threadsafe(_answer, path)


if __name__ == "__main__":
    where = Path(os.environ[VARIABLE])
    _remember(Journal)
    _remember(Spans)
    signal.signal(signal.SIGUSR1, lambda *_: _asked(where))
    sys.exit(main(sys.argv[1:]))
