"""Reads Alibaba's trace of 2023 as its publishers lay it out (Weng et al., USENIX ATC '23).

A folder with `nodes.csv` (sn, cpu_milli, memory_mib, gpu, model) and pod lists `pods_NAME.csv`
(name, cpu_milli, memory_mib, num_gpu, gpu_milli of each GPU, gpu_spec with | between models).
Where they are, `arrivals_NAME_SEED.txt[.gz]` (rows of the list from 0),
`node_rank_NAME_SEED.txt[.gz]` (a node and its place among equals) and `published_allocation.csv`
are read, too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from moiety.model.errors import TraceInvalid, TraceMissing
from moiety.policy.model.cluster import Node, gpus
from moiety.policy.model.workloads import Shape
from moiety.sim.reading import Complaints, TableRow, parse_index, read_lines, read_table
from moiety.sim.trace import Job, Trace, check_jobs, check_nodes, gpu_count, gpu_model

NODES: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
PODS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
POLICIES: Final = {"FGD": "fgd", "BestFit": "best-fit"}
PERCENTS: Final = 131
RANKS: Final = 10**9


def lists(folder: Path) -> list[str]:
    """The names of the pod lists in a folder."""
    found = (re.fullmatch(r"pods_(.+)\.csv", file.name) for file in sorted(folder.glob("pods_*")))
    return [match[1] for match in found if match]


def read(folder: Path, name: str, seed: int, complaints: Complaints) -> Trace:
    """One of the lists. Raises TraceMissing and TraceInvalid."""
    pods = folder / f"pods_{name}.csv"
    if not pods.exists():
        there = ", ".join(lists(folder)) or "none"
        raise TraceMissing(str(folder), f"it has no list {name} (but: {there})")
    nodes_file = folder / "nodes.csv"
    nodes = check_nodes(nodes_file, read_table(nodes_file, NODES, _node, complaints), complaints)
    timed = _is_timed(pods)
    jobs = read_table(pods, PODS, lambda row: _job(row, timed=timed), complaints)
    kept = check_jobs(pods, jobs, nodes, complaints)
    arrivals, order = None, None
    if complaints.left_out == 0:  # otherwise positions would name other rows
        arrivals = _arrivals(_either(folder, f"arrivals_{name}_{seed}.txt"), len(kept))
        order = _order(_either(folder, f"node_rank_{name}_{seed}.txt"), nodes)
    published = _published(folder / "published_allocation.csv", name, seed)
    return Trace(name, nodes, kept, arrivals, order, published, complaints)


def _node(row: TableRow) -> Node:
    count = gpu_count(row, "gpu")
    return Node(
        row.text("sn"),
        row.whole("cpu_milli"),
        row.whole("memory_mib"),
        gpus(count),
        gpu_model(row) if count else "",
    )


def _is_timed(pods: Path) -> bool:
    with pods.open(encoding="utf-8", errors="replace") as lines:
        columns = lines.readline().strip().split(",")
    return "creation_time" in columns and "deletion_time" in columns


def _job(row: TableRow, *, timed: bool) -> Job:
    count = row.whole("num_gpu")
    shape = Shape(
        row.whole("cpu_milli"),
        row.whole("memory_mib"),
        count,
        row.whole("gpu_milli") if count else 0,
        0,
        row.names("gpu_spec") if count else frozenset(),
    )
    name = row.text("name")
    spelled = row.text("gpu_spec", "") if count else ""
    if not timed:
        return Job(name, shape, spelled=spelled)
    begun, ended = row.number("creation_time"), row.number("deletion_time")
    if ended < begun:
        raise ValueError(f"{name} ended at {ended:g} s, before it came at {begun:g} s")
    return Job(name, shape, begun, ended - begun, spelled=spelled)


def _either(folder: Path, name: str) -> Path | None:
    for file in (folder / name, folder / f"{name}.gz"):
        if file.exists():
            return file
    return None


def _arrivals(path: Path | None, jobs: int) -> tuple[int, ...] | None:
    if path is None:
        return None
    found = []
    for line, text in read_lines(path):
        row = parse_index(text, jobs)
        if row is None:
            raise TraceInvalid(path.name, line, f"{text!r} is no row of a list of {jobs} jobs")
        found.append(row)
    return tuple(found)


def _order(path: Path | None, nodes: tuple[Node, ...]) -> tuple[int, ...] | None:
    if path is None:
        return None
    ranks: dict[str, int] = {}
    for line, text in read_lines(path):
        name, _, place = text.partition(" ")
        rank = parse_index(place.strip(), RANKS)
        if rank is None:
            raise TraceInvalid(path.name, line, f"{text!r} is not a node and its place")
        ranks[name] = rank
    missing = [node.name for node in nodes if node.name not in ranks]
    if missing:
        raise TraceInvalid(path.name, 0, f"it has no place for node {missing[0]}")
    return tuple(ranks[node.name] for node in nodes)


def _published(path: Path, name: str, seed: int) -> dict[str, tuple[float | None, ...]]:
    if not path.exists():
        return {}
    percents = [str(percent) for percent in range(PERCENTS)]

    def make(row: TableRow) -> tuple[str, str, int, tuple[float | None, ...]]:
        values = [row.text(percent, "") for percent in percents]
        numbers = tuple(float(value) if value else None for value in values)
        return row.text("trace"), row.text("policy"), row.whole("seed"), numbers

    rows = read_table(path, ["trace", "policy", "seed", *percents], make, Complaints())
    return {
        POLICIES[policy]: values
        for _, (trace, policy, of_seed, values) in rows
        if (trace, of_seed) == (name, seed) and policy in POLICIES
    }
