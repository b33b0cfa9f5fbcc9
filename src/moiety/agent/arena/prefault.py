"""Host memory in memfds whose pages exist before they are needed.

These functions may take long, and run beside the event loop. They ask the kernel for pages in small
steps, and map each step only while it lasts: a large step would keep the whole process from mapping
anything meanwhile, and would count as memory that this process uses.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
from collections.abc import Callable
from typing import Any, Final, Self

NAME: Final = "moiety-arena"
"""The name of each memfd, as the kernel shows it in the mappings of a process."""
STEP_BYTES: Final = 4 << 20
MADV_POPULATE_WRITE: Final = 23
"""Linux 5.14"""
FALLOC_FL_KEEP_SIZE: Final = 1
FALLOC_FL_PUNCH_HOLE: Final = 2
SYS_MBIND: Final = 237
"""X86-64."""
MPOL_PREFERRED: Final = 1
MAP_FAILED: Final = ctypes.c_void_p(-1).value

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
_libc.syscall.argtypes = [ctypes.c_long] * 7

Stopped = Callable[[], bool]


def make(size: int, node: int | None, stopped: Stopped) -> int:
    """A sealed memfd of zeros with all its pages, near a NUMA node if one is named.

    Raises OSError when there is not enough memory, and InterruptedError once `stopped()`.
    """
    fd = os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        # No process may shrink it: the others would get SIGBUS at the pages that are gone.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
        for offset in range(0, size, STEP_BYTES):
            if stopped():
                raise InterruptedError
            with _Mapped(fd, offset, min(STEP_BYTES, size - offset)) as step:
                step.prefer(node)
                step.populate()
    except BaseException:
        os.close(fd)
        raise
    return fd


def free(fd: int) -> None:
    """Give a memfd's pages back to the system, even if other processes have it, and close it."""
    try:
        mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
        _libc.fallocate(fd, mode, 0, os.fstat(fd).st_size)
    finally:
        os.close(fd)


class _Mapped:
    """A part of a memfd, mapped for as long as the block lasts."""

    def __init__(self, fd: int, offset: int, size: int) -> None:
        self._fd = fd
        self._offset = offset
        self._size = size
        flags = mmap.PROT_READ | mmap.PROT_WRITE
        self._at: Any = _libc.mmap(None, size, flags, mmap.MAP_SHARED, fd, offset)
        if self._at == MAP_FAILED:
            raise _error()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        _libc.munmap(self._at, self._size)

    def prefer(self, node: int | None) -> None:
        """Ask for large pages, and for pages of this NUMA node; a refusal is no error."""
        _libc.madvise(self._at, self._size, mmap.MADV_HUGEPAGE)
        if node is not None and 0 <= node < 64:
            mask = ctypes.c_ulong(1 << node)
            where = ctypes.addressof(mask)
            _libc.syscall(SYS_MBIND, self._at, self._size, MPOL_PREFERRED, where, 65, 0)

    def populate(self) -> None:
        """Have the kernel provide pages; on old kernels reserve them first, then touch them."""
        if _libc.madvise(self._at, self._size, MADV_POPULATE_WRITE) == 0:
            return
        error = _error()
        if error.errno != errno.EINVAL:
            raise error
        # Where there is no memory, this raises OSError; the loop below would get SIGBUS.
        os.posix_fallocate(self._fd, self._offset, self._size)
        for page in range(self._at, self._at + self._size, mmap.PAGESIZE):
            ctypes.memset(page, ctypes.c_ubyte.from_address(page).value, 1)


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
