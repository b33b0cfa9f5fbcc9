"""The shares that pods of this node have, in a file that outlives the process.

The file is written whole, flushed to the disk and renamed before a share is made: a share in the
file may not exist yet, but every existing share is in the file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from moiety.model.errors import FileNotWritable, MoietyError
from moiety.model.share import Share

VERSION: Final = 1
CLAIM: Final = "claim"
UNITS: Final = "units"


class Slot(msgspec.Struct, frozen=True):
    """A part of one GPU that a share has."""

    device: str
    """gpu-0"""
    uuid: str
    percent: float
    """Percent of its time that is guaranteed; 0: none."""
    memory_bytes: int = 0
    request: str = ""
    share_id: str = ""
    counted_percent: float | None = None
    """What the scheduler counts: what the claim consumes; None: the same as `percent`."""
    counted_memory_bytes: int | None = None
    """Likewise of the memory."""


class Assignment(msgspec.Struct, frozen=True):
    """One share that a pod, or a container of one, has."""

    name: str
    """The name of the share, and of its CDI device."""
    kind: str
    """`claim` or `units`."""
    key: str
    """The claim's UID; for units, the resource."""
    slots: list[Slot]
    share: Share
    request: str = ""
    units: list[str] = []
    """The ids of the units, as the kubelet knows them."""
    namespace: str = ""
    claim: str = ""
    pods: list[str] = []
    """UIDs of the pods."""
    labels: dict[str, str] = {}
    at_s: float = 0.0
    """When it was given, in seconds since 1970."""
    asked: dict[str, str] = {}
    """Answered resizes, by the UID of the pod that asked for them."""


class _Document(msgspec.Struct, rename={"assignments": "given"}):
    version: int
    boot: str
    assignments: list[Assignment]


class CheckpointUnreadable(MoietyError):
    """The file is damaged, or of a later version."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}",
            "move it away once no pod on this node has a share, and start the driver again",
        )


class AssignmentStore:
    """The file, and its assignments by the shares' names."""

    def __init__(self, path: Path) -> None:
        """Read the file, if it exists. Raises CheckpointUnreadable, FileNotWritable."""
        self.path = path
        self.assignments: dict[str, Assignment] = {}
        self.rebooted = False
        """True if the machine was restarted since the file was written."""
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            text = path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise FileNotWritable(str(path), error.strerror or str(error)) from None
        try:
            found = msgspec.json.decode(text, type=_Document)
        except msgspec.MsgspecError as error:
            version = _version_of(text)
            if version is not None and version != VERSION:
                problem = f"it is of version {version}, this moiety knows {VERSION}"
                raise CheckpointUnreadable(path, problem) from None
            raise CheckpointUnreadable(path, f"it makes no sense: {error}") from None
        if found.version != VERSION:
            problem = f"it is of version {found.version}, this moiety knows {VERSION}"
            raise CheckpointUnreadable(path, problem)
        self.assignments = {each.name: each for each in found.assignments}
        self.rebooted = found.boot != boot_id()

    def put(self, *assignments: Assignment) -> None:
        """Add, or change. Raises FileNotWritable, and then nothing has changed."""
        self._write({**self.assignments, **{each.name: each for each in assignments}})

    def drop(self, *names: str) -> None:
        """Forget. Raises FileNotWritable, and then nothing has changed."""
        self._write({name: each for name, each in self.assignments.items() if name not in names})

    def of_claim(self, uid: str) -> list[Assignment]:
        """The shares of a claim, by request."""
        return [each for each in self.assignments.values() if (each.kind, each.key) == (CLAIM, uid)]

    def _write(self, assignments: dict[str, Assignment]) -> None:
        document = _Document(VERSION, boot_id(), list(assignments.values()))
        try:
            write_durably(self.path, msgspec.json.encode(document))
        except OSError as error:
            raise FileNotWritable(str(self.path), error.strerror or str(error)) from None
        self.assignments = assignments


def write_durably(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file so that after a crash it is either new or unchanged; raises OSError."""
    partial = path.with_name(f".{path.name}.new")
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def boot_id() -> str:
    """The id of the machine's present boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _version_of(text: bytes) -> int | None:
    try:
        found = msgspec.json.decode(text)
        return int(found["version"])
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        return None
