"""How a command puts a new agent in the place of one that runs, while programs run on.

The next agent is started first, and stands by. The last one ends in order, and its programs keep
their memory: holders run on, others wait at the gate. The next one has the version of the command,
and the command line of the last.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moiety.agent.control import protocol
from moiety.agent.control.client import (
    START_TIMEOUT_S,
    Call,
    begin,
    call,
    environment_of_agents,
    is_ready,
)
from moiety.agent.system import file_lock
from moiety.agent.system.paths import Directory
from moiety.agent.system.stand_by import AFTER, Standby
from moiety.model import errors

MODULE: Final = "moiety.agent"
READY: Final = "--ready-fd"
OWN: Final = ("MOIETY_NATIVE",)
"""Settings that name a version's own files."""
SETTLE_TIMEOUT_S: Final = 15.0
LOOK_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class Restarted:
    """What was done."""

    before: str
    """Version of the last agent; empty if it does not speak with this command."""
    version: str
    pid: int
    """The next agent's."""
    pause_s: float
    """From the end of the last agent's decisions until the next one has all programs."""


def restart(directory: Directory) -> Restarted:
    """Replace the agent of a directory by one of this version.

    Raises NoAgent, NotAllowed for an agent that another service starts, AgentSilent, and what stops
    the next agent.
    """
    pid, before = _running(directory)
    _must_be_ours(pid)
    arguments, environment = arguments_of(pid), environment_of(pid)
    if not file_lock.is_held(directory.supervisor_lock) or arguments is None:
        raise errors.NotAllowed(
            f"the agent in {directory.path}, pid {pid}, is started by something else",
            "systemctl restart moiety, or end it where it was started and start it there again",
        )
    try:
        lock = file_lock.take(directory.start_lock, f"pid {os.getpid()}", START_TIMEOUT_S)
    except file_lock.LockHeld as held:
        raise errors.AgentSilent(problem=f"{held}, which starts an agent") from None
    try:
        standby = Standby()
        ready = begin(directory, arguments, environment, standby.theirs.fileno())
        try:
            if not standby.wait(START_TIMEOUT_S):
                _ready(directory, ready)  # says why
                raise errors.AgentSilent(problem=f"it does not start; {directory.log} says why")
            began_s = time.monotonic()
            standby.begin_after(pid)
            _tell_to_end(directory, pid, speaks=bool(before))
            _ready(directory, ready)
        finally:
            standby.close()
        with call(directory) as next_one:
            _wait_until(lambda: _is_settled(next_one), SETTLE_TIMEOUT_S)
            here = next_one.agent
    finally:
        lock.release()
    return Restarted(before, here.product, here.pid, time.monotonic() - began_s)


def _must_be_ours(pid: int, proc: Path = Path("/proc")) -> None:
    """Raise NotAllowed for an agent of another user, unless this one is root."""
    try:
        owner = (proc / str(pid)).stat().st_uid
    except FileNotFoundError:
        return  # of another PID namespace, or it has just ended
    if os.getuid() not in (0, owner):
        who = "root" if owner == 0 else f"root and user {owner}"
        raise errors.NotAllowed(f"only {who} may put another agent in the place of this one")


def arguments_of(pid: int, proc: Path = Path("/proc")) -> list[str] | None:
    """The arguments of a process that is an agent in the background; None for any other."""
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().decode().split("\0")[:-1]
    except (OSError, UnicodeDecodeError):
        return None
    if words[1:3] != ["-m", MODULE]:
        return None
    arguments = words[3:]
    for own in (READY, AFTER):
        if arguments[:1] == [own]:
            del arguments[:2]
    return arguments


def environment_of(pid: int, proc: Path = Path("/proc")) -> dict[str, str]:
    """The environment for the next agent: the settings of the last one, this command's software."""
    found = environment_of_agents()
    try:
        parts = (proc / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return found
    last = dict(os.fsdecode(part).split("=", 1) for part in parts if b"=" in part)
    settings = {k: v for k, v in last.items() if k.startswith("MOIETY_") and k not in OWN}
    kept = {k: v for k, v in found.items() if not k.startswith("MOIETY_") or k in OWN}
    return {**kept, **settings}


def _running(directory: Directory) -> tuple[int, str]:
    """The agent's pid and version; no version if it does not speak with this command."""
    try:
        with call(directory) as running:
            return running.agent.pid, running.agent.product
    except errors.AgentVersion:
        try:
            return int(directory.lock.read_text().split()[1]), ""
        except (OSError, ValueError, IndexError):
            raise errors.NoAgent(str(directory.path), shared=directory.shared) from None


def _tell_to_end(directory: Directory, pid: int, *, speaks: bool) -> None:
    """Have the last agent end in order."""
    if speaks:
        with call(directory) as running:
            running.ask(protocol.Stop(force=True, restarts=True), protocol.Done)
        return
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError:
        raise errors.AgentNotYours(directory=str(directory.path)) from None
    except ProcessLookupError:
        pass


def _ready(directory: Directory, ready: int) -> None:
    """Wait until the next agent is ready; raises what stopped it."""
    if not is_ready(directory, ready):
        raise errors.AgentSilent(problem=f"it ended at once; {directory.log} says why")


def _is_settled(running: Call) -> bool:
    return running.ask(protocol.Status(), protocol.NodeStatus).settled


def _wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not (found := condition()) and time.monotonic() < deadline_s:
        time.sleep(LOOK_S)
    return found
