"""The system's journal as a place for log lines (its own protocol: fields in one datagram)."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

SOCKET: Final = Path("/run/systemd/journal/socket")
LEVELS: Final = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
"""Syslog's number of each level."""
VALUE_MAX: Final = 4096
"""Most characters of one field, because a datagram is limited."""


def fields(event: Mapping[str, Any], sentence: str) -> bytes:
    """Encode one entry: `sentence` is its message, each key of the event a field of its own."""
    known: dict[str, str] = {
        "MESSAGE": sentence,
        "PRIORITY": str(LEVELS.get(str(event.get("level")), 6)),
        "SYSLOG_IDENTIFIER": "moiety",
        "SYSLOG_PID": str(os.getpid()),
    }
    for key, value in event.items():
        if key not in ("level", "time"):
            name = "".join(c if c.isascii() and c.isalnum() else "_" for c in key)
            known[f"MOIETY_{name.upper()}"] = str(value)
    return b"".join(_field(name, value[:VALUE_MAX]) for name, value in known.items())


def _field(name: str, value: str) -> bytes:
    """NAME=value, or with its length before it where a line's end is part of it."""
    raw = value.encode("utf-8", "replace")
    if b"\n" not in raw:
        return name.encode() + b"=" + raw + b"\n"
    return name.encode() + b"\n" + struct.pack("<Q", len(raw)) + raw + b"\n"


class Journald:
    """A structlog logger's end. Without a journal, lines with a `<level>` in front on stderr."""

    def __init__(self, path: Path = SOCKET) -> None:
        self._path = str(path)

    def msg(self, event: Mapping[str, Any], sentence: str) -> None:
        """Write one entry, without waiting; a journal that does not keep up loses it."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto(fields(event, sentence), self._path)
        except BlockingIOError:
            pass
        except OSError:
            level = LEVELS.get(str(event.get("level")), 6)
            to_stderr(f"<{level}>{sentence}\n")

    log = debug = info = warning = error = critical = exception = msg


def to_stderr(text: str) -> None:
    """Write to stderr what it takes at once, and lose the rest.

    The agent does not wait for a full pipe or a terminal that is held (Ctrl-S), and a closed stderr
    is no error.
    """
    try:
        fd = sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):  # a test's, or none at all
        if sys.stderr is not None:
            sys.stderr.write(text)
        return
    with contextlib.suppress(OSError):
        if select.select([], [fd], [], 0)[1]:
            os.write(fd, text.encode("utf-8", "replace")[: select.PIPE_BUF])
