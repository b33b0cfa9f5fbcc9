"""Reads what Slurm's accounting knows of past jobs: the output of `sacct -P`.

Jobs that ran and had GPUs are read: an account is a queue, a job is a gang of a task for each of
its nodes, an array's tasks are jobs of their own. Steps belong to their jobs and are passed over.
`COMMAND` names the columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from moiety.model.errors import TraceInvalid
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.workloads import Shape, Subgroup, Workload
from moiety.sim.cluster_trace import HistoryJob
from moiety.sim.gangs import EPOCH_MONDAY_S
from moiety.sim.reading import Complaints, read_lines

MONDAY_S: Final = EPOCH_MONDAY_S
"""Times are seconds since 1970, and count as the cluster's own time of day."""
COMMAND: Final = (
    "the output of sacct -a -X -P -o JobID,User,Account,Partition,Submit,Eligible,ElapsedRaw,"
    "State,ReqTRES,AllocTRES,TimelimitRaw"
)
NEEDED: Final = (
    ("JobID", "JobIDRaw"),
    ("Submit", "Eligible"),
    ("ElapsedRaw", "Elapsed"),
    ("State",),
    ("AllocTRES", "ReqTRES"),
)
"""One of each is needed."""
UNFINISHED: Final = frozenset(
    {"PENDING", "RUNNING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED", "COMPLETING", "RESIZING"}
)
UNKNOWN: Final = frozenset({"", "Unknown", "None", "N/A", "NONE"})
MIB: Final = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
"""MiB of a unit; a number without one is in MiB."""
_MEMORY: Final = re.compile(r"([0-9.]+)([KMGTP]?)([nc]?)")
_TIME: Final = re.compile(r"(?:([0-9]+)-)?(?:([0-9]+):)?([0-9]+):([0-9]+)(?:\.[0-9]+)?")
_ARRAY: Final = re.compile(r"[0-9]+_\[.*")
NODES_MAX: Final = 100_000

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SlurmHistory:
    """The jobs that ran, and sentences about those that are left out."""

    jobs: tuple[HistoryJob, ...]
    notes: tuple[str, ...]


class _LeftOut(Exception):
    """The reason why a job is not replayed, in the plural."""


def is_output(path: Path) -> bool:
    """Whether a file looks like output of `sacct -P`. Raises TraceMissing, TraceInvalid."""
    lines = read_lines(path)
    return bool(lines) and _header(lines[0][1]) is not None


def read(path: Path, complaints: Complaints) -> SlurmHistory:
    """The jobs of a file, in its order. Raises TraceMissing and TraceInvalid."""
    left_out: Counter[str] = Counter()
    jobs: dict[str, HistoryJob] = {}
    for line, row in _rows(path, complaints):
        name = _first(row, "JobID", "JobIDRaw")
        if "." in name:
            continue  # a step
        try:
            job = _job(name, row, line)
        except _LeftOut as reason:
            left_out[str(reason)] += 1
            continue
        except ValueError as error:
            complaints.about(path, line, f"job {name or '(without a JobID)'}: {error}")
            continue
        if name in jobs:
            left_out["earlier runs of jobs that were requeued (the last run counts)"] += 1
            job = _requeued(jobs[name], job)
        jobs[name] = job
    return SlurmHistory(tuple(jobs.values()), _sentences(left_out))


def _sentences(left_out: Counter[str]) -> tuple[str, ...]:
    if not left_out:
        return ()
    parts = [f"{count} {reason}" for reason, count in sorted(left_out.items())]
    return (f"Left out: {', '.join(parts)}.",)


def _requeued(first: HistoryJob, last: HistoryJob) -> HistoryJob:
    at_s = min(first.workload.submitted_s, last.workload.submitted_s)
    return replace(last, workload=replace(last.workload, submitted_s=at_s))


def _header(text: str) -> list[str] | None:
    names = [each.strip().split("%")[0] for each in text.strip().strip("|").split("|")]
    return names if {"JobID", "JobIDRaw"} & set(names) and len(names) > 1 else None


def _rows(path: Path, complaints: Complaints) -> Iterator[tuple[int, Row]]:
    lines = read_lines(path)
    if not lines:
        raise TraceInvalid(path.name, 1, "it has no columns, because it is empty", COMMAND)
    number, first = lines[0]
    names = _header(first)
    if names is None:
        raise TraceInvalid(
            path.name, number, "it does not begin with names of columns, as JobID|User|...", COMMAND
        )
    for either in NEEDED:
        if not set(either) & set(names):
            raise TraceInvalid(
                path.name, number, f"it has no column {' or '.join(either)}", COMMAND
            )
    for line, text in lines[1:]:
        values = text.split("|")
        if len(values) == len(names) + 1 and not values[-1]:
            values.pop()  # sacct -p ends each line with |
        if len(values) != len(names):
            complaints.about(
                path, line, f"it has {len(values)} values, and there are {len(names)} columns"
            )
            continue
        yield line, dict(zip(names, values, strict=True))


def _first(row: Row, *columns: str) -> str:
    """The first of these columns that has a value."""
    for column in columns:
        value = row.get(column, "").strip()
        if value not in UNKNOWN:
            return value
    return ""


def _job(name: str, row: Row, line: int) -> HistoryJob:
    if not name:
        raise ValueError("it has no JobID")
    state = _first(row, "State").partition(" ")[0]
    if state in UNFINISHED or _ARRAY.fullmatch(name):
        raise _LeftOut("jobs that had not ended")
    ran_s = _elapsed(row)
    if not ran_s:
        raise _LeftOut("jobs that never began")
    groups = _subgroups(row)
    most_s = _limit(row)
    if most_s is not None:
        ran_s = min(ran_s, most_s)  # Slurm ends a job some seconds after its limit
    moments = [row.get(column, "") for column in ("Submit", "Eligible")]
    if not any(_is(value) for value in moments):
        raise ValueError("it has neither a Submit nor an Eligible time")
    submitted_s = max(_moment(value) for value in moments if _is(value))
    partitions = frozenset(each for each in _first(row, "Partition").split(",") if each)
    workload = Workload(
        name,
        groups,
        _first(row, "Account") or "default",
        partitions,
        _first(row, "User"),
        submitted_s=submitted_s,
        max_run_s=most_s,
    )
    return HistoryJob(workload, ran_s, line)


def _is(value: str) -> bool:
    return value.strip() not in UNKNOWN


def _moment(text: str) -> float:
    """`2024-05-31T08:00:00`, or seconds since 1970 (SLURM_TIME_FORMAT=%s)."""
    text = text.strip()
    if text.isascii() and text.isdecimal() and len(text) < 15:
        return float(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time, such as 2024-05-31T08:00:00") from None
    return when.replace(tzinfo=UTC).timestamp()


def _elapsed(row: Row) -> float:
    raw = _first(row, "ElapsedRaw")
    if raw:
        if not (raw.isascii() and raw.isdecimal()):
            raise ValueError(f"ElapsedRaw is no number of seconds: {raw!r}")
        return float(raw)
    return _span(_first(row, "Elapsed") or "0:00", "Elapsed")


def _span(text: str, column: str) -> float:
    """`1-02:03:04` or `03:04`, in seconds."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{column} is no time, such as 1-02:03:04: {text!r}")
    days, hours, minutes, seconds = (int(each or 0) for each in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _limit(row: Row) -> float | None:
    raw = _first(row, "TimelimitRaw")
    if raw.isascii() and raw.isdecimal():
        return float(raw) * 60 or None
    text = _first(row, "Timelimit")
    if not text or text in ("UNLIMITED", "Partition_Limit"):
        return None
    return _span(text, "Timelimit") or None


@cache
def _amounts(text: str) -> Mapping[str, str]:
    """Of `cpu=16,gres/gpu:a100=4,mem=128G,node=1`; the same texts come again and again."""
    found = {}
    for part in text.split(","):
        key, has, value = part.partition("=")
        if has:
            found[key.strip()] = value.strip()
    return found


def _subgroups(row: Row) -> tuple[Subgroup, ...]:
    asked = _amounts(_first(row, "ReqTRES"))
    had = _amounts(_first(row, "AllocTRES")) or asked
    gpus = _gpus(had) or _gpus(asked)
    if not gpus:
        raise _LeftOut("jobs without GPUs")
    models = _models(asked if _gpus(asked) else had)
    if len(models) > 1:
        raise _LeftOut("jobs with GPUs of several models at once")
    nodes = _whole(had.get("node") or _first(row, "NNodes", "AllocNodes") or "1", "node")
    if not 0 < nodes <= NODES_MAX:
        raise ValueError(f"it ran on {nodes} nodes")
    nodes = min(nodes, gpus)
    cpus = _whole(had.get("cpu") or _first(row, "AllocCPUS", "ReqCPUS", "NCPUS") or "0", "cpu")
    memory = _memory(had.get("mem") or _first(row, "ReqMem") or "0", nodes, cpus)
    return _spread(gpus, nodes, cpus, memory, frozenset(models))


@cache
def _spread(
    gpus: int, nodes: int, cpus: int, memory_mib: int, models: frozenset[str]
) -> tuple[Subgroup, ...]:
    """A task for each node; where GPUs do not divide evenly, some have one more."""
    small, more = divmod(gpus, nodes)
    found = []
    for size, tasks in ((small + 1, more), (small, nodes - more)):
        if tasks:
            shape = Shape(cpus * 1000 // nodes, memory_mib // nodes, size, WHOLE_GPU, models=models)
            found.append(Subgroup(f"of-{size}", shape, tasks, tasks))
    return tuple(found)


def _gpus(amounts: Mapping[str, str]) -> int:
    if "gres/gpu" in amounts:
        return _whole(amounts["gres/gpu"], "gres/gpu")
    return sum(_whole(value, key) for key, value in amounts.items() if key.startswith("gres/gpu:"))


def _models(amounts: Mapping[str, str]) -> set[str]:
    return {
        key.partition(":")[2]
        for key, value in amounts.items()
        if key.startswith("gres/gpu:") and value != "0"
    }


def _whole(text: str, what: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 15:
        raise ValueError(f"{what} is no whole number: {text!r}")
    return int(text)


def _memory(text: str, nodes: int, cpus: int) -> int:
    """MiB in all, of `128G`, or of older versions' `4Gn` (a node) and `2Gc` (a CPU)."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ValueError(f"memory is no amount, such as 128G: {text!r}")
    try:
        amount = float(match[1])
    except ValueError:
        raise ValueError(f"memory is no amount, such as 128G: {text!r}") from None
    return int(amount * MIB[match[2]] * {"": 1, "n": nodes, "c": max(cpus, 1)}[match[3]])
