"""One look at the agent, and the rates between two looks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.agent.control.rows import ProcessRow
from moiety.agent.system.paths import Directory
from moiety.model.errors import MoietyError, NoAgent


@dataclass(frozen=True, slots=True)
class Look:
    """The agent's answer; without a `status` it did not answer, and `problem` is the reason."""

    at_s: float
    status: protocol.NodeStatus | None = None
    rows: list[ProcessRow] = field(default_factory=list)
    problem: str = ""
    error: MoietyError | None = None
    """The problem as the error that was raised."""


def look(directory: Directory, clock: Callable[[], float] = time.monotonic) -> Look:
    """Ask the agent; returns a MoietyError in the look instead of raising it."""
    try:
        with Call(directory) as call:
            status = call.ask(protocol.Status(), protocol.NodeStatus)
            rows = call.ask(protocol.Ps(), protocol.Processes).rows
    except NoAgent as error:
        return Look(clock(), problem="no agent is running, so no GPU is shared", error=error)
    except MoietyError as error:
        return Look(clock(), problem=error.what, error=error)
    return Look(clock(), status, rows)


class Rates:
    """Bytes per second that each process moved between the last two looks."""

    def __init__(self) -> None:
        """Begin without a look."""
        self._at_s = 0.0
        self._moved: dict[tuple[int, int], int] = {}
        self.by_process: dict[tuple[int, int], float] = {}
        """Rates by tenant and pid, of processes in both of the last two looks."""

    def take(self, now: Look) -> None:
        """Compare with the previous look."""
        moved = {(row.tenant, row.pid): row.evicted_bytes + row.restored_bytes for row in now.rows}
        passed_s = now.at_s - self._at_s
        if passed_s > 0:
            self.by_process = {
                key: max(0, count - self._moved[key]) / passed_s
                for key, count in moved.items()
                if key in self._moved
            }
        self._at_s, self._moved = now.at_s, moved

    def of(self, row: ProcessRow) -> float | None:
        """The rate of one row; None if it was not in the previous look."""
        return self.by_process.get((row.tenant, row.pid))
