"""How a command talks to the agent, and starts one. Blocking, small, quick to import."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Final, Self, TypeVar

import msgspec

from moiety.agent.control import protocol
from moiety.agent.system import file_lock, processes
from moiety.agent.system.paths import Directory, must_be_usable, prepare
from moiety.agent.system.stand_by import AFTER
from moiety.model import errors
from moiety.version import __version__
from moiety.wire.layout import VERSION

START_TIMEOUT_S = 20.0
ANSWER_TIMEOUT_S = 10.0
WAITING_TIMEOUT_S = 60.0
"""The same between two lines to a command that waits for GPUs; the agent sends one each 10 s."""
RESTART_TIMEOUT_S = 20.0
"""Seconds that a killed agent may take to be back."""
STARTS = 3
"""How often an agent is started that dies without a word before it is ready."""
RETRY_S = 0.02
SAY_AFTER_S = 2.0
"""Seconds after which a command says that it waits for an agent."""

PATHS: Final = (
    "MOIETY_CONFIG",
    "MOIETY_DIR",
    "MOIETY_LOCK_DIR",
    "MOIETY_NATIVE",
    "MOIETY_SIMGPU_STATE",
    "MOIETY_SYSTEM_DIR",
)
"""Variables whose paths may be relative to the command's directory."""

A = TypeVar("A", bound=protocol.Answer)
T = TypeVar("T")


class HungUp(errors.AgentSilent):
    """The agent ended in the middle of a conversation."""


class Call:
    """A conversation with the agent; use it as a context manager."""

    def __init__(self, directory: Directory, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Connect and greet; raises NoAgent, AgentNotYours, AgentVersion or AgentSilent."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        sock.settimeout(timeout_s)
        try:
            sock.connect(str(directory.control))
        except OSError as error:
            sock.close()
            if error.errno in (errno.EACCES, errno.EPERM):
                if directory.shared:
                    raise errors.NotAllowed(*_not_let_in(directory)) from None
                raise errors.AgentNotYours(directory=str(directory.path)) from None
            raise errors.NoAgent(directory=str(directory.path), shared=directory.shared) from None
        if not _is_trusted(directory, processes.peer_of(sock)):
            sock.close()  # every user can make a directory with our name in /tmp
            raise errors.AgentNotYours(directory=str(directory.path))
        self._sock = sock
        self._file = sock.makefile("rb")
        self.directory = directory
        try:
            self.agent = self.ask(protocol.HelloRequest(product=__version__), protocol.Here)
            if not self.agent.wire - 1 <= VERSION <= self.agent.wire:
                raise errors.AgentVersion(agent=self.agent.product, own=__version__)
        except HungUp:
            self.close()  # it ended between connect and now
            raise errors.NoAgent(directory=str(directory.path), shared=directory.shared) from None
        except BaseException:
            self.close()
            raise

    def ask(self, request: protocol.ControlRequest, answer: type[A]) -> A:
        """Send one request and return its answer; raises the error that the agent raised."""
        return read_answer(self._line(request), answer)

    def wait(
        self,
        request: protocol.CreateWorkload,
        told: Callable[[protocol.Waiting], None],
    ) -> protocol.Created:
        """Send a request that waits for room; `told` is called with each Waiting before the answer.

        Raises the error that the agent raised.
        """
        line = self._line(request)
        self._sock.settimeout(WAITING_TIMEOUT_S)
        kinds = protocol.Waiting | protocol.Created
        while isinstance(found := _decoded(line, kinds), protocol.Waiting):
            told(found)
            line = self._line()
        return read_answer(line, protocol.Created)

    def _line(self, request: protocol.ControlRequest | None = None) -> bytes:
        """The next line from the agent, after a request if there is one."""
        try:
            # An agent that turns a caller away may have hung up: what it said first can be read.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                if request:
                    self._sock.sendall(protocol.encode(request) + b"\n", socket.MSG_NOSIGNAL)
            line = self._file.readline()
        except TimeoutError:
            problem = f"nothing came in {self._sock.gettimeout():.0f} s; is it stopped?"
            raise errors.AgentSilent(problem=problem) from None
        except OSError as error:
            raise HungUp(problem=error.strerror or str(error)) from None
        if not line:
            raise HungUp(problem="it closed the connection")
        return line

    def interrupt(self) -> None:
        """Make another thread's question fail; that thread hangs up."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _not_let_in(directory: Directory) -> tuple[str, str]:
    return (
        f"the agent of this machine, in {directory.path}, does not let you in",
        "its administrator (--socket-mode, --socket-group); an agent of your own for GPUs that it "
        "does not have: MOIETY_AGENT=own",
    )


def _is_trusted(directory: Directory, agent: processes.Peer) -> bool:
    """Whether a command may obey this agent: it is this user's, root's, or the machine's.

    Only root can make /run/moiety, so root chose the user that owns it.
    """
    if processes.may_use(agent, os.getuid()):
        return True
    try:
        return directory.shared and os.stat(directory.path).st_uid == agent.uid
    except OSError:
        return False


def _decoded(line: bytes, expected: type[protocol.Answer] | UnionType) -> protocol.Answer:
    try:
        found = protocol.decode_answer(line, expected)
    except msgspec.MsgspecError as error:
        raise errors.AgentSilent(problem=f"it answered in an unknown way: {error}") from None
    return found


def read_answer(line: bytes, answer: type[A]) -> A:
    """Return the answer of this type in one line; raises the error if the line is one."""
    found = _decoded(line, answer)
    if isinstance(found, protocol.Failed):
        raise errors.from_parts(found.kind, found.what, found.hint, found.exit_code)
    if not isinstance(found, answer):
        raise errors.AgentSilent(problem=f"it answered {type(found).__name__}")
    return found


def call(directory: Directory) -> Call:
    """The agent of this directory, also if it was killed just now and is coming back."""
    return _wait_for(directory, RESTART_TIMEOUT_S, _comes_back)


def _comes_back(directory: Directory) -> bool:
    """Whether an agent that does not answer was killed, and is started again.

    The system's service manager is not asked: an agent that ends in order leaves no socket.
    """
    return _is_supervised(directory) or (directory.shared and os.path.lexists(directory.control))


def _is_supervised(directory: Directory) -> bool:
    return file_lock.is_held(directory.supervisor_lock)


def call_or_start(directory: Directory, arguments: Sequence[str]) -> Call:
    """The agent of this directory; one is started, with these arguments, if there is none.

    An agent for all users is started by an administrator, and waited for at most.
    """
    if directory.shared:
        return call(directory)
    try:
        return Call(directory)
    except errors.NoAgent:
        pass
    prepare(directory)
    try:
        with must_be_usable(directory):
            lock = file_lock.take(directory.start_lock, f"pid {os.getpid()}", START_TIMEOUT_S)
    except file_lock.LockHeld as held:
        raise errors.AgentSilent(problem=f"{held}, which does not get it started") from None
    try:
        return _call_or_start(directory, arguments)
    finally:
        lock.release()


def _call_or_start(directory: Directory, arguments: Sequence[str]) -> Call:
    for _ in range(STARTS):
        with contextlib.suppress(errors.NoAgent):
            return call(directory)
        # It may be killed together with what starts it again, or the last one has not quite ended.
        with contextlib.suppress(errors.AgentAlreadyRunning):
            if _starts(directory, arguments):
                return _wait_for(directory, RESTART_TIMEOUT_S)
    raise _ended_at_once(directory)


def ask_or_start(directory: Directory, arguments: Sequence[str], ask: Callable[[Call], T], /) -> T:
    """What `ask` returns of a call to the agent, which is started if there is none.

    It is called again if the agent is killed or ends meanwhile; raises the error of the last time.
    """
    deadline_s = time.monotonic() + RESTART_TIMEOUT_S
    while True:
        began_s = time.monotonic()
        try:
            with call_or_start(directory, arguments) as call:
                return ask(call)
        except (HungUp, errors.AgentStopping):
            failed_s = time.monotonic()
            if failed_s - began_s >= RESTART_TIMEOUT_S:  # it waited long for GPUs
                deadline_s = failed_s + RESTART_TIMEOUT_S
            if failed_s >= deadline_s:
                raise
        time.sleep(RETRY_S)


def arguments_from_environment() -> list[str]:
    """The arguments in $MOIETY_AGENT_ARGS for agents that are started; raises BadArgument."""
    text = os.environ.get("MOIETY_AGENT_ARGS", "")
    if not text:
        return []
    import shlex

    try:
        return shlex.split(text)
    except ValueError as error:
        problem = f"MOIETY_AGENT_ARGS: {error}"
        raise errors.BadArgument(problem, "what a shell would take apart") from None


def start(
    directory: Directory,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Start an agent in the background and wait until it is ready; raises what stopped it.

    `environment` is the agent's; None: as this process has it.
    """
    if not _starts(directory, arguments, environment):
        raise _ended_at_once(directory)


def _ended_at_once(directory: Directory) -> errors.MoietyError:
    try:
        with must_be_usable(directory):  # on a full disk the log says nothing
            directory.start_lock.write_text("is there room?\n")
    except errors.BadAgentDirectory as error:
        return error
    return errors.AgentSilent(problem=f"it ended at once; {directory.log} says why")


def _starts(
    directory: Directory,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> bool:
    """Start an agent; False if it was killed, or failed without a word, before it was ready."""
    return is_ready(directory, begin(directory, arguments, environment))


def begin(
    directory: Directory,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    after: int | None = None,
) -> int:
    """Start an agent; returns the descriptor of a pipe for `is_ready`.

    With `after`, a socket for `stand_by`, it stands by until it is told to begin.
    """
    import subprocess  # only here: most commands start no agent

    prepare(directory)
    if directory.shared and "--system" not in arguments:
        arguments = ["--system", *arguments]
    with must_be_usable(directory):
        log = os.open(directory.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    ready, theirs = os.pipe()
    command = [sys.executable, "-m", "moiety.agent.supervisor"]
    stand_by = [] if after is None else [AFTER, str(after)]
    command += [str(directory.supervisor_lock), str(theirs), *stand_by, *arguments]
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=[theirs] if after is None else [theirs, after],
        start_new_session=True,
        cwd="/",
        env=environment or environment_of_agents(),
        check=False,
    )
    os.close(theirs)
    os.close(log)
    return ready


def is_ready(directory: Directory, ready: int) -> bool:
    """Wait for an agent from `begin`; False if it was killed, or failed without a word.

    Raises what stopped it.
    """
    with os.fdopen(ready, "rb") as pipe:
        if not select.select([pipe], [], [], START_TIMEOUT_S)[0]:
            raise errors.AgentSilent(problem=f"it was not ready after {START_TIMEOUT_S:.0f} s")
        line = pipe.readline()
    if not line:
        with contextlib.suppress(errors.NoAgent):
            _wait_for(directory, RESTART_TIMEOUT_S, _is_supervised).close()
            return True  # another supervisor brings one
        return False
    read_answer(line, protocol.Done)
    return True


def environment_of_agents() -> dict[str, str]:
    """An agent's environment: it lives in another directory and must not be preloaded itself."""
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "MOIETY_SOCKET")}
    source = str(Path(__file__).resolve().parents[2])
    known = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(":") if p]
    environment["PYTHONPATH"] = ":".join([source, *(p for p in known if p != source)])
    for name in PATHS:
        if environment.get(name):
            environment[name] = os.path.abspath(environment[name])
    return environment


def _wait_for(
    directory: Directory,
    timeout_s: float,
    is_expected: Callable[[Directory], bool] | None = None,
) -> Call:
    """The next agent of a directory, while one is expected; raises NoAgent."""
    began_s = time.monotonic()
    said = os.environ.get("MOIETY_QUIET", "0") not in ("", "0")
    while True:
        try:
            return Call(directory)
        except errors.NoAgent:
            waited_s = time.monotonic() - began_s
            if waited_s >= timeout_s or not (is_expected is None or is_expected(directory)):
                raise
            if waited_s >= SAY_AFTER_S and not said:
                said = True
                _say(
                    f"no agent answers in {directory.path}; waiting for the next one, "
                    f"{timeout_s:.0f} s at most"
                )
            time.sleep(RETRY_S)


def _say(sentence: str) -> None:
    with contextlib.suppress(OSError, AttributeError):  # stderr is closed
        sys.stderr.write(f"moiety: {sentence}\n")
        sys.stderr.flush()
