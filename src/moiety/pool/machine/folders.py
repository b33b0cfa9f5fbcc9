"""The folders of a machine's pool: they belong to its account, in folders that belong to root.

The account could put a link wherever it may write, so root opens what lies there by descriptor, and
follows no links.
"""

from __future__ import annotations

import os
from pathlib import Path

from moiety.agent.system.paths import prepare
from moiety.agent.system.pool_account import PoolAccount
from moiety.model.errors import BadAgentDirectory
from moiety.pool.paths import PoolPaths

OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make(paths: PoolPaths, account: PoolAccount) -> int:
    """Make the folders of a pool; returns a descriptor of that of its workloads.

    Raises BadAgentDirectory for folders of another user.
    """
    prepare(paths.agent)  # they are root's, or this raises
    os.close(_own(paths, paths.socket.parent, account, 0o711))
    folder = _own(paths, paths.folder, account, 0o700)
    try:
        return _own(paths, paths.workloads, account, 0o711, folder)
    finally:
        os.close(folder)


def _own(
    paths: PoolPaths, path: Path, account: PoolAccount, mode: int, inside: int | None = None
) -> int:
    """Open a folder of the account, which is made if it is not there; `inside` has it."""
    name = str(path) if inside is None else path.name
    try:
        os.mkdir(name, mode, dir_fd=inside)
    except FileExistsError:
        pass
    try:
        fd = os.open(name, OPEN, dir_fd=inside)
    except OSError as error:
        raise _unusable(paths, path, error.strerror or str(error)) from None
    owner = os.fstat(fd).st_uid
    if owner == 0:
        _give(fd, account)
        os.fchmod(fd, mode)
    elif owner != account.uid:
        os.close(fd)
        why = f"it belongs to user {owner}, and the pool serves as {account.name}"
        raise _unusable(paths, path, why)
    return fd


def _give(fd: int, account: PoolAccount) -> None:
    """Give a folder of root's to the account, with all that a pool of root's has left in it."""
    for _, folders, files, at in os.fwalk(".", dir_fd=fd, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, account.uid, account.gid, dir_fd=at, follow_symlinks=False)
    os.fchown(fd, account.uid, account.gid)


def _unusable(paths: PoolPaths, path: Path, problem: str) -> BadAgentDirectory:
    return BadAgentDirectory(path=str(path), problem=problem, shared=paths.agent.shared)
