"""The records of workloads on disk: what an agent that follows a killed one finds of it."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from moiety.agent.system import container_files, processes
from moiety.agent.system.paths import Directory
from moiety.model.gang import Gang
from moiety.model.share import NOTHING_ASKED, Share

FENCED: Final = "fenced"
"""a line in the file of a client that is"""
SOCKET: Final = "shim.sock"


class Record(msgspec.Struct, frozen=True):
    """workload.json."""

    id: str
    uid: int
    root_pid: int
    root_started: int
    program: str
    argv: list[str]
    cwd: str
    share: Share = NOTHING_ASKED
    name: str | None = None
    """what to call its processes instead of what they call themselves"""
    gang: Gang | None = None
    """of which its processes are members"""
    container: str = ""
    """the name of its share in `moiety container ls`: it has no first process, and stays"""
    spec: str = ""
    """the CDI specification with which containers get it"""
    gpus: list[str] = []
    """UUIDs of those that it is of; empty: of any"""
    pods: list[str] = []
    """UIDs of the pods whose processes may use it; empty: whoever sees its socket"""
    labels: dict[str, str] = {}
    """said of its processes in metrics and events"""
    user: str = ""
    """what its user was called; the next agent need not wait for the system's tables"""
    groups: list[str] = []
    """of which that was a member"""


@dataclass(frozen=True, slots=True)
class Survivor:
    """A process that was connected to the last agent and still lives."""

    workload: str
    pid: int
    gpus: frozenset[int]
    uid: int
    """of the user whose workload it belongs to"""
    fenced: bool = False
    """it was late, and had not answered when that agent ended"""


def survivors(directory: Directory) -> tuple[list[Record], list[Survivor]]:
    """What the last agent left behind and still lives; the remains of the rest are removed."""
    records: list[Record] = []
    found: list[Survivor] = []
    for folder in sorted([*directory.workloads.glob("*"), *container_files.folders(directory)]):
        try:
            record = msgspec.json.decode((folder / "workload.json").read_bytes(), type=Record)
        except (OSError, msgspec.MsgspecError):
            if folder.parent == directory.workloads:  # of others, containers have parts mounted
                shutil.rmtree(folder, ignore_errors=True)
            continue
        living = [s for file in folder.glob("clients/*") if (s := _survivor(record, file))]
        if living or record.container or processes.is_alive(record.root_pid, record.root_started):
            records.append(record)
            found += living
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return records, found


def _survivor(record: Record, file: Path) -> Survivor | None:
    try:
        pid = int(file.name)
        line, *more = file.read_text().splitlines()
        started, *gpus = map(int, line.split())
    except (OSError, ValueError):
        file.unlink(missing_ok=True)
        return None
    if not processes.is_alive(pid, started):
        file.unlink(missing_ok=True)
        return None
    return Survivor(record.id, pid, frozenset(gpus), record.uid, FENCED in more)


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
