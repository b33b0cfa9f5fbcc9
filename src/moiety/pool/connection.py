"""HTTP over the Unix socket of a pool. It is quick to import: for commands that start often."""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import os
import socket
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from moiety.agent.system import processes
from moiety.model import errors
from moiety.pool.model.arrays import TASKS
from moiety.pool.model.names import API_VERSION, NAME
from moiety.pool.paths import PoolPaths

ANSWER_TIMEOUT_S: Final = 90.0
HEADERS: Final[Mapping[str, str]] = {"Content-Type": "application/json"}


class UnixConnection(http.client.HTTPConnection):
    """HTTP to a socket of the file system, which must be of this user or of root."""

    def __init__(self, paths: PoolPaths) -> None:
        super().__init__("pool", timeout=ANSWER_TIMEOUT_S)
        self._paths = paths

    def connect(self) -> None:
        """Connect; raises NoPool or NotAllowed."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        sock.settimeout(self.timeout)
        try:
            sock.connect(str(self._paths.socket))
        except OSError as error:
            sock.close()
            if error.errno in (errno.EACCES, errno.EPERM):
                raise self._not_yours() from None
            raise errors.NoPool(str(self._paths.agent.path)) from None
        peer = processes.peer_of(sock)
        if not self._is_trusted(peer):
            sock.close()  # every user can make a directory with our name in /tmp
            raise self._not_yours()
        self.sock = sock

    def _is_trusted(self, server: processes.Peer) -> bool:
        """Whether a command may obey it: only root can make the folder of the machine's agent."""
        if processes.may_use(server, os.getuid()):
            return True
        paths = self._paths
        owners = {os.stat(each).st_uid for each in (paths.agent.path, paths.socket.parent)}
        return paths.agent.shared and server.uid in owners

    def _not_yours(self) -> errors.NotAllowed:
        return errors.NotAllowed(f"the pool in {self._paths.agent.path} is not yours")


class PoolConnection:
    """Requests to one pool, in bytes of JSON."""

    def __init__(self, paths: PoolPaths) -> None:
        self._connection = UnixConnection(paths)

    def ask(self, method: str, path: str, content: bytes = b"") -> bytes:
        """What the pool answers; raises the error that it raised, NoPool or PoolSilent."""
        try:
            with contextlib.suppress(BrokenPipeError):  # it may have said why it hung up
                self._connection.request(method, f"/{API_VERSION}{path}", content, HEADERS)
            answer = self._connection.getresponse()
            found = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise errors.PoolSilent(str(error) or "it closed the connection") from None
        if answer.status < 400:
            return found
        try:
            parts = json.loads(found)
            kind, what, hint = str(parts["kind"]), str(parts["what"]), str(parts["hint"])
            exit_code = int(parts["exit_code"])
        except (ValueError, KeyError, TypeError):
            raise errors.PoolSilent(
                f"it answered {answer.status}, as another version may"
            ) from None
        raise errors.from_parts(kind, what, hint, exit_code)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def with_query(path: str, query: Mapping[str, str | int]) -> str:
    """A path with its query."""
    return f"{path}?{urlencode(query, errors='replace')}" if query else path


def of(target: str, act: str = "") -> str:
    """The path of a workload, by number or name, or of tasks of an array; raises WorkUnknown."""
    if not NAME.fullmatch(target) and not TASKS.fullmatch(target):
        raise errors.WorkUnknown(repr(target[:40]))
    return f"/workloads/{quote(target, safe='')}{f'/{act}' if act else ''}"
