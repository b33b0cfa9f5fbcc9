"""How a command talks to the pool: HTTP over its Unix socket. Blocking, small, quick to import."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from moiety.agent.control import protocol
from moiety.agent.control.client import environment_of_agents, read_answer
from moiety.agent.system import file_lock
from moiety.agent.system.paths import must_be_usable, prepare
from moiety.model import errors
from moiety.pool.connection import PoolConnection, with_query
from moiety.pool.model.records import PAGE_MAX, AuditPage, WorkPage
from moiety.pool.paths import PoolPaths, pool_paths

START_TIMEOUT_S: Final = 60.0
T = TypeVar("T")
P = TypeVar("P", WorkPage, AuditPage)


class PoolClient:
    """One pool, for a command."""

    def __init__(self, paths: PoolPaths | None = None) -> None:
        """The pool of the agent that is meant; raises BadSetting."""
        self.paths = paths or pool_paths()
        self._connection = PoolConnection(self.paths)

    def get(self, path: str, kind: type[T], **query: str | int) -> T:
        """What the pool answers; raises the error that it raised, NoPool or PoolSilent."""
        return msgspec.json.decode(self._connection.ask("GET", with_query(path, query)), type=kind)

    def pages(self, path: str, kind: type[P], limit: int, **query: str | int) -> Iterator[P]:
        """The pages of a list, until it ends or has this many rows; raises what `get` does."""
        while limit > 0:
            page = self.get(path, kind, **query, limit=min(PAGE_MAX, limit))
            yield page
            if page.after is None:
                return
            limit -= len(page.rows)
            query["after"] = page.after

    def post(self, path: str, kind: type[T], body: Any = None) -> T:
        """The same for a request that changes something."""
        return msgspec.json.decode(self._connection.ask("POST", path, _encoded(body)), type=kind)

    def put(self, path: str, kind: type[T], body: Any) -> T:
        """The same for a request that replaces something."""
        return msgspec.json.decode(self._connection.ask("PUT", path, _encoded(body)), type=kind)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def _encoded(body: Any) -> bytes:
    if body is None:
        return b""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # JSON has only text
        raise errors.BadArgument(
            "a word of the command or of the environment is no text in UTF-8", "another one"
        ) from None


def is_up(paths: PoolPaths) -> bool:
    """Whether a pool has its store locked here; users of a machine's pool look at its socket."""
    try:
        os.stat(paths.lock)
    except PermissionError:  # the folder is the account's alone
        return _answers(paths)
    except OSError:
        return False
    return file_lock.is_held(paths.lock)


def _answers(paths: PoolPaths) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
        return probe.connect_ex(str(paths.socket)) == 0


def start(paths: PoolPaths, agent_arguments: list[str]) -> None:
    """Start a server of this user in the background; raises what stopped it."""
    prepare(paths.agent)
    with must_be_usable(paths.agent):
        paths.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths.socket.parent.mkdir(mode=0o711, exist_ok=True)
    which = "system" if paths.agent.shared else "own"
    start_server(paths, agent_arguments, which, environment_of_agents())


def start_server(
    paths: PoolPaths,
    agent_arguments: list[str],
    which: str,
    environment: Mapping[str, str],
    **who: Any,
) -> None:
    """Start a server and wait until it answers; `who` says as which user (subprocess.Popen).

    Raises what stopped it, and PermissionError if that user may not execute it.
    """
    with must_be_usable(paths.agent):
        log = os.open(paths.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    ready, theirs = os.pipe()
    command = [sys.executable, "-m", "moiety.pool.server", str(paths.agent.path), which]
    try:
        subprocess.Popen(
            [*command, str(theirs), *agent_arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[theirs],
            start_new_session=True,
            cwd="/",
            env=environment,
            **who,
        ).returncode = 0  # it is not waited for: it outlives this command
    except OSError:
        os.close(ready)
        raise
    finally:
        os.close(theirs)
        os.close(log)
    with os.fdopen(ready, "rb") as pipe:
        if not select.select([pipe], [], [], START_TIMEOUT_S)[0]:
            raise errors.PoolSilent(
                f"it was not ready after {START_TIMEOUT_S:.0f} s", str(paths.log)
            )
        line = pipe.readline()
    if not line:
        raise errors.PoolSilent("it ended at once", str(paths.log))
    read_answer(line, protocol.Done)
