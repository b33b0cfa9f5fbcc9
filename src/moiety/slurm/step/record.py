"""What is kept of the steps of a job, in the job's own folder."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from moiety.agent.system.processes import is_alive, start_time
from moiety.slurm.step.ranks import least_used

STEPS: Final = "steps"
TOLD: Final = ".told"
"""The ending of a mark beside a record: the pool knows how that step ended."""
SPOOL_VARIABLE: Final = "MOIETY_JOB_SPOOL"


class StepRecord:
    """The record of one step; only the process that runs it writes to it."""

    def __init__(self, number: int, path: Path | None, content: dict[str, Any]) -> None:
        self.number = number
        self._path = path
        self._content = content

    @property
    def is_kept(self) -> bool:
        """Whether the job has a folder for it, and so a number of its own."""
        return self._path is not None

    @property
    def content(self) -> dict[str, Any]:
        """What is kept now."""
        return self._content

    def untold(self) -> list[StepRecord]:
        """Earlier steps of the job that have ended, and whose end the pool was not told.

        The folder is made anew when the job starts again, so they are of this start of it.
        """
        if self._path is None:
            return []
        found = []
        for path in sorted(self._path.parent.glob("*.json"), key=lambda p: (len(p.name), p.name)):
            try:
                content = json.loads(path.read_text())
                step = StepRecord(int(path.stem), path, content)
                has_ended = content.get("ended_s") is not None
            except (OSError, ValueError, AttributeError):
                continue  # the job's user has damaged it
            if has_ended and step.number < self.number and not path.with_suffix(TOLD).exists():
                found.append(step)
        return found

    def was_told(self) -> None:
        """Write down that the pool knows how the step ended."""
        if self._path is not None:
            with contextlib.suppress(OSError):  # the job is over, and its folder is gone
                self._path.with_suffix(TOLD).touch()

    def write(self, **changes: Any) -> None:
        """Change what is kept."""
        self._content = self._content | changes
        if self._path is None:
            return
        temporary = self._path.with_suffix(".new")
        try:
            temporary.write_text(json.dumps(self._content))
            temporary.replace(self._path)
        except OSError:
            pass  # the job is over, and its folder is gone


def begin(
    spool: str, content: dict[str, Any], cards: Sequence[str] = (), wanted: int = 0
) -> StepRecord:
    """Take the next number of a step of the job, and write down who runs it.

    With the GPUs of the job, it takes as many as are wanted, and writes them down as its `cards`:
    those that the fewest steps of the job use that run now.
    """
    content = content | {"pid": os.getpid(), "start_ticks": start_time(os.getpid())}
    content["cards"] = list(least_used(cards, wanted, ()))
    if not spool:
        return StepRecord(0, None, content)
    folder = Path(spool) / STEPS
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        with (folder / "next").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            number = int(file.read() or 0)
            file.truncate(0)
            file.write(str(number + 1))
            record = StepRecord(number, folder / f"{number}.json", content)
            used = _used(folder) if cards else ()
            record.write(cards=list(least_used(cards, wanted, used)))
    except (OSError, ValueError):
        return StepRecord(0, None, content)
    return record


def _used(folder: Path) -> list[str]:
    """The GPUs of the steps that run, one that several use as often as they do."""
    found: list[str] = []
    for path in folder.glob("*.json"):
        try:
            step = json.loads(path.read_text())
            if step.get("ended_s") is None and is_alive(step["pid"], step["start_ticks"]):
                found += map(str, step["cards"])
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            continue  # the job's user has damaged it
    return found
