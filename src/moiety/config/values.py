"""How settings are read from text: a ValueKind for each sort of value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from moiety.devices.budget import GRANULE_BYTES
from moiety.model.errors import InvalidDuration, InvalidSize
from moiety.model.share import Mode, Priority, check_quantum, parse_mode, parse_priority
from moiety.model.units import (
    AllocationLimit,
    format_bytes,
    format_duration,
    parse_bytes,
    parse_duration,
    parse_fraction,
    parse_memory_limit,
)

if TYPE_CHECKING:  # no command but the agent reads these, so the others need not wait for them
    from moiety.arbiter.settings import OverduePolicy, WhenFull
    from moiety.enforcement.policy import Exemption, Ladder

OVERDUE: Final = ("report", "fence", "kill")
"""The words of OverduePolicy; a test compares them."""
WHEN_FULL: Final = ("wait", "kill")
"""The words of WhenFull; a test compares them."""
YES: Final = ("true", "yes", "on", "1")
NO: Final = ("false", "no", "off", "0", "")
SOCKET_MODES: Final = (0o600, 0o660, 0o666)
WHOLE_GPUS: Final = "moiety.dev/gpu"
_RESOURCE: Final = r"[a-z0-9][a-z0-9.-]*/[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
"""`re` compiles a pattern when it is first used: most commands do not use this one."""


NAME: Final = re.compile(r"@?[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}\$?")
HOST: Final = r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*"
"""The pattern of a host name in small letters, without a port."""
DEADLINE_MIN_S: Final = 0.01
"""The shortest deadline: each drain would be reported as late, again and again, with a shorter."""
OVERCOMMIT_MAX: Final = 100.0
"""The largest factor by which programs may ask for more than there is."""


class ValueKind(msgspec.Struct, frozen=True):
    """A sort of value: how it is read from text, and what help calls it."""

    parse: Callable[[str], Any]
    """Reads the text; raises ValueError with a sentence."""
    metavar: str
    words: tuple[str, ...] = ()
    """All values that it can have, if they are a few words."""


def one_of(words: Iterable[str], metavar: str) -> ValueKind:
    """A value that is one of these words, or one of the members of an enum."""
    known = tuple(str(word) for word in words)
    make = words if isinstance(words, type) and issubclass(words, Enum) else str

    def parse(text: str) -> Any:
        if text in known:
            return make(text)
        raise ValueError(f"{text!r} is none of {', '.join(known)}")

    return ValueKind(parse, metavar, known)


def _ladder(text: str) -> Ladder:
    from moiety.enforcement.policy import parse_ladder

    return parse_ladder(text)


def _exemptions(text: str) -> tuple[Exemption, ...]:
    from moiety.enforcement.policy import parse_exemptions

    return parse_exemptions(text)


def _overdue(text: str) -> OverduePolicy:
    from moiety.arbiter.settings import OverduePolicy

    found: OverduePolicy = one_of(OverduePolicy, "WHAT").parse(text)
    return found


def _when_full(text: str) -> WhenFull:
    from moiety.arbiter.settings import WhenFull

    found: WhenFull = one_of(WhenFull, "WHAT").parse(text)
    return found


class LogFormat(StrEnum):
    """How the log is written."""

    TEXT = "text"
    """`key=value` lines in the agent's directory"""
    JSON = "json"
    """The same as one JSON object a line."""
    JOURNAL = "journal"
    """Entries of the system's journal, each key a field; no file."""


class Visible(StrEnum):
    """What one user sees of another's programs, where several share an agent."""

    NOTHING = "nothing"
    SIZES = "sizes"
    """Who, and how much of what; not what it is, nor how it was started."""
    ALL = "all"


class Address(msgspec.Struct, frozen=True):
    """A port of this machine (0: any that is free), or the path of a socket."""

    host: str = ""
    port: int = 0
    path: Path | None = None

    def __str__(self) -> str:
        if self.path:
            return str(self.path)
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`9402`, `127.0.0.1:9402`, `[::1]:9402` or `/run/moiety.sock`."""
    if text.startswith("/"):
        return Address(path=Path(text))
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535):
        raise ValueError(f"{text!r} is no address; write 9402, 127.0.0.1:9402 or a socket's path")
    import ipaddress  # seldom asked for, and not quick

    try:
        is_here = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise ValueError(f"{host!r} is no address; write 127.0.0.1") from None
    if not is_here:
        raise ValueError(
            f"{host} can be reached from elsewhere; metrics name programs, so only loopback "
            "addresses and sockets are served (put a proxy in front of it that asks who is there)"
        )
    return Address("127.0.0.1" if host == "localhost" else host, int(port))


def parse_gpus(text: str) -> tuple[int, ...]:
    """0,2 as (0, 2)."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 5 for part in parts):
        raise ValueError(f"{text!r} is no list of GPU indices; write 0,1")
    return tuple(sorted({int(part) for part in parts}))


def parse_hosts(text: str) -> tuple[str, ...]:
    """A,b.EXAMPLE as ("a", "b.example")."""
    names = tuple(part.strip().lower().rstrip(".") for part in text.split(","))
    if not all(re.fullmatch(HOST, name) for name in names):
        raise ValueError(f"{text!r} is no list of host names; write gpu1,gpu1.lab.test")
    return names


def parse_factor(text: str) -> float:
    """A number that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError(f"{text!r} must be a number from 0 on")
    return value


def parse_overcommit(text: str) -> float:
    """A number from 1 to 100."""
    value = parse_factor(text)
    if not 1 <= value <= OVERCOMMIT_MAX:
        raise ValueError(f"{text!r} must be a number from 1 (no overcommit) to {OVERCOMMIT_MAX:g}")
    return value


def parse_capacity(text: str) -> int:
    """Bytes, one granule of GPU memory at least."""
    value = parse_bytes(text)
    if value < GRANULE_BYTES:
        raise ValueError(f"{text!r} is too little, {format_bytes(GRANULE_BYTES)} are the least")
    return value


def parse_some_bytes(text: str) -> int:
    """Bytes, more than none."""
    if value := parse_bytes(text):
        return value
    raise InvalidSize(text, "is no memory at all")


def parse_speed(text: str) -> int:
    """Bytes in a second, more than none."""
    if value := parse_bytes(text):
        return value
    raise ValueError(f"{text!r} is no speed at all")


def parse_some_time(text: str) -> float:
    """Seconds, more than none."""
    if value := parse_duration(text):
        return value
    raise InvalidDuration(text, "is no time at all")


def parse_deadline(text: str) -> float:
    """Seconds, not fewer than DEADLINE_MIN_S: a program needs some time for its answer."""
    if (value := parse_duration(text)) >= DEADLINE_MIN_S:
        return value
    least = format_duration(DEADLINE_MIN_S)
    raise InvalidDuration(text, f"is too short for an answer: {least} are the least")


def parse_quantum(text: str) -> float:
    """Seconds, 0 for none of its own."""
    return check_quantum(value) if (value := parse_duration(text)) else value


def parse_socket_mode(text: str) -> int:
    """Who may come to a socket, as its permissions in octal."""
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if mode not in SOCKET_MODES:
        known = ", ".join(f"{each:04o}" for each in SOCKET_MODES)
        raise ValueError(f"{text!r} is no socket's mode; one of {known}, between quotes in a file")
    return mode


def parse_group(text: str) -> int:
    """The number of a group, by its name or number."""
    if text.isascii() and text.isdecimal() and len(text) <= 10:
        if int(text) < 0xFFFFFFFF:  # which would mean that nothing is changed
            return int(text)
        raise ValueError(f"there is no group {text!r}")
    import grp  # seldom asked for

    try:
        return grp.getgrnam(text).gr_gid
    except (KeyError, ValueError):  # the latter for what no name can have in it
        raise ValueError(f"there is no group {text!r}") from None


def parse_count(text: str) -> int:
    """A whole number, not negative."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise ValueError(f"{text!r} is no number of things")
    return int(text)


def parse_names(text: str) -> tuple[str, ...]:
    """Names of users, and of groups with @ before them: `ann,@gpu-admins`."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name[:40]!r} is no user, and no group such as @gpu-admins")
    return names


def parse_resources(text: str) -> dict[str, str]:
    """Names of resources with the models that they are of: `moiety.dev/a100-percent=*A100*`."""
    found = {}
    for part in text.split(","):
        name, equals, model = (word.strip() for word in part.partition("="))
        if not equals or not model or not re.fullmatch(_RESOURCE, name):
            raise ValueError(f"{part!r} is no DOMAIN/NAME=MODEL")
        if name == WHOLE_GPUS:
            raise ValueError(f"{name} is whole GPUs, and units are percent of one: {name}-percent")
        found[name] = model
    return found


def parse_switch(text: str) -> bool:
    """Whether something is on."""
    word = text.strip().lower()
    if word in YES:
        return True
    if word in NO:
        return False
    raise ValueError(f"{text!r} is neither true nor false")


Size = Annotated[int, ValueKind(parse_bytes, "SIZE")]
Memory = Annotated[int, ValueKind(parse_some_bytes, "SIZE")]
SomeMemory = Annotated[AllocationLimit, ValueKind(parse_memory_limit, "SIZE")]
Capacity = Annotated[int, ValueKind(parse_capacity, "SIZE")]
Speed = Annotated[int, ValueKind(parse_speed, "SIZE")]
Time = Annotated[float, ValueKind(parse_duration, "TIME")]
Deadline = Annotated[float, ValueKind(parse_deadline, "TIME")]
SomeTime = Annotated[float, ValueKind(parse_some_time, "TIME")]
Quantum = Annotated[float, ValueKind(parse_quantum, "TIME")]
Part = Annotated[float, ValueKind(parse_fraction, "PART")]
Factor = Annotated[float, ValueKind(parse_factor, "N")]
Overcommit = Annotated[float, ValueKind(parse_overcommit, "N")]
Count = Annotated[int, ValueKind(parse_count, "N")]
Switch = Annotated[bool, ValueKind(parse_switch, "BOOL")]
Text = Annotated[str, ValueKind(str, "TEXT")]
Folder = Annotated[Path, ValueKind(Path, "DIR")]
Gpus = Annotated[tuple[int, ...], ValueKind(parse_gpus, "LIST")]
Hosts = Annotated[tuple[str, ...], ValueKind(parse_hosts, "LIST")]
At = Annotated[Address, ValueKind(parse_address, "ADDRESS")]
SocketMode = Annotated[int, ValueKind(parse_socket_mode, "MODE")]
Names = Annotated[tuple[str, ...], ValueKind(parse_names, "LIST")]
Group = Annotated[int, ValueKind(parse_group, "GROUP")]
Resources = Annotated[dict[str, str], ValueKind(parse_resources, "NAME=MODEL,...")]
Steps = Annotated["Ladder", ValueKind(_ladder, "STEPS")]
Exempt = Annotated["tuple[Exemption, ...]", ValueKind(_exemptions, "LIST")]
PriorityClass = Annotated[Priority, ValueKind(parse_priority, "CLASS", tuple(map(str, Priority)))]
MemoryMode = Annotated[Mode, ValueKind(parse_mode, "MODE", tuple(Mode))]
CleanMode = Annotated[str, one_of(("off", "on", "verify"), "HOW")]
WhatIsSeen = Annotated[Visible, one_of(Visible, "WHAT")]
WhenHostFull = Annotated["WhenFull", ValueKind(_when_full, "WHAT", WHEN_FULL)]
WhenOverdue = Annotated["OverduePolicy", ValueKind(_overdue, "WHAT", OVERDUE)]
Log = Annotated[LogFormat, one_of(LogFormat, "FORM")]
When = Annotated[str, one_of(("auto", "always", "never"), "WHEN")]
WhichAgent = Annotated[str, one_of(("auto", "own", "system"), "WHICH")]
KubeMode = Annotated[str, one_of(("dra", "plugin", "both"), "MODE")]
