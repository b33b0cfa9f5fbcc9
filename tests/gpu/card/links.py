"""How fast bytes move between host and card: pinned, registered, pageable; each way and both."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.gpu.card.driver import GIB, MIB, CudaError
from tests.gpu.card.run import Run, gb_per_s, label

MADV_POPULATE_WRITE = 23
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p


@dataclass(frozen=True)
class Kind:
    """A kind of host memory."""

    name: str
    shared: bool = False
    huge: bool = False
    faulted: bool = True
    elsewhere: bool = False
    """faulted through another mapping, as an agent does it for a program"""


KINDS = (
    Kind("private"),
    Kind("private_untouched", faulted=False),
    Kind("private_huge", huge=True),
    Kind("private_huge_untouched", huge=True, faulted=False),
    Kind("memfd", shared=True),
    Kind("memfd_untouched", shared=True, faulted=False),
    Kind("memfd_huge", shared=True, huge=True),
    Kind("memfd_elsewhere", shared=True, elsewhere=True),
    Kind("memfd_huge_elsewhere", shared=True, huge=True, elsewhere=True),
)


def measure(run: Run) -> None:
    """Pinned by size, then by kind of memory."""
    with run.part("pinned"):
        pinned(run)
    with run.part("pageable"):
        pageable(run)
    with run.part("inside"):
        inside(run)
    with run.part("host_alloc"):
        host_alloc(run)
    with run.part("registering"):
        run.note("registering", registering(run))
    for kind in KINDS:
        with run.part(kind.name):
            run.note(f"registered_{kind.name}", registered(run, kind))


def moved(run: Run, pairs: list[tuple[str, int, int]], size: int, pieces: int) -> float:
    """GB/s of `pieces` copies of each (direction, host, device) at once, together."""
    driver = run.driver
    streams = [driver.stream() for _ in pairs]
    began = time.perf_counter()
    for _ in range(pieces):
        for (way, host, device), stream in zip(pairs, streams, strict=True):
            if way == "h2d":
                driver.call("cuMemcpyHtoDAsync_v2", device, host, size, stream)
            else:
                driver.call("cuMemcpyDtoHAsync_v2", host, device, size, stream)
    for stream in streams:
        driver.sync(stream)
    rate = gb_per_s(size * pieces * len(pairs), time.perf_counter() - began)
    for stream in streams:
        driver.call("cuStreamDestroy_v2", stream)
    return rate


def both_ways(run: Run, hosts: tuple[int, int], size: int, most: int) -> dict[str, float]:
    """Each way alone, then duplex: the sum of both directions."""
    pieces = max(2, (most if not run.quick else 2 * size) // size)
    with run.driver.device_memory(size) as one, run.driver.device_memory(size) as other:
        into, out = ("h2d", hosts[0], one), ("d2h", hosts[1], other)
        moved(run, [into, out], size, 2)
        return {
            "h2d_gb_per_s": moved(run, [into], size, pieces),
            "d2h_gb_per_s": moved(run, [out], size, pieces),
            "duplex_gb_per_s": moved(run, [into, out], size, pieces),
        }


def pinned(run: Run) -> None:
    """Memory from cuMemHostAlloc, in pieces of several sizes."""
    for size in run.sizes(2, 64, 256, 1024, of=run.host_size(2 * GIB, 0.25)):
        with run.driver.pinned(size) as first, run.driver.pinned(size) as second:
            most = max(4 * GIB, 4 * size)
            run.note(f"pinned_{label(size)}", both_ways(run, (first, second), size, most))


def pageable(run: Run) -> None:
    """Ordinary memory, by the synchronous copies."""
    size = run.host_size((64 if run.quick else 512) * MIB, 0.25)
    found = {}
    with memory(size, KINDS[0]) as host, run.driver.device_memory(size) as device:
        for name, call, arguments in (
            ("h2d", "cuMemcpyHtoD_v2", (device, host, size)),
            ("d2h", "cuMemcpyDtoH_v2", (host, device, size)),
        ):
            run.driver.call(call, *arguments)
            began = time.perf_counter()
            run.driver.call(call, *arguments)
            run.driver.sync()
            found[f"{name}_gb_per_s"] = gb_per_s(size, time.perf_counter() - began)
    run.note(f"pageable_{label(size)}", found)


def inside(run: Run) -> None:
    """Copies and sets inside the card: bytes read or written once; what scrubbing costs."""
    size = min(GIB, run.card_bytes // 4) // (2 * MIB) * 2 * MIB
    with run.driver.device_memory(size) as one, run.driver.device_memory(size) as other:
        found = {}
        for name, call, arguments in (
            ("copy", "cuMemcpyDtoDAsync_v2", (one, other, size, 0)),
            ("set", "cuMemsetD8Async", (one, 0, size, 0)),
        ):
            run.driver.call(call, *arguments)
            run.driver.sync()
            began = time.perf_counter()
            for _ in range(2 if run.quick else 10):
                run.driver.call(call, *arguments)
            run.driver.sync()
            took = (time.perf_counter() - began) / (2 if run.quick else 10)
            found[f"{name}_gb_per_s"] = gb_per_s(size, took)
    run.note(f"inside_{label(size)}", found)


def host_alloc(run: Run) -> None:
    """cuMemHostAlloc and cuMemFreeHost, per GiB."""
    found = {}
    for size in run.sizes(64, 1024, of=run.host_size(2 * GIB)):
        began = time.perf_counter()
        host = run.driver.get("cuMemHostAlloc", size, 1)
        took = time.perf_counter() - began
        began = time.perf_counter()
        run.driver.call("cuMemFreeHost", host)
        found[label(size)] = {
            "alloc_s_per_gib": round(took * GIB / size, 4),
            "free_s_per_gib": round((time.perf_counter() - began) * GIB / size, 4),
        }
    run.note("host_alloc", found)


@contextmanager
def memory(size: int, kind: Kind) -> Iterator[int]:
    """A mapping of this kind, aligned to 2 MiB."""
    fd = -1
    if kind.shared:
        fd = os.memfd_create("facts", os.MFD_CLOEXEC)
        os.ftruncate(fd, size + 2 * MIB)
    try:
        if kind.elsewhere:
            with mapping(fd, size, kind) as first:
                advise(first, size, MADV_POPULATE_WRITE)
        with mapping(fd, size, kind) as at:
            if kind.faulted and not kind.elsewhere:
                advise(at, size, MADV_POPULATE_WRITE)
            yield at
    finally:
        if fd >= 0:
            os.close(fd)


@contextmanager
def mapping(fd: int, size: int, kind: Kind) -> Iterator[int]:
    """Mapped, with or without huge pages, not yet touched; inherited by nobody."""
    flags = mmap.MAP_SHARED if fd >= 0 else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    span = ctypes.c_size_t(size + 2 * MIB)
    start = LIBC.mmap(None, span, 3, flags, fd, ctypes.c_long(0))
    if start in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"could not map {size} bytes")
    at = (start + 2 * MIB - 1) // (2 * MIB) * (2 * MIB)
    advise(at, size, mmap.MADV_HUGEPAGE if kind.huge else mmap.MADV_NOHUGEPAGE)
    advise(at, size, mmap.MADV_DONTFORK)
    try:
        yield at
    finally:
        LIBC.munmap(ctypes.c_void_p(start), span)


def advise(at: int, size: int, advice: int) -> bool:
    """madvise; where the kernel cannot fault in ahead, every page is touched instead."""
    failed = LIBC.madvise(ctypes.c_void_p(at), ctypes.c_size_t(size), advice) != 0
    if failed and advice == MADV_POPULATE_WRITE:
        ctypes.memset(at, 0, size)
    return not failed


def uniform(at: int, size: int) -> int | None:
    """The value that every byte of this host memory has; None when they differ."""
    differ = LIBC.memcmp(ctypes.c_void_p(at), ctypes.c_void_p(at + 1), ctypes.c_size_t(size - 1))
    return None if differ else ctypes.c_ubyte.from_address(at).value


def huge_mib(at: int) -> int | None:
    """How much of the mapping that begins at or before `at` lies in huge pages."""
    found, inside_it = 0, False
    try:
        with open("/proc/self/smaps") as lines:
            for line in lines:
                words = line.split()
                if "-" in words[0] and not words[0].endswith(":"):
                    low, _, high = words[0].partition("-")
                    inside_it = int(low, 16) <= at < int(high, 16)
                elif inside_it and words[0] in ("AnonHugePages:", "ShmemPmdMapped:"):
                    found += int(words[1]) // 1024
    except OSError:
        return None
    return found


def registering(run: Run) -> dict[str, Any]:
    """Seconds for each GiB by size, of memory whose pages are all there."""
    found: dict[str, Any] = {}
    for kind in (k for k in KINDS if k.name in ("private", "memfd", "memfd_huge_elsewhere")):
        for size in run.sizes(2, 64, 256, 1024, 4096, of=run.host_size(4 * GIB)):
            with memory(size, kind) as at:
                began = time.perf_counter()
                run.driver.call("cuMemHostRegister_v2", at, size, 1)
                took = time.perf_counter() - began
                run.driver.call("cuMemHostUnregister", at)
            found[f"{kind.name}_{label(size)}_s_per_gib"] = round(took * GIB / size, 4)
    return found


def registered(run: Run, kind: Kind) -> dict[str, Any]:
    """Register twice (the second time all pages are there), copy in 64 MiB pieces, unregister."""
    driver = run.driver
    size = run.host_size((64 if run.quick else 1024) * MIB)
    found: dict[str, Any] = {"size_mib": size // MIB}
    with memory(size, kind) as at:
        for turn in ("first", "again"):
            began = time.perf_counter()
            try:
                driver.call("cuMemHostRegister_v2", at, size, 1)
            except CudaError as error:
                return found | {f"register_{turn}_error": str(error)}
            took = time.perf_counter() - began
            found[f"register_{turn}_s_per_gib"] = round(took * GIB / size, 4)
            if turn == "first":
                piece = min(64 * MIB, size // 2)
                hosts = (at, at + piece)
                found |= both_ways(run, hosts, piece, 2 * GIB)
                found["in_huge_pages_mib"] = huge_mib(at)
            began = time.perf_counter()
            driver.call("cuMemHostUnregister", at)
            took = time.perf_counter() - began
            found[f"unregister_{turn}_s_per_gib"] = round(took * GIB / size, 4)
    return found
