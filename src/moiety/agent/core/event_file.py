"""The events of a node on disk: no user's events push out those of another.

There are two pairs of files. An event goes to the first pair, `path`. A user that has written a
quarter of the present file writes to the second pair until the first is moved aside: however many
events that user causes, what the files have of other users stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from moiety.agent.core.journal_events import Event
from moiety.agent.system.logs import BoundedFile

FILE_BYTES: Final = 1 << 20
"""Size at which a file is moved aside; four files exist at most."""
USER_PART: Final = 4
BUSY: Final = ".busy"
"""Suffix of the second pair."""


class EventFile:
    """Where events outlive the agent."""

    def __init__(self, path: Path, file_bytes: int = FILE_BYTES) -> None:
        """Append to what is there. Raises OSError if nothing can be written."""
        self._main = BoundedFile(path, file_bytes)
        self._busy: BoundedFile | None = None
        self._path = path
        self._file_bytes = file_bytes
        self._by_user: dict[int | None, int] = {}
        """Bytes of each user in the present file of the first pair."""
        size = path.stat().st_size
        if size:
            self._main.write("\n")  # the last line may have been cut off
            for event in _events_in(path):
                self._count(event, len(msgspec.json.encode(event)))
        self._written = size

    def write(self, event: Event) -> None:
        """Append one event; a full disk loses it, not the agent."""
        line = msgspec.json.encode(event).decode() + "\n"
        if self._by_user.get(event.uid, 0) + len(line) > self._file_bytes // USER_PART:
            self._busy = self._busy or BoundedFile(busy(self._path), self._file_bytes)
            self._busy.write(line)
            return
        self._written += len(line)
        if self._written > self._file_bytes:  # it is moved aside now
            self._by_user.clear()
            self._written = len(line)
        self._count(event, len(line))
        self._main.write(line)

    def _count(self, event: Event, size: int) -> None:
        self._by_user[event.uid] = self._by_user.get(event.uid, 0) + size

    def close(self) -> None:
        """Write no more."""
        self._main.close()
        if self._busy:
            self._busy.close()


def busy(path: Path) -> Path:
    """The second pair's file."""
    return path.with_name(path.name + BUSY)


def read(path: Path) -> Iterator[Event]:
    """What is in the files, oldest first; a line that was cut off is left out."""
    found = {
        event.number: event
        for pair in (path, busy(path))
        for file in (pair.with_name(pair.name + ".1"), pair)
        for event in _events_in(file)
    }
    yield from (found[number] for number in sorted(found))


def _events_in(file: Path) -> Iterator[Event]:
    decoder = msgspec.json.Decoder(Event)
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            yield decoder.decode(line)
        except msgspec.MsgspecError:
            continue
