"""Lock files that say who holds them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path


class LockHeld(Exception):
    """Another process has the lock; `owner` is what it wrote into the file.

    `pid` is the holder as the kernel says it; None: it does not. `is_kept`: the lock is free, but
    its last holder is coming back.
    """

    def __init__(
        self, path: Path, owner: str, pid: int | None = None, *, is_kept: bool = False
    ) -> None:
        super().__init__(f"{path} is held by {owner or 'an unknown process'}")
        self.path = path
        self.owner = owner
        self.pid = pid
        self.is_kept = is_kept


class FileLock:
    """An flock'ed file; it is held until `release` or until the process ends."""

    def __init__(
        self,
        path: Path,
        owner: str,
        mode: int = 0o600,
        is_kept: Callable[[str], bool] | None = None,
    ) -> None:
        """Take the lock, leaving `owner` in it; raises LockHeld or OSError.

        `is_kept` gets the text of a holder that did not release the lock, and returns whether that
        process still counts as its holder.
        """
        self.path = path
        while True:
            fd = _open(path, mode)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held_by, pid = _content(fd), holder(fd)
                os.close(fd)
                raise LockHeld(path, held_by, pid) from None
            left = _content(fd)
            if is_kept and left and is_kept(left):
                os.close(fd)
                raise LockHeld(path, left, is_kept=True)
            if _is_still(path, fd):
                break
            os.close(fd)  # its last holder removed it between open and flock
        self._fd = fd
        _write_over(fd, owner.encode() + b"\n")

    def release(self) -> None:
        """Remove the file, if that is permitted, and release the lock."""
        try:
            os.unlink(self.path)
        except OSError:
            os.ftruncate(self._fd, 0)
        os.close(self._fd)


def take(path: Path, owner: str, wait_s: float) -> FileLock:
    """Take the lock as soon as it is free; raises LockHeld after `wait_s`."""
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            return FileLock(path, owner)
        except LockHeld:
            if time.monotonic() >= deadline_s:
                raise
        time.sleep(0.01)


def is_held(path: Path) -> bool:
    """Whether some process has the lock now."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def holder(fd: int) -> int | None:
    """The process that has locked a file, as the kernel says it; None: it does not."""
    status = os.fstat(fd)
    where = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks", "rb") as file:
            for line in file.read().decode().splitlines():
                fields = line.split()
                if fields[1] == "FLOCK" and where in fields:
                    return int(fields[4]) if int(fields[4]) > 0 else None
    except (OSError, IndexError, ValueError):
        pass  # not every system shows it
    return None


def _content(fd: int) -> str:
    return os.pread(fd, 4096, 0).decode("utf-8", "replace").strip()


def _write_over(fd: int, content: bytes) -> None:
    """Replace a file's content without giving its space back: a full disk might not return it.

    The text is for readers only: the lock is held without it.
    """
    try:
        written = os.pwrite(fd, content, 0)
    except OSError:
        written = 0
    os.ftruncate(fd, written)


def _open(path: Path, mode: int) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        # In a sticky directory the kernel may forbid O_CREAT on another user's file: without first.
        try:
            return _ordinary(os.open(path, flags), path)
        except FileNotFoundError:
            pass
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            continue
        os.fchmod(fd, mode)  # the umask must not keep other users out of a shared lock
        return fd


def _ordinary(fd: int, path: Path) -> int:
    """Return the descriptor; raises OSError for a file that would make the agent write elsewhere.

    Another user can put a pipe there, or a hard link to another file where the kernel permits it
    (fs.protected_hardlinks).
    """
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
        return fd
    os.close(fd)
    raise OSError(errno.EPERM, "it is no ordinary file; remove it", str(path))


def _is_still(path: Path, fd: int) -> bool:
    try:
        named = os.stat(path, follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    opened = os.fstat(fd)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)
