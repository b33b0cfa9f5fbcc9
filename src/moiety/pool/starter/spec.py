"""The spec of a workload: the program, its user, its folder and its time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

UNLIMITED: Final = -1
"""A resource limit that is none."""
SHORTEST_LIMIT_S: Final = 0.001
"""It is written in thousandths, and 0 is no limit."""

_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A workload's process, its limits and its files; paths are opened as the user."""

    id: str
    attempt: int
    uid: int
    gid: int
    groups: Sequence[int] = ()
    arguments: Sequence[str | bytes]
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    umask: int = 0o022
    stdin: str | None = None
    """None is /dev/null."""
    stdout: str | None = None
    """None is /dev/null."""
    stderr: str | None = None
    """None is what stdout is."""
    open_mode: Literal["append", "truncate"] = "append"
    resource_limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Soft and hard by name (`NOFILE`); UNLIMITED is none."""
    memory_bytes: int | None = None
    """Of all processes together, where the supervisor has a cgroup for it."""
    pids: int | None = None
    """Of all processes together, where the supervisor has a cgroup for it."""
    time_limit_s: float | None = None
    grace_s: float = 10.0
    warn_signal: int = 0
    """Sent before the time limit; 0: none."""
    warn_s: float = 60.0
    """How long before."""
    warn_first: bool = False
    """Whether only the main process gets it, and not all."""
    keep_children: bool = False
    """Whether processes that the main one leaves behind go on."""
    allow_new_privileges: bool = False
    """Whether set-user-id programs work (`sudo`, `newuidmap`)."""


def is_id(text: str) -> bool:
    """Whether this can name a workload: at most 64 of letters, digits and `._-`."""
    return _ID.fullmatch(text) is not None


def encoded(spec: Spec) -> bytes:
    """The spec as the supervisor reads it; raises ValueError if it cannot be written so."""
    if not is_id(spec.id):
        raise ValueError(f"{spec.id!r} is no id of a workload")
    if not spec.arguments:
        raise ValueError("a workload needs a program")
    return b"".join(_record(key, value) for key, value in _records(spec))


def _record(key: str, value: str | bytes) -> bytes:
    content = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    if b"\0" in content or "\0" in key:
        raise ValueError(f"{key} has a zero byte in it")
    return key.encode() + b"=" + content + b"\0"


def _records(spec: Spec) -> Iterator[tuple[str, str | bytes]]:
    yield "id", spec.id
    yield "attempt", str(spec.attempt)
    yield "uid", str(spec.uid)
    yield "gid", str(spec.gid)
    yield "groups", ",".join(str(group) for group in spec.groups)
    yield "cwd", spec.cwd
    yield "umask", f"{spec.umask:o}"
    yield "open_mode", spec.open_mode
    for name, path in (("stdin", spec.stdin), ("stdout", spec.stdout), ("stderr", spec.stderr)):
        if path is not None:
            yield name, path
    for name, (soft, hard) in spec.resource_limits.items():
        yield f"rlimit.{name}", f"{_limit(soft)}:{_limit(hard)}"
    if spec.memory_bytes is not None:
        yield "limit.memory_bytes", str(spec.memory_bytes)
    if spec.pids is not None:
        yield "limit.pids", str(spec.pids)
    limit_s = max(spec.time_limit_s, SHORTEST_LIMIT_S) if spec.time_limit_s else 0.0
    yield "time_limit_s", f"{limit_s:.3f}"
    yield "grace_s", f"{spec.grace_s:.3f}"
    if spec.warn_signal:
        yield "warn_signal", str(spec.warn_signal)
        yield "warn_s", f"{spec.warn_s:.3f}"
        yield "warn_first", str(int(spec.warn_first))
    yield "keep_children", str(int(spec.keep_children))
    yield "allow_new_privileges", str(int(spec.allow_new_privileges))
    for argument in spec.arguments:
        yield "arg", argument
    for name, value in spec.environment.items():
        yield "env", f"{name}={value}"


def _limit(value: int) -> str:
    return "unlimited" if value == UNLIMITED else str(value)
