"""A process with all that came from it, whatever groups and sessions that made for itself."""

from __future__ import annotations

import contextlib
from pathlib import Path

from moiety.agent.system.processes import send, start_time


class Family:
    """A process and what it has started, also what it leaves when it ends, once that was seen."""

    def __init__(self, pid: int) -> None:
        self._started: dict[int, int] = {}
        self._see(pid)

    def alive(self) -> list[int]:
        """Those that live, parents first; what they have started meanwhile is seen."""
        found = [pid for pid, started in self._started.items() if start_time(pid) == started]
        for pid in found:  # which grows
            found += [child for child in _children(pid) if self._see(child)]
        return found

    def send(self, number: int) -> None:
        """Send a signal to all that live."""
        for pid in self.alive():
            with contextlib.suppress(PermissionError):  # it has become another user's
                send(pid, self._started[pid], number)

    def _see(self, pid: int) -> bool:
        """Whether it lives and was not seen before."""
        started = start_time(pid)
        if started is None or self._started.get(pid) == started:
            return False
        self._started[pid] = started
        return True


def _children(pid: int) -> list[int]:
    """The kernel lists the children of each thread."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found
