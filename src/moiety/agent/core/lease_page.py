"""The page in which a process reads whether it may submit work."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os

from moiety.wire.layout import LEASE_BYTES, LEASE_OPEN

SYS_FUTEX = 202
FUTEX_WAKE = 1
EVERYBODY = 0x7FFFFFFF
F_SEAL_FUTURE_WRITE = 0x0010  # Linux 5.1; the fcntl module has no name for it yet


_syscall = ctypes.CDLL(None).syscall
_syscall.argtypes = (ctypes.c_long, ctypes.c_void_p, *[ctypes.c_long] * 5)
_syscall.restype = ctypes.c_long


class LeasePage:
    """One process' lease word: the agent writes it, the process maps it read-only."""

    def __init__(self, epoch: int = 0, *, is_open: bool = False) -> None:
        flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        memfd = os.memfd_create("moiety-lease", flags)
        os.ftruncate(memfd, LEASE_BYTES)
        os.fchmod(memfd, 0o444)  # else another user opens it anew for writing, by /proc/self/fd
        self._map = mmap.mmap(memfd, LEASE_BYTES)
        self._word = ctypes.c_uint32.from_buffer(self._map)
        self.address = ctypes.addressof(self._word)
        """Where the lease word is in this process, until `dispose`."""
        self.fd = _sealed(memfd)
        """The descriptor that the process gets."""
        if is_open:
            self.open(epoch)
        else:
            self.close(epoch)

    @property
    def word(self) -> int:
        """The lease word as the process sees it."""
        return self._word.value

    @property
    def is_open(self) -> bool:
        """Whether work passes."""
        return bool(self._word.value & LEASE_OPEN)

    @property
    def epoch(self) -> int:
        """The epoch of the lease to which the word belongs."""
        return self._word.value >> 1

    def open(self, epoch: int) -> None:
        """Let work pass, under this lease. One aligned store; threads that wait are woken."""
        self._word.value = (epoch << 1 | LEASE_OPEN) & 0xFFFFFFFF
        _syscall(SYS_FUTEX, self.address, FUTEX_WAKE, EVERYBODY, 0, 0, 0)

    def close(self, epoch: int) -> None:
        """Let nothing pass any more. One aligned store."""
        self._word.value = (epoch << 1) & 0xFFFFFFFF

    def dispose(self) -> None:
        """Unmap it here; a process that has mapped it keeps the last word."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            del self._word
            self._map.close()


def _sealed(memfd: int) -> int:
    """Seal the page against writes of others; on old kernels return a read-only descriptor."""
    fixed = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    try:
        fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, fixed | F_SEAL_FUTURE_WRITE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    else:
        return memfd
    read_only = os.open(f"/proc/self/fd/{memfd}", os.O_RDONLY | os.O_CLOEXEC)
    fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, fixed)
    os.close(memfd)
    return read_only
