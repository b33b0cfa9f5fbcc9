"""Reads a history: a folder with nodes, jobs, and what else is known of the cluster.

Each table is a CSV or JSONL file, plain or gzip; jobs can also be the output of Slurm's `sacct`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from moiety.model.errors import InvalidValue, TraceInvalid, TraceMissing
from moiety.policy.model.cluster import GPUS_MAX, Node, gpus
from moiety.policy.model.queues import Queue
from moiety.policy.model.workloads import Workload
from moiety.sim import sacct
from moiety.sim.changes import random_failures
from moiety.sim.cluster_trace import MODEL, ClusterTrace, HistoryJob, NodeChange
from moiety.sim.cluster_trace import without_impossible as possible
from moiety.sim.job_table import HISTORY, read_jobs
from moiety.sim.node_table import read_nodes
from moiety.sim.pool_file import DynamicPools, read_dynamic
from moiety.sim.queue_file import read_queues
from moiety.sim.reading import Complaints, TableRow, columns_of, read_table

SUFFIXES: Final = (".csv", ".jsonl", ".csv.gz", ".jsonl.gz")
CHANGES: Final = ("at_s", "what", "node")
KINDS: Final = ("fail", "drain", "add", "remove")
GPUS_PER_NODE: Final = 8
NODES_MAX: Final = 100_000


class _Change(NamedTuple):
    """A line of a table of changes, for one node."""

    at_s: float
    what: str
    node: str
    lasts_s: float
    """0: for good."""


def table_of(folder: Path, name: str) -> Path | None:
    """The file of a table in a folder; None: there is none."""
    for suffix in SUFFIXES:
        if (folder / (name + suffix)).is_file():
            return folder / (name + suffix)
    return None


def is_history(path: Path, *, has_pools: bool = True) -> bool:
    """Whether a trace says more than the placing of single tasks needs.

    That is output of `sacct`, alone or in a folder, or a folder with queues, pools (unless they
    are named apart: not `has_pools`) or changes, or with jobs that have tasks, priorities and the
    like. Raises TraceMissing and TraceInvalid.
    """
    if path.is_file():
        return sacct.is_output(path)
    if not path.is_dir():
        return False
    tables = ("queues", "changes", *["pools"] * has_pools)
    if _sacct_in(path) or any(table_of(path, each) for each in tables):
        return True
    jobs = table_of(path, "jobs")
    return jobs is not None and bool(HISTORY & columns_of(jobs))


def read_history(folder: Path, *, lenient: bool = False) -> ClusterTrace:
    """The history in a folder. Raises TraceMissing and TraceInvalid.

    Lenient, lines that make no sense are left out and counted.
    """
    complaints = Complaints(lenient)
    nodes = read_nodes(_needed(folder, "nodes"), complaints)
    queue_table = table_of(folder, "queues")
    queues = read_queues(queue_table, complaints) if queue_table else ()
    pool_table = table_of(folder, "pools")
    dynamic = DynamicPools((), nodes, {})
    if pool_table:
        dynamic = read_dynamic(pool_table, nodes, complaints)
    pools, always = dynamic.pools, dynamic.always
    change_table = table_of(folder, "changes")
    changes = _changes(change_table, always, complaints) if change_table else ()
    output = _sacct_in(folder)
    path = output or _needed(folder, "jobs")
    notes: tuple[str, ...] = ()
    monday_s = 0.0
    if output:
        found = sacct.read(output, complaints)
        jobs, notes, monday_s = list(found.jobs), found.notes, sacct.MONDAY_S
        jobs = _in_partitions(jobs, {node.pool for node in nodes})
    else:
        jobs = read_jobs(path, complaints, has_queues=bool(queues))
    trace = ClusterTrace(
        folder.resolve().name,
        always,
        (),
        queues,
        pools,
        changes,
        monday_s,
        complaints,
        notes,
        dynamic.nodes,
    )
    return with_jobs(trace, jobs, path)


def read_sacct(
    path: Path,
    gpus_: int | None,
    gpus_per_node: int = GPUS_PER_NODE,
    *,
    queues: Sequence[Queue] = (),
    complaints: Complaints,
) -> ClusterTrace:
    """Output of `sacct` on nodes that are all alike; their CPUs and memory are not looked at.

    Without `gpus_` as many as were used on average, and a quarter more. Raises TraceMissing and
    TraceInvalid.
    """
    found = sacct.read(path, complaints)
    if not found.jobs:
        raise TraceInvalid(path.name, 0, f"it has no jobs that ran: {' '.join(found.notes)}")
    jobs = [_gpus_only(job) for job in found.jobs]
    models = sorted({model for job in jobs for model in _models(job)})
    if models:
        raise TraceInvalid(
            path.name,
            jobs[0].line,
            f"its jobs ask for GPUs of the models {', '.join(models)}, and --cluster has one",
            "a folder with nodes.csv, which names the models, and this file as jobs.sacct",
        )
    most = max(group.shape.gpus for job in jobs for group in job.workload.subgroups)
    size = max(gpus_per_node, most)
    nodes = _alike(gpus_ or _enough(jobs, size), size)
    notes = (*found.notes, "CPUs and host memory were not looked at: no nodes.csv tells them.")
    trace = ClusterTrace(
        path.name, nodes, (), tuple(queues), (), (), sacct.MONDAY_S, complaints, notes
    )
    return with_jobs(trace, jobs, path)


def with_jobs(trace: ClusterTrace, jobs: Sequence[HistoryJob], path: Path) -> ClusterTrace:
    """The trace with those of these jobs that could ever run, in the order of submission."""
    if not jobs:
        raise TraceInvalid(path.name, 0, " ".join(("it has no jobs that ran.", *trace.notes)))
    ordered = tuple(sorted(jobs, key=lambda job: job.workload.submitted_s))
    return possible(replace(trace, jobs=ordered), path)


def with_failures(trace: ClusterTrace, every_s: float, repair_s: float, seed: int) -> ClusterTrace:
    """Nodes also fail at random. Raises InvalidValue as `random_failures`."""
    found = random_failures(trace.last_s - trace.first_s, len(trace.nodes), every_s, repair_s, seed)
    more = [NodeChange(each.at_s, each.what, trace.nodes[each.node].name) for each in found]
    return replace(trace, changes=(*trace.changes, *more))


def _needed(folder: Path, name: str) -> Path:
    found = table_of(folder, name)
    if found is None:
        raise TraceMissing(str(folder), f"it has no {name}.csv or {name}.jsonl")
    return found


def _sacct_in(folder: Path) -> Path | None:
    for name in ("jobs.sacct", "jobs.sacct.gz"):
        if (folder / name).is_file():
            return folder / name
    return None


def _changes(path: Path, nodes: Sequence[Node], complaints: Complaints) -> tuple[NodeChange, ...]:
    """`at_s`, `what` (fail, drain, remove, add), `node` by its name, `for_s`.

    A machine with GPUs of several models comes and goes as a whole.
    """
    parts: dict[str, list[str]] = {}
    for node in nodes:
        parts.setdefault(node.name, []).append(node.name)
        host = dict(node.topology).get("host", node.name)
        if host != node.name:
            parts.setdefault(host, []).append(node.name)

    def make(row: TableRow) -> list[_Change]:
        what, name, at_s = row.text("what"), row.text("node"), row.number("at_s")
        if what not in KINDS:
            raise ValueError(f"what is {what!r}, and not one of {', '.join(KINDS)}")
        if name not in parts:
            raise ValueError(f"there is no node {name} that is always there: write its name")
        lasts_s = 0.0 if what == "remove" else row.number("for_s", 0.0)
        return [_Change(at_s, what, part, lasts_s) for part in parts[name]]

    rows = read_table(path, CHANGES, make, complaints)
    changes = [change for _, changes in rows for change in changes]
    return tuple(_outages(sorted(changes, key=lambda each: each.at_s)))


def _outages(changes: Iterable[_Change]) -> Iterator[NodeChange]:
    """The begin and the end of each outage; what lasts for good ends when the node is added."""
    is_gone: dict[str, bool] = {}
    for at_s, what, node, lasts_s in changes:
        if what == "add":
            if node not in is_gone:  # not there from the beginning
                yield NodeChange(-1.0, "drain", node)
            if is_gone.get(node, True):
                yield NodeChange(at_s, "up", node)
            is_gone[node] = False
            continue
        if not lasts_s and is_gone.get(node):
            continue
        yield NodeChange(at_s, "down" if what == "fail" else "drain", node)
        if lasts_s:
            yield NodeChange(at_s + lasts_s, "up", node)
        else:
            is_gone[node] = True


def _in_partitions(jobs: Sequence[HistoryJob], pools: set[str]) -> list[HistoryJob]:
    """Jobs stay in their partition where nodes have pools of the names of partitions."""
    found = []
    for job in jobs:
        own = job.workload.pools & pools
        found.append(replace(job, workload=replace(job.workload, pools=own)))
    return found


def _gpus_only(job: HistoryJob) -> HistoryJob:
    groups = tuple(
        replace(group, shape=replace(group.shape, cpu_milli=0, memory_mib=0))
        for group in job.workload.subgroups
    )
    return replace(job, workload=replace(job.workload, subgroups=groups, pools=frozenset()))


def _models(job: HistoryJob) -> set[str]:
    return {model for group in job.workload.subgroups for model in group.shape.models}


def _enough(jobs: Sequence[HistoryJob], gpus_per_node: int) -> int:
    first = min(job.workload.submitted_s for job in jobs)
    last = max(job.workload.submitted_s + job.duration_s for job in jobs)
    mean = sum(job.gpus * job.duration_s for job in jobs) / max(last - first, 1.0)
    most = max(_nodes_for(job.workload, gpus_per_node) * gpus_per_node for job in jobs)
    return max(most, -(-int(mean * 1.25 + 1) // gpus_per_node) * gpus_per_node)


def _nodes_for(workload: Workload, gpus_per_node: int) -> int:
    """Nodes that surely hold it."""
    return sum(
        -(-group.tasks // max(gpus_per_node // max(group.shape.gpus, 1), 1))
        for group in workload.subgroups
    )


def _alike(count: int, gpus_per_node: int) -> tuple[Node, ...]:
    sizes = [gpus_per_node] * (count // gpus_per_node)
    if count % gpus_per_node:
        sizes.append(count % gpus_per_node)
    if gpus_per_node > GPUS_MAX or len(sizes) > NODES_MAX:
        raise InvalidValue(f"a cluster of {count} GPUs, {gpus_per_node} on each node")
    return tuple(
        Node(f"node-{at}", 0, 0, gpus(size), MODEL) for at, size in enumerate(sizes, start=1)
    )
