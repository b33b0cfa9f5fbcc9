"""Subordinate users: the owner of each range of user ids in /etc/subuid.

A user may run processes as any user id of its ranges (newuidmap, rootless containers). Limits count
them as the owner's, or each of its ids would be a user with limits of its own.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Final

from moiety.agent.system.users import WAIT_S, beside

FILE: Final = Path("/etc/subuid")
MOST_BYTES: Final = 1 << 20
"""What lies behind this is not read."""
UIDS: Final = (1 << 32) - 1
LOOK_S: Final = 1.0
"""Seconds between two looks whether the file has changed."""

Range = tuple[int, int, int]
"""The first user id, the one after the last, and the owner."""


def unchanged(uid: int) -> int:
    """The user who accounts for a user where no file says another."""
    return uid


class SubordinateUsers:
    """The ranges of one file; `owner_of` never waits for the tables that know its names."""

    def __init__(
        self, file: Path = FILE, now_s: Callable[[], float] = time.monotonic, wait_s: float = WAIT_S
    ) -> None:
        """Read the file; if names in it take longer than `wait_s`, they count from then on."""
        self._file = file
        self._now_s = now_s
        self._looked_s = now_s()
        self._ranges: list[Range] = []
        self._lock = threading.Lock()
        self._version = self._look()
        if self._version is not None:
            with contextlib.suppress(TimeoutError):
                beside(self._read).result(wait_s)

    def owner_of(self, uid: int) -> int:
        """The owner of the range that a user id lies in; the id itself if it lies in none."""
        now_s = self._now_s()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            version, before = self._look(), self._version
            self._version = version
            if version != before:
                beside(self._read)
        ranges = self._ranges
        at = bisect_right(ranges, (uid, UIDS, UIDS)) - 1
        if at >= 0 and ranges[at][0] <= uid < ranges[at][1]:
            return ranges[at][2]
        return uid

    def _look(self) -> tuple[int, int, int] | None:
        """What changes with the file; None: there is none."""
        try:
            found = os.stat(self._file)
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read(self) -> None:
        """Read the file anew, in a thread: its names may be those of a directory service."""
        with self._lock:
            try:
                with open(self._file, "rb") as file:
                    text = file.read(MOST_BYTES).decode(errors="replace")
            except OSError:
                text = ""
            self._ranges = parse(text)


def parse(text: str) -> list[Range]:
    """The ranges of a file, in order and without overlap; bad lines have none."""
    owners: dict[str, int] = {}
    found: list[Range] = []
    for line in text.splitlines():
        name, *numbers = line.strip().split(":")
        if len(numbers) != 2 or not all(each.isascii() and each.isdigit() for each in numbers):
            continue
        start, count = (int(each[:12]) for each in numbers)
        end = min(start + count, UIDS)
        if name not in owners:
            owners[name] = _uid_of(name)
        if owners[name] > 0 and 0 < start < end:
            found.append((start, end, owners[name]))
    apart: list[Range] = []
    for start, end, owner in sorted(found):
        begin = max(start, apart[-1][1]) if apart else start
        if begin < end:
            apart.append((begin, end, owner))
    return apart


def _uid_of(name: str) -> int:
    """A user's number by name or number; 0 if there is no such user, or it is root."""
    if name.isascii() and name.isdigit():
        return int(name[:12]) if int(name[:12]) < UIDS else 0
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        return 0
