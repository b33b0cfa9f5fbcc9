"""Host memory in memfds whose pages are there before anybody needs them.

Everything here may take long and runs beside the event loop. The kernel is asked for pages in small
steps, because a large one would keep the whole process from mapping anything meanwhile.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
from collections.abc import Callable
from typing import Final

STEP_BYTES: Final = 4 << 20
MADV_POPULATE_WRITE: Final = 23
"""Linux 5.14"""
SYS_MBIND: Final = 237
"""x86-64"""
MPOL_PREFERRED: Final = 1
MAP_FAILED: Final = ctypes.c_void_p(-1).value

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.syscall.argtypes = [ctypes.c_long] * 7

Stopped = Callable[[], bool]


def make(size: int, node: int | None, stopped: Stopped) -> int:
    """A sealed memfd of zeros with all its pages, near a NUMA node if one is named.

    Raises OSError when there is not enough memory, and InterruptedError once `stopped()`.
    """
    fd = os.memfd_create("moiety-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        # Nobody who has it may cut it short: the others would stumble into the hole.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
        with _Mapped(fd, size) as at:
            _libc.madvise(at, size, mmap.MADV_HUGEPAGE)
            if node is not None and 0 <= node < 64:
                mask = ctypes.c_ulong(1 << node)
                _libc.syscall(SYS_MBIND, at, size, MPOL_PREFERRED, ctypes.addressof(mask), 65, 0)
            for offset in range(0, size, STEP_BYTES):
                if stopped():
                    raise InterruptedError
                _populate(fd, at + offset, offset, min(STEP_BYTES, size - offset))
    except BaseException:
        os.close(fd)
        raise
    return fd


def scrub(fd: int, size: int, stopped: Stopped) -> None:
    """Zero a memfd that nobody else writes to any more; raises as `make` does."""
    with _Mapped(fd, size) as at:
        for offset in range(0, size, STEP_BYTES):
            if stopped():
                raise InterruptedError
            step = min(STEP_BYTES, size - offset)
            _populate(fd, at + offset, offset, step)
            ctypes.memset(at + offset, 0, step)


class _Mapped:
    """A memfd mapped for as long as the block lasts; its address."""

    def __init__(self, fd: int, size: int) -> None:
        self._size = size
        flags = mmap.PROT_READ | mmap.PROT_WRITE
        self._at = _libc.mmap(None, size, flags, mmap.MAP_SHARED, fd, 0)
        if self._at == MAP_FAILED:
            raise _error()

    def __enter__(self) -> int:
        return int(self._at)

    def __exit__(self, *exception: object) -> None:
        _libc.munmap(self._at, self._size)


def _populate(fd: int, at: int, offset: int, size: int) -> None:
    """Have the kernel provide pages; on old kernels reserve them first, then touch them."""
    if _libc.madvise(at, size, MADV_POPULATE_WRITE) == 0:
        return
    error = _error()
    if error.errno != errno.EINVAL:
        raise error
    os.posix_fallocate(fd, offset, size)  # an error here would be a deadly signal below
    for page in range(at, at + size, mmap.PAGESIZE):
        ctypes.memset(page, ctypes.c_ubyte.from_address(page).value, 1)


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
