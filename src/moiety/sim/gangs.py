"""Traces of gangs that ran for a known time: Microsoft's ITP and Philly, and Muri's.

A trace is one file, CSV or JSONL; its columns tell its format. Jobs are gangs of whole GPUs on
nodes that are all alike; the traces do not describe the nodes, so the cluster is an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from moiety.model.errors import InvalidValue, TraceInvalid, TraceMissing
from moiety.policy.estimate.runtime_history import PastRun
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.sim.reading import (
    COLUMNS_HINT,
    Complaints,
    TableRow,
    check_file,
    columns_of,
    read_table,
)
from moiety.sim.seats import Nodes

GPUS_PER_NODE: Final = 8
MURI_SLOWDOWN: Final = 1.015
"""By which the published simulator of Muri multiplies the time of an iteration."""
GPUS_MAX: Final = 1_000_000
MIB: Final = 1 << 20
EPOCH_MONDAY_S: Final = 4 * 86400.0
"""Seconds of 1970 began on a Thursday."""


@dataclass(frozen=True, slots=True)
class GangJob:
    """A job: GPUs that it needs together, and for how long."""

    name: str
    gpus: int
    submitted_s: float
    duration_s: float
    queue: str = ""
    user: str = ""
    gpu_bytes: int | None = None
    """Bytes of each GPU that a suspension carries; 0: it cannot be suspended; None: as most."""
    line: int = field(default=0, compare=False)
    """Where it stands in its file; 0: nowhere."""


@dataclass(frozen=True)
class GangTrace:
    """Gangs in the order in which they were submitted, and the GPUs of each node."""

    name: str
    gangs: tuple[GangJob, ...]
    nodes: tuple[int, ...]
    complaints: Complaints = field(default_factory=Complaints)
    monday_s: float = 0.0
    """A Monday's midnight on the clock of submissions: times of day count from there."""
    file: str = ""
    """The name of its file."""

    @property
    def gpus(self) -> int:
        """Of all nodes."""
        return sum(self.nodes)


def itp(row: TableRow) -> GangJob:
    """A line of Microsoft's ITP trace, as the authors of ElasticFlow publish it."""
    return GangJob(row.text("job_id"), _gpus(row), row.number("submission_time"), _duration(row))


def muri(row: TableRow) -> GangJob:
    """A line of a trace of Muri (SIGCOMM '22): milliseconds."""
    milli = row.number("duration")
    if not milli:
        raise ValueError("duration is zero")
    submitted_s = row.number("submit_time") / 1000
    return GangJob(row.text("job_id"), _gpus(row), submitted_s, milli / 1000 * MURI_SLOWDOWN)


def philly(row: TableRow) -> GangJob:
    """A line of Microsoft's Philly trace; its virtual clusters are queues. It has no names."""
    text = row.text("timestamp")
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"timestamp is no time: {text!r}") from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return GangJob(
        "", _gpus(row, "num_gpus"), when.timestamp(), _duration(row), row.text("cluster")
    )


def own(row: TableRow) -> GangJob:
    """A line of `jobs.csv` of moiety's own format, as far as it asks for whole GPUs."""
    part = row.whole("gpu_milli", 1000)
    if part != 1000 or row.text("gpu_memory_mib", ""):
        raise ValueError("it asks for a part of a GPU, and gangs have whole ones")
    return GangJob(
        row.text("name"),
        _gpus(row, "gpus"),
        row.number("submitted_s"),
        _duration(row, "duration_s"),
        row.text("queue", ""),
        row.text("user", ""),
        row.whole("state_mib") * MIB if row.text("state_mib", "") else None,
    )


FORMATS: Final[dict[str, tuple[tuple[str, ...], Callable[[TableRow], GangJob]]]] = {
    "itp": (("job_id", "submission_time", "num_gpu", "duration"), itp),
    "muri": (("job_id", "submit_time", "num_gpu", "duration"), muri),
    "philly": (("timestamp", "duration", "num_gpus", "cluster"), philly),
    "own": (("name", "gpus", "submitted_s", "duration_s"), own),
}


def read_gangs(
    path: Path,
    gpus: int | None = None,
    gpus_per_node: int = GPUS_PER_NODE,
    *,
    lenient: bool = False,
) -> GangTrace:
    """A trace and a cluster of `gpus` GPUs.

    None: the smallest cluster that holds every job and a quarter more than the mean load.

    Raises TraceMissing if there is no such file or no format has its columns, TraceInvalid for
    the first line that makes no sense. Lenient, such lines are left out and counted, as are
    jobs that are larger than the cluster.
    """
    complaints = Complaints(lenient)
    if not path.is_file():
        raise TraceMissing(str(path), "it is no file" if path.exists() else "it does not exist")
    form = _format(path)
    columns, make = FORMATS[form]
    rows = read_table(path, columns, make, complaints)
    if not rows:
        raise TraceInvalid(path.name, 0, "it has no jobs")
    nodes = cluster(gpus or _enough([gang for _, gang in rows]), gpus_per_node)
    gangs = _check(path, rows, nodes, complaints)
    if not gangs:
        raise TraceInvalid(path.name, 0, "none of its jobs could ever run")
    name = path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".jsonl")
    monday_s = EPOCH_MONDAY_S if form == "philly" else 0.0
    return GangTrace(name, gangs, nodes, complaints, monday_s, path.name)


def ran_before(path: Path) -> list[PastRun]:
    """A file of jobs as a history for estimates. Raises as `read_gangs`."""
    check_file(path, "history of jobs")
    return [
        PastRun(
            gang.name,
            gang.user,
            gang.queue,
            gang.gpus * WHOLE_GPU,
            gang.submitted_s,
            gang.duration_s,
        )
        for gang in read_gangs(path).gangs
    ]


def cluster(gpus: int, gpus_per_node: int = GPUS_PER_NODE) -> tuple[int, ...]:
    """Nodes that are all alike, but the last one may be smaller. Raises InvalidValue."""
    if not 0 < gpus <= GPUS_MAX or gpus_per_node < 1:
        raise InvalidValue(f"a cluster of {gpus} GPUs, {gpus_per_node} on each node")
    full, rest = divmod(gpus, gpus_per_node)
    return (gpus_per_node,) * full + ((rest,) if rest else ())


def is_gang_trace(path: Path) -> bool:
    """True for a single file; False for a folder with nodes and jobs."""
    return path.is_file()


def _enough(gangs: list[GangJob]) -> int:
    """The mean number of GPUs that were asked for, and a quarter more, in whole nodes."""
    first = min(gang.submitted_s for gang in gangs)
    last = max(gang.submitted_s + gang.duration_s for gang in gangs)
    work = sum(gang.gpus * gang.duration_s for gang in gangs)
    mean = work / max(last - first, 1.0)
    largest = max(gang.gpus for gang in gangs)
    most = max(largest, int(mean * 1.25) + 1)
    return -(-most // GPUS_PER_NODE) * GPUS_PER_NODE


def _format(path: Path) -> str:
    if not {".csv", ".jsonl"} & set(path.suffixes):
        raise TraceMissing(str(path), "a file of jobs is a .csv or a .jsonl, plain or .gz")
    there = columns_of(path)
    for name, (columns, _) in FORMATS.items():
        if there >= set(columns):
            return name
    nearest = min(FORMATS, key=lambda name: len(set(FORMATS[name][0]) - there))
    missing = sorted(set(FORMATS[nearest][0]) - there)
    raise TraceInvalid(
        path.name,
        1,
        f"it has no column {missing[0]} (of the format {nearest}, which is nearest)",
        COLUMNS_HINT,
    )


def _check(
    path: Path, rows: list[tuple[int, GangJob]], nodes: tuple[int, ...], complaints: Complaints
) -> tuple[GangJob, ...]:
    empty = Nodes(nodes)
    fits: dict[int, bool] = {}
    seen: dict[str, int] = {}
    kept = []
    for line, gang in rows:
        if gang.name and gang.name in seen:
            complaints.about(path, line, f"{gang.name} is in line {seen[gang.name]} already")
            continue
        seen[gang.name] = line
        if gang.gpus not in fits:
            fits[gang.gpus] = empty.could(gang.gpus)
        if not fits[gang.gpus]:
            name = gang.name or "a job"
            problem = f"{name} wants {gang.gpus} GPUs, and the cluster has {sum(nodes)}"
            complaints.about(path, line, problem)
            continue
        kept.append(replace(gang, line=line))
    kept.sort(key=lambda gang: gang.submitted_s)
    return tuple(kept)


def _gpus(row: TableRow, column: str = "num_gpu") -> int:
    gpus = row.whole(column)
    if not 0 < gpus <= GPUS_MAX:
        raise ValueError(f"{column} is {gpus}")
    return gpus


def _duration(row: TableRow, column: str = "duration") -> float:
    found = row.number(column)
    if not found:
        raise ValueError(f"{column} is zero")
    return found
