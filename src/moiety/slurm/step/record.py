"""What is kept of the steps of a job, in the job's own folder."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from moiety.agent.system.processes import is_alive, start_time
from moiety.slurm.step.ranks import least_used

STEPS: Final = "steps"
TOLD: Final = ".told"
"""The ending of a mark beside a record: the pool knows how that step ended."""
RECORD_BYTES_MAX: Final = 65536
DAMAGED: Final = (ValueError, KeyError, TypeError, OverflowError, RecursionError)
"""What a record can raise that the job's user has written."""
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
        return [
            StepRecord(number, path, content)
            for number, path, content in records_in(self._path.parent)
            if number < self.number
            and content.get("ended_s") is not None
            and not path.with_suffix(TOLD).exists()
        ]

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


def records_in(folder: Path) -> Iterator[tuple[int, Path, dict[str, Any]]]:
    """The records of a job's steps by their numbers; what the job's user has damaged is left out.

    The reader may be another user, root say: no link is followed, and nothing is waited for.
    """
    for path in sorted(folder.glob("*.json"), key=lambda path: (len(path.name), path.name)):
        with contextlib.suppress(OSError, *DAMAGED):
            content = json.loads(_read(path))
            if isinstance(content, dict):
                yield int(path.stem), path, content


def _read(path: Path) -> bytes:
    """What a file holds; raises OSError for what is no file, and so could make us wait."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise FileNotFoundError(path)
        return file.read(RECORD_BYTES_MAX)


def _used(folder: Path) -> list[str]:
    """The GPUs of the steps that run, one that several use as often as they do."""
    found: list[str] = []
    for _, _, step in records_in(folder):
        with contextlib.suppress(*DAMAGED):
            if step.get("ended_s") is None and is_alive(step["pid"], step["start_ticks"]):
                found += map(str, step["cards"])
    return found
