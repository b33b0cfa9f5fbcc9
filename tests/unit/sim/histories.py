"""Folders with the history of a small cluster, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from moiety.sim.cluster_trace import ClusterTrace
from moiety.sim.history_file import read_history
from moiety.sim.history_outcome import run_history
from moiety.sim.job_records import JobRecord
from moiety.sim.runs import RestartCost

COST = RestartCost(30.0)
NODES = "name,cpu_milli,memory_mib,gpus\n" + "".join(f"n{at},64000,64000,8\n" for at in (1, 2))


def folder(path: Path, jobs: str, nodes: str = NODES, **tables: str) -> Path:
    """Writes the tables of a history."""
    for name, text in {"jobs": jobs, "nodes": nodes, **tables}.items():
        (path / f"{name}.csv").write_text(text)
    return path


def history(path: Path, jobs: str, nodes: str = NODES, **tables: str) -> ClusterTrace:
    """The history of these tables."""
    return read_history(folder(path, jobs, nodes, **tables))


def jobs_of(trace: ClusterTrace, order: str = "default") -> dict[str, JobRecord]:
    """What became of each job, by its name."""
    records: Sequence[JobRecord] = run_history(trace, order, COST).records
    return {each.name: each for each in records}
