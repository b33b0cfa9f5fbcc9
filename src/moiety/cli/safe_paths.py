"""Opens files below a folder with untrusted content: no link in it leads out of the folder.

Paths are followed as openat2(2) does with RESOLVE_IN_ROOT, which kernels before 5.6 lack: step by
step from the descriptor of the folder before, so that a folder that becomes a link meanwhile is
still the same folder.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LINKS_MAX: Final = 40
"""The most links in a path; the kernel follows as many."""
DEPTH_MAX: Final = 256
"""The most folders that are open at one time."""

_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_STEP: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def open_beneath(root: str | Path, inside: str) -> int:
    """A descriptor to read the regular file `inside`; links are followed as if chrooted.

    Raises OSError if it does not exist, is no regular file, or has too many links or folders in its
    path.
    """
    with _walked(root, inside) as (folder, name):
        # If it has become a link or a pipe since, it is neither followed nor waited for.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(name, flags, dir_fd=folder)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise _error(errno.EINVAL, inside)


def is_file_beneath(root: str | Path, inside: str) -> bool:
    """Whether `inside` is a regular file."""
    try:
        with _walked(root, inside):
            return True
    except OSError:
        return False


@contextmanager
def _walked(root: str | Path, inside: str) -> Iterator[tuple[int, str]]:
    """The folder of a regular file, and its name there."""
    folders = [os.open(root, _FOLDER)]
    try:
        parts = _parts(inside)
        links = 0
        while parts:
            part = parts.pop()
            if part in (".", ".."):
                if part == ".." and len(folders) > 1:
                    os.close(folders.pop())
                continue
            step = os.open(part, _STEP, dir_fd=folders[-1])
            try:
                mode = os.fstat(step).st_mode
                if stat.S_ISDIR(mode):
                    if len(folders) >= DEPTH_MAX:
                        raise _error(errno.ENAMETOOLONG, inside)
                    folders.append(os.dup(step))
                    continue
                if not stat.S_ISLNK(mode):
                    if parts:
                        raise _error(errno.ENOTDIR, inside)
                    if not stat.S_ISREG(mode):
                        raise _error(errno.EINVAL, inside)
                    yield folders[-1], part
                    return
                target = os.readlink("", dir_fd=step)
            finally:
                os.close(step)
            links += 1
            if links > LINKS_MAX:
                raise _error(errno.ELOOP, inside)
            if target.startswith("/"):
                while len(folders) > 1:
                    os.close(folders.pop())
            parts += _parts(target)
        raise _error(errno.EISDIR, inside)
    finally:
        for folder in folders:
            os.close(folder)


def _parts(path: str) -> list[str]:
    """The names in a path, the first one last; raises OSError for an invalid path."""
    try:
        if b"\0" in os.fsencode(path):
            raise _error(errno.EINVAL, path)
    except UnicodeEncodeError:
        raise _error(errno.EINVAL, path) from None
    return [part for part in reversed(path.split("/")) if part]


def _error(number: int, inside: str) -> OSError:
    text = "not a regular file" if number == errno.EINVAL else os.strerror(number)
    return OSError(number, text, inside)
