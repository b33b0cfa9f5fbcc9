"""The records of workloads on disk: what an agent that follows a killed one finds of it."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from moiety.agent.core.orphans import Known
from moiety.agent.core.proofs import Held
from moiety.agent.system import container_files, processes
from moiety.agent.system.paths import Directory
from moiety.model.cards import CardRequest
from moiety.model.gang import Gang
from moiety.model.share import NOTHING_ASKED, Share

FENCED: Final = "fenced"
"""A line in the file of a client that is fenced."""
HELD: Final = "held"
"""The first word of a line with a GPU, and the bytes allocated and pinned there."""
SOCKET: Final = "shim.sock"


class Record(msgspec.Struct, frozen=True):
    """The content of workload.json."""

    id: str
    uid: int
    root_pid: int
    root_started: int
    program: str
    argv: list[str]
    cwd: str
    share: Share = NOTHING_ASKED
    name: str | None = None
    """Name of its processes, instead of the one that they give themselves."""
    gang: Gang | None = None
    """The gang of its processes."""
    container: str = ""
    """Name of its share in `moiety container ls`; such a workload stays without any process."""
    spec: str = ""
    """Path of the CDI specification with which containers get it."""
    gpus: list[str] = []
    """UUIDs of the GPUs that it is a share of; empty: any."""
    chosen: list[str] = []
    """UUIDs of the GPUs that the agent keeps for it until its program has looked at its GPUs."""
    request: CardRequest | None = None
    """The request from which `chosen` was chosen; None: `chosen` cannot be chosen anew."""
    pods: list[str] = []
    """UIDs of the pods whose processes may use it; empty: all that see its socket."""
    labels: dict[str, str] = {}
    """Labels of its processes in metrics and events."""
    user: str = ""
    """Name of its user, so that the next agent need not wait for the system's tables."""
    groups: list[str] = []
    """Groups of that user."""
    by_pool: bool = False
    """Whether the account of the machine's pool made it, which then may suspend it."""
    suspended: bool = False
    """Whether its processes get no turns until it is resumed."""

    @property
    def promised(self) -> Share:
        """What it is promised now: its share, without promises while it is suspended."""
        return self.share.without_promises if self.suspended else self.share


@dataclass(frozen=True, slots=True)
class Survivor:
    """A process that was connected to the last agent and still lives."""

    workload: str
    pid: int
    held: dict[int, Held | None]
    """What it has on each GPU where it has a context; None: an older version wrote no bytes."""
    uid: int
    """The user to whose workload it belongs."""
    fenced: bool = False
    """True if it was fenced when that agent ended."""
    name: str = ""
    """Name of its workload's processes; empty: the one that they give themselves."""

    @property
    def known(self) -> Known:
        """What is known of it until it is back."""
        return Known(self.uid, self.workload, self.name)


def survivors(directory: Directory) -> tuple[list[Record], list[Survivor]]:
    """The workloads and processes that outlived the last agent; other records are removed."""
    records: list[Record] = []
    found: list[Survivor] = []
    for folder in sorted([*directory.workloads.glob("*"), *container_files.folders(directory)]):
        try:
            record = msgspec.json.decode((folder / "workload.json").read_bytes(), type=Record)
        except (OSError, msgspec.MsgspecError):
            if folder.parent == directory.workloads:  # of others, containers have parts mounted
                shutil.rmtree(folder, ignore_errors=True)
            continue
        living = connected(record, folder)
        if living or record.container or processes.is_alive(record.root_pid, record.root_started):
            records.append(record)
            found += living
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return records, found


def connected(record: Record, folder: Path) -> list[Survivor]:
    """The living processes of a workload that this agent, or the last one, had as clients."""
    return [found for file in folder.glob("clients/*") if (found := _survivor(record, file))]


def _survivor(record: Record, file: Path) -> Survivor | None:
    try:
        pid = int(file.name)
        line, *more = file.read_text().splitlines()
        started, *gpus = map(int, line.split())
        held = dict.fromkeys(gpus) | _held(more)
    except (OSError, ValueError):
        file.unlink(missing_ok=True)
        return None
    if not processes.is_alive(pid, started):
        file.unlink(missing_ok=True)
        return None
    return Survivor(record.id, pid, held, record.uid, FENCED in more, record.name or "")


def _held(lines: list[str]) -> dict[int, Held | None]:
    """By GPU: what these lines say that a process has; raises ValueError."""
    found: dict[int, Held | None] = {}
    for line in lines:
        if line.startswith(f"{HELD} "):
            gpu, allocated, pinned = map(int, line.split()[1:])
            found[gpu] = allocated, pinned
    return found


def folder_of(directory: Directory, record: Record) -> str:
    """Where a workload's files lie."""
    if record.container:
        return str(container_files.folder(directory, record.container))
    return f"{directory.workloads}/{record.id}"


def socket_in(folder: str, record: Record) -> str:
    """A workload's socket: in a folder of its own where that is put into containers."""
    return (
        f"{folder}/{container_files.SOCKETS}/{SOCKET}" if record.container else f"{folder}/{SOCKET}"
    )


def write_whole(path: Path | str, content: bytes) -> None:
    """Write a file so that a reader sees all of it or none; an OSError names it."""
    partial = f"{path}.new"
    try:
        with open(partial, "wb") as file:
            file.write(content)
        os.replace(partial, path)
    except OSError as error:  # of a full disk the system says only that it is full
        error.filename = os.fspath(path)
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
