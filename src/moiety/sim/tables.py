"""Reads moiety's own traces: nodes and jobs as CSV or JSONL (docs/traces-of-pools.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from moiety.model.errors import TraceMissing
from moiety.policy.model.cluster import WHOLE_GPU, Node, gpus
from moiety.policy.model.workloads import Shape
from moiety.sim import openb
from moiety.sim.reading import Complaints, TableRow, read_table
from moiety.sim.trace import Job, Trace, check_jobs, check_nodes, gpu_count, gpu_model

NODES: Final = ("name", "cpu_milli", "memory_mib", "gpus")
JOBS: Final = ("name", "gpus")
PACKAGED: Final = Path(__file__).parent / "data" / "openb-tenth"
"""Every tenth node of Alibaba's trace, and every tenth pod (Apache-2.0; see its README)."""


def open_trace(folder: Path | None, name: str | None, seed: int, *, lenient: bool = False) -> Trace:
    """The trace in a folder, ours or Alibaba's; None: the one that comes with moiety.

    `name` chooses one of several lists of pods. Raises TraceMissing and TraceInvalid;
    lenient, lines that make no sense are left out and counted.
    """
    complaints = Complaints(lenient)
    if folder is None:
        return read(PACKAGED, complaints)
    if not folder.is_dir():
        odd = "it is neither a folder nor an ordinary file"
        raise TraceMissing(str(folder), odd if folder.exists() else "it does not exist")
    names = openb.lists(folder)
    if not names:
        return read(folder, complaints)
    if name is None and len(names) > 1 and "default" not in names:
        raise TraceMissing(str(folder), f"it has several, {', '.join(names)}: say --list NAME")
    chosen = name or ("default" if "default" in names else names[0])
    return openb.read(folder, chosen, seed, complaints)


def read(folder: Path, complaints: Complaints) -> Trace:
    """A trace of our own format."""
    nodes_file, jobs_file = _table(folder, "nodes"), _table(folder, "jobs")
    nodes = check_nodes(nodes_file, read_table(nodes_file, NODES, _node, complaints), complaints)
    jobs = read_table(jobs_file, JOBS, _job, complaints)
    kept = check_jobs(jobs_file, jobs, nodes, complaints)
    return Trace(folder.name, nodes, kept, complaints=complaints)


def _table(folder: Path, name: str) -> Path:
    for suffix in (".csv", ".jsonl", ".csv.gz", ".jsonl.gz"):
        file = folder / (name + suffix)
        if file.exists():
            return file
    raise TraceMissing(str(folder), f"it has no {name}.csv or {name}.jsonl")


def _node(row: TableRow) -> Node:
    count = gpu_count(row, "gpus")
    return Node(
        row.text("name"),
        row.whole("cpu_milli"),
        row.whole("memory_mib"),
        gpus(count),
        gpu_model(row, "GPU") if count else "",
        row.whole("gpu_memory_mib", 0),
        row.text("pool", "default"),
    )


def _job(row: TableRow) -> Job:
    count = row.whole("gpus")
    memory = row.whole("gpu_memory_mib", 0) if count else 0
    milli = row.whole("gpu_milli", 0 if memory else WHOLE_GPU) if count else 0
    shape = Shape(
        row.whole("cpu_milli", 0),
        row.whole("memory_mib", 0),
        count,
        milli,
        memory,
        row.names("models") if count else frozenset(),
    )
    return Job(
        row.text("name"),
        shape,
        row.number("submitted_s", 0.0),
        row.number("duration_s") if row.text("duration_s", "") else None,
        row.text("queue", ""),
        "|".join(sorted(shape.models)),
    )
