"""How a command talks to the pool: HTTP over its Unix socket. Blocking, small, quick to import."""

from __future__ import annotations

import errno
import http.client
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from moiety.agent.control import protocol
from moiety.agent.control.client import environment_of_agents, read_answer
from moiety.agent.system import file_lock, processes
from moiety.agent.system.paths import must_be_usable, prepare
from moiety.model import errors
from moiety.pool.model.records import API_VERSION, NAME, Problem
from moiety.pool.paths import PoolPaths, pool_paths

ANSWER_TIMEOUT_S: Final = 90.0
START_TIMEOUT_S: Final = 60.0
T = TypeVar("T")


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
        agent = self._paths.agent
        return agent.shared and os.stat(agent.path).st_uid == server.uid

    def _not_yours(self) -> errors.NotAllowed:
        return errors.NotAllowed(f"the pool in {self._paths.agent.path} is not yours")


class PoolClient:
    """One pool, for a command."""

    def __init__(self, paths: PoolPaths | None = None) -> None:
        """The pool of the agent that is meant; raises BadSetting."""
        self.paths = paths or pool_paths()
        self._connection = UnixConnection(self.paths)

    def get(self, path: str, kind: type[T], **query: str | int) -> T:
        """What the pool answers; raises the error that it raised, NoPool or PoolSilent."""
        text = f"?{urlencode(query, errors='replace')}" if query else ""
        return msgspec.json.decode(self._ask("GET", path + text, None), type=kind)

    def post(self, path: str, kind: type[T], body: Any = None) -> T:
        """The same for a request that changes something."""
        return msgspec.json.decode(self._ask("POST", path, body), type=kind)

    def put(self, path: str, kind: type[T], body: Any) -> T:
        """The same for a request that replaces something."""
        return msgspec.json.decode(self._ask("PUT", path, body), type=kind)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _ask(self, method: str, path: str, body: Any) -> bytes:
        content = b"" if body is None else _encoded(body)
        headers: Mapping[str, str] = {"Content-Type": "application/json"}
        try:
            self._connection.request(method, f"/{API_VERSION}{path}", content, headers)
            answer = self._connection.getresponse()
            found = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise errors.PoolSilent(str(error) or "it closed the connection") from None
        if answer.status < 400:
            return found
        try:
            problem = msgspec.json.decode(found, type=Problem)
        except msgspec.MsgspecError:
            raise errors.PoolSilent(
                f"it answered {answer.status}, as another version may"
            ) from None
        raise errors.from_parts(problem.kind, problem.what, problem.hint, problem.exit_code)


def _encoded(body: Any) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # JSON has only text
        raise errors.BadArgument(
            "a word of the command or of the environment is no text in UTF-8", "another one"
        ) from None


def of(target: str, act: str = "") -> str:
    """The path of a workload by its number or name; raises WorkUnknown for what is neither."""
    if not NAME.fullmatch(target):
        raise errors.WorkUnknown(repr(target[:40]))
    return f"/workloads/{quote(target, safe='')}{f'/{act}' if act else ''}"


def is_up(paths: PoolPaths) -> bool:
    """Whether a pool has its store locked here."""
    return file_lock.is_held(paths.lock)


def start(paths: PoolPaths, agent_arguments: list[str]) -> None:
    """Start a server in the background and wait until it answers; raises what stopped it."""
    prepare(paths.agent)
    with must_be_usable(paths.agent):
        paths.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = os.open(paths.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    ready, theirs = os.pipe()
    which = "system" if paths.agent.shared else "own"
    command = [sys.executable, "-m", "moiety.pool.server", str(paths.agent.path), which]
    subprocess.Popen(
        [*command, str(theirs), *agent_arguments],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=[theirs],
        start_new_session=True,
        cwd="/",
        env=environment_of_agents(),
    ).returncode = 0  # it is not waited for: it outlives this command
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
