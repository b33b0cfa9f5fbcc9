"""Reads moiety's own traces: nodes and jobs as CSV or JSONL (docs/traces-of-pools.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from moiety.model.errors import TraceMissing
from moiety.sim import openb
from moiety.sim.job_table import shape_of
from moiety.sim.node_table import read_nodes
from moiety.sim.reading import Complaints, TableRow, read_table
from moiety.sim.trace import Job, Trace, check_jobs

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
    nodes = read_nodes(nodes_file, complaints)
    jobs = read_table(jobs_file, JOBS, _job, complaints)
    kept = check_jobs(jobs_file, jobs, nodes, complaints)
    return Trace(folder.name, nodes, kept, complaints=complaints)


def _table(folder: Path, name: str) -> Path:
    for suffix in (".csv", ".jsonl", ".csv.gz", ".jsonl.gz"):
        file = folder / (name + suffix)
        if file.exists():
            return file
    raise TraceMissing(str(folder), f"it has no {name}.csv or {name}.jsonl")


def _job(row: TableRow) -> Job:
    shape = shape_of(row)
    return Job(
        row.text("name"),
        shape,
        row.number("submitted_s", 0.0),
        row.number("duration_s") if row.text("duration_s", "") else None,
        row.text("queue", ""),
        "|".join(sorted(shape.models)),
    )
