"""While a pool is up only it promises parts of GPUs: others have what is not promised."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from moiety.agent.control import protocol
from moiety.agent.system import file_lock
from moiety.agent.system.paths import Directory
from moiety.agent.system.processes import Peer
from moiety.model.errors import PoolPromises

LOCK = ("pool", "lock")
"""The file in the agent's folder that the server of a pool holds."""


def check(directory: Directory, request: Any, peer: Peer) -> None:
    """Raise PoolPromises for a request that wants a promise while the pool of another is up."""
    if _wants_promise(request):
        server = pool_server(directory)
        if server is not None and server != peer.pid:
            raise PoolPromises


def pool_server(directory: Directory) -> int | None:
    """The process id of the server of the pool that is up; 0: not known; None: there is none."""
    path = directory.state.joinpath(*LOCK)
    if not file_lock.is_held(path):
        return None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        said = os.pread(fd, 64, 0).decode("utf-8", "replace").split()
        return file_lock.holder(fd) or (int(said[1]) if len(said) == 2 else 0)
    except (OSError, ValueError):
        return 0
    finally:
        os.close(fd)


def _wants_promise(request: Any) -> bool:
    if isinstance(request, protocol.CreateWorkload | protocol.CreateContainer):
        is_exclusive = request.cards is not None and request.cards.exclusive
        return bool(request.share.gpu or request.share.memory_bytes or is_exclusive)
    if isinstance(request, protocol.SetShare):
        named = (request.gpu, request.memory_bytes)
        return any(value is not msgspec.UNSET and value for value in named)
    return False
