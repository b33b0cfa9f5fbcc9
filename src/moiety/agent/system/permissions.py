"""Which users may reach a socket in the agent's directory: the kernel refuses all others.

The folders belong to the agent, so that no other user can replace a file that it will write. An
access control list lets a user in; where the file system has none, the socket's owner does.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

ATTRIBUTE: Final = "system.posix_acl_access"
_VERSION: Final = 2
_USER_OBJ, _USER, _GROUP_OBJ, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_NOBODY: Final = 0xFFFFFFFF


def open_to(folder: Path | str, socket: Path | str, uid: int) -> None:
    """Let one user, the agent and root reach a socket in a folder; raises OSError.

    An agent that is not root, on a file system without such lists, cannot keep others from
    connecting: it hangs up on them, as it does in every case.
    """
    if uid == os.getuid():
        os.chmod(folder, 0o700)
        os.chmod(socket, 0o600)
        return
    try:
        _admit(folder, uid, owner=7, user=1)
        _admit(socket, uid, owner=6, user=6)
    except OSError:
        os.chmod(folder, 0o711)
        if os.getuid() == 0:
            os.chmod(socket, 0o600)
            os.chown(socket, uid, -1, follow_symlinks=False)
        else:
            os.chmod(socket, 0o666)


def let_through(folder: Path, uid: int) -> None:
    """Let one more user go through a folder to paths that it knows; raises OSError."""
    try:
        _admit(folder, uid, owner=7, user=1)
    except OSError:
        os.chmod(folder, 0o711)


def let_only(folder: Path, uid: int) -> None:
    """Let one more user only go through a folder; OSError without access control lists."""
    _admit(folder, uid, owner=7, user=1)


def let_write(folder: Path, uid: int) -> None:
    """Let one more user use a folder, and no others; OSError without access control lists."""
    _admit(folder, uid, owner=7, user=7)


def open_to_group(socket: Path, mode: int, gid: int | None) -> None:
    """Give a socket this mode and this group; raises OSError."""
    os.chmod(socket, mode & ~0o077)
    if gid is not None:
        os.chown(socket, -1, gid, follow_symlinks=False)
    os.chmod(socket, mode)


def _admit(path: Path | str, uid: int, *, owner: int, user: int) -> None:
    """Bits as in a mode: for the file's owner, and for one more user."""
    entries = (
        (_USER_OBJ, owner, _NOBODY),
        (_USER, user, uid),
        (_GROUP_OBJ, 0, _NOBODY),
        (_MASK, user, _NOBODY),
        (_OTHER, 0, _NOBODY),
    )
    packed = b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(path, ATTRIBUTE, struct.pack("<I", _VERSION) + packed)
