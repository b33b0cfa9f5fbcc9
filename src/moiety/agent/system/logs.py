"""The agent's log: one line for each thing, in a file that stays small, or in the journal."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moiety.agent.system.journald import SOCKET, Journald, to_stderr
from moiety.config.structured_log import structlog_alone, timed_logger
from moiety.config.values import LogFormat

MAX_BYTES = 4 << 20


class BoundedFile:
    """A text file that is moved aside (once, to NAME.1) when it has grown to its limit."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._fd, self._size = self._opened()

    def write(self, text: str) -> int:
        """Append; a full disk loses the line, not the agent."""
        try:
            if self._size + len(text) > self._max_bytes:
                self._begin_anew()
            self._size += os.write(self._fd, text.encode("utf-8", "replace"))
        except OSError:
            pass
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Write no more."""
        os.close(self._fd)

    def _begin_anew(self) -> None:
        with contextlib.suppress(FileNotFoundError):  # another process has moved it already
            os.replace(self._path, self._path.with_name(self._path.name + ".1"))
        # The old one is closed last: if the folder is gone, no other file may get its number.
        fd, size = self._opened()
        os.close(self._fd)
        self._fd, self._size = fd, size

    def _opened(self) -> tuple[int, int]:
        """A descriptor of the file, and how long it is."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._path, flags, 0o600)
        return fd, os.fstat(fd).st_size


class LossyFile:
    """A text file that another process has opened: a full disk loses lines, and nothing else."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, text: str) -> int:
        """Append."""
        with contextlib.suppress(OSError):
            os.write(self._fd, text.encode("utf-8", "replace"))
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""


class Both:
    """Everything into the file, and onto the terminal of a foreground agent."""

    def __init__(self, file: BoundedFile) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write to stderr and to the file."""
        to_stderr(text)
        return self._file.write(text)

    def flush(self) -> None:
        """Nothing is held back."""


def open_log(
    path: Path,
    *,
    also_stderr: bool,
    form: LogFormat = LogFormat.TEXT,
    journal: Path = SOCKET,
) -> Any:
    """A structlog logger that writes there, or to the journal."""
    structlog = structlog_alone()
    in_order = structlog.processors.LogfmtRenderer(
        key_order=["time", "level", "event"], bool_as_flag=False
    )
    render: Callable[..., Any] = in_order
    logger: Any
    if form is LogFormat.JOURNAL:
        render = _for_journal(structlog.processors.LogfmtRenderer(bool_as_flag=False))
        logger = Journald(journal)
    else:
        file = BoundedFile(path)
        logger = structlog.WriteLogger(Both(file) if also_stderr else file)
        if form is LogFormat.JSON:
            render = structlog.processors.JSONRenderer(default=str)
    return timed_logger(logger, render, cache_logger_on_first_use=True)


def _for_journal(line: Callable[..., str]) -> Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]:
    """The event as it is, and as a sentence without what the journal writes down itself."""

    def render(
        logger: Any, name: str, event: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        told = {k: v for k, v in event.items() if k not in ("level", "time", "event")}
        text = line(logger, name, told) if told else ""
        return (dict(event), f"{event['event']}  {text}".rstrip()), {}

    return render
