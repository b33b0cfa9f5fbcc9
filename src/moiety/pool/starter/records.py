"""The records that a supervisor leaves in a workload's folder: how it began, and how it ended.

They are text, a word and its values on each line. They are written whole and renamed, so a reader
finds a whole one or none; a file that is damaged all the same is told apart from a missing one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

_BYTES_MAX: Final = 8192


class EndReason(StrEnum):
    """Why a workload was ended."""

    ENDED = "ended"
    """By itself, or by a signal that the supervisor did not send."""
    TIME_LIMIT = "time_limit"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process of one boot: its number counts only together with its start time."""

    pid: int
    start_ticks: int
    """Since the boot, as field 22 of /proc/PID/stat has it."""


@dataclass(frozen=True, slots=True)
class Started:
    """An attempt that has begun, or is about to: it is on disk before the program is executed."""

    attempt: int
    boot_id: str
    supervisor: ProcessIdentity
    child: ProcessIdentity
    processes: str
    """`cgroup` if the workload's processes are those of a cgroup, else `session`."""
    limits: frozenset[str]
    """What a cgroup limits: `memory`, `pids`."""
    begin_s: float
    """Wall clock, seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Exited:
    """The main process ended by itself."""

    code: int


@dataclass(frozen=True, slots=True)
class Signaled:
    """A signal ended the main process."""

    signal: int


@dataclass(frozen=True, slots=True)
class FailedToStart:
    """The program was not executed."""

    errno: int
    text: str
    """What could not be done, and the errno's text; what is not printable in it is `?`."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The supervisor ended before the workload did: its exit status is not known."""


Outcome = Exited | Signaled | FailedToStart | Lost


@dataclass(frozen=True, slots=True)
class Exit:
    """How an attempt ended."""

    attempt: int
    outcome: Outcome
    reason: EndReason
    begin_s: float
    """Wall clock, seconds since 1970."""
    end_s: float
    """When its last process had ended."""
    user_s: float
    system_s: float
    max_rss_kib: int


@dataclass(frozen=True, slots=True)
class Damaged:
    """A record that cannot be read."""

    name: str
    why: str


def read_started(folder: Path | int) -> Started | Damaged | None:
    """The record of the last start in a folder (path or descriptor); None if there is none."""
    lines = _lines("started", folder)
    if not isinstance(lines, Mapping):
        return lines
    try:
        return Started(
            attempt=int(lines["attempt"]),
            boot_id=lines["boot_id"],
            supervisor=_identity(lines["supervisor"]),
            child=_identity(lines["child"]),
            processes=lines["processes"],
            limits=frozenset(lines["limits"].split(",")) - {"none"},
            begin_s=float(lines["begin"]),
        )
    except (KeyError, ValueError) as error:
        return Damaged("started", _why(error))


def read_exit(folder: Path | int) -> Exit | Damaged | None:
    """The record of the last end in a folder (path or descriptor); None if there is none."""
    lines = _lines("exit", folder)
    if not isinstance(lines, Mapping):
        return lines
    try:
        return Exit(
            attempt=int(lines["attempt"]),
            outcome=_outcome(lines),
            reason=EndReason(lines["reason"]),
            begin_s=float(lines["begin"]),
            end_s=float(lines["end"]),
            user_s=float(lines["user"]),
            system_s=float(lines["system"]),
            max_rss_kib=int(lines["maxrss"]),
        )
    except (KeyError, ValueError) as error:
        return Damaged("exit", _why(error))


def _lines(name: str, folder: Path | int) -> Mapping[str, str] | Damaged | None:
    """Each line's first word with what follows it."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        if isinstance(folder, int):
            fd = os.open(name, flags, dir_fd=folder)
        else:
            fd = os.open(folder / name, flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Damaged(name, str(error))
    try:
        content = os.read(fd, _BYTES_MAX)
    except OSError as error:
        return Damaged(name, str(error))
    finally:
        os.close(fd)
    text = content.decode("utf-8", "replace")
    if not text.endswith("\n"):
        return Damaged(name, "its last line is not whole")
    pairs = [line.partition(" ")[::2] for line in text[:-1].split("\n")]
    if len(dict(pairs)) != len(pairs):
        return Damaged(name, "a line is there twice")
    return dict(pairs)


def _identity(text: str) -> ProcessIdentity:
    pid, start_ticks = text.split(" ")
    return ProcessIdentity(int(pid), int(start_ticks))


def _outcome(lines: Mapping[str, str]) -> Outcome:
    if "exited" in lines:
        return Exited(int(lines["exited"]))
    if "signaled" in lines:
        return Signaled(int(lines["signaled"]))
    if "failed_to_start" in lines:
        number, _, text = lines["failed_to_start"].partition(" ")
        return FailedToStart(int(number), "".join(c if c.isprintable() else "?" for c in text))
    if "lost" in lines:
        return Lost()
    raise ValueError("it does not say how the workload ended")


def _why(error: KeyError | ValueError) -> str:
    return f"it has no line {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
