"""Where the processes of a step write: our own output, files by rank, or labelled lines."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Final

LINE_MAX: Final = 1 << 16
"""A line that is longer is written in parts."""


@dataclass(slots=True)
class LabelledPipe:
    """Copies lines of one process, each with its rank before it."""

    read_fd: int
    target: int
    label: bytes
    rest: bytes = field(default=b"")

    def copy(self) -> bool:
        """Copy what there is; False: the process has closed it."""
        content = os.read(self.read_fd, LINE_MAX)
        *lines, self.rest = (self.rest + content).split(b"\n")
        if self.rest and (not content or len(self.rest) >= LINE_MAX):
            lines, self.rest = [*lines, self.rest], b""
        if lines:
            write_all(self.target, b"".join(self.label + line + b"\n" for line in lines))
        return bool(content)


def write_all(fd: int, content: bytes) -> None:
    """Write everything, also to a pipe that takes it in parts."""
    while content:
        content = content[os.write(fd, content) :]


def is_by_rank(pattern: str) -> bool:
    """Whether each process has a file of its own."""
    return re.search(r"%\d*[tsn]", pattern) is not None


def path_of(pattern: str, rank: int, known: dict[str, str], width: int) -> str:
    """The file of one process; `known` has the letters of the job."""
    if "\\" in pattern:
        return pattern.replace("\\", "")
    values = known | {"t": str(rank), "n": "0", "%": "%"}

    def filled(found: re.Match[str]) -> str:
        value = values.get(found[2])
        if value is None:
            return found[0]
        return value.zfill(min(int(found[1]), 10)) if found[1] and value.isdecimal() else value

    del width
    return re.sub(r"%(\d*)([A-Za-z%])", filled, pattern)


def open_file(path: str, *, append: bool) -> int:
    """Open a file for output; folders that lack are made."""
    if folder := os.path.dirname(path):
        os.makedirs(folder, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_APPEND | (0 if append else os.O_TRUNC)
    return os.open(path, flags, 0o666)
