"""A trace: the nodes of a cluster, and the jobs that came to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from moiety.model.errors import InvalidValue
from moiety.policy.model.cluster import GPUS_MAX, Node
from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import NodeArrays
from moiety.policy.place.workload_mix import WorkloadMix, typical
from moiety.sim.reading import Complaints, TableRow

Numbered = tuple[int, "Job"]


@dataclass(frozen=True, slots=True)
class Job:
    """One task that arrived, and how long it ran if that is known."""

    name: str
    shape: Shape
    submitted_s: float = 0.0
    duration_s: float | None = None
    queue: str = ""
    spelled: str = ""
    """The allowed GPU models, as they are written in the trace."""


@dataclass(frozen=True)
class Trace:
    """What a replay needs. `arrivals` are positions in `jobs`, repeats included."""

    name: str
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    arrivals: tuple[int, ...] | None = None
    """None: in the order of submission, or sampled"""
    node_order: tuple[int, ...] | None = None
    """For each node its place among equals; None: by name."""
    published: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    """Published allocation in percent by rule, for each percent of capacity that has arrived."""
    complaints: Complaints = field(default_factory=Complaints)

    @property
    def is_timed(self) -> bool:
        """Whether it is known of every job how long it ran."""
        return bool(self.jobs) and all(job.duration_s is not None for job in self.jobs)

    @property
    def typical(self) -> WorkloadMix:
        """The shapes that come most often."""
        return typical((job.shape for job in self.jobs), spelled=(job.spelled for job in self.jobs))

    def check_timed(self) -> None:
        """Raises InvalidValue if the trace is not timed."""
        if not self.is_timed:
            raise InvalidValue(
                f"{self.name}: not every job says how long it runs",
                "durations in the trace, or --fill, where tasks come and stay",
            )

    def faster(self, times: float) -> Trace:
        """The same jobs, of the same length, but arriving `times` as fast."""
        jobs = tuple(replace(job, submitted_s=job.submitted_s / times) for job in self.jobs)
        return replace(self, jobs=jobs)


def gpu_count(row: TableRow, column: str) -> int:
    """How many GPUs a node has; raises ValueError if these are more than can be placed on."""
    count = row.whole(column)
    if count > GPUS_MAX:
        raise ValueError(f"it has {count} GPUs; at most {GPUS_MAX} can be placed on")
    return count


def gpu_model(row: TableRow, default: str | None = None) -> str:
    """The model of a node's GPUs; raises ValueError if it names several."""
    named = row.names("model")
    if len(named) > 1:
        several = " and ".join(sorted(named))
        raise ValueError(
            f"its GPUs are of several models, {several}, and those of a node are of one: write "
            "how many there are of each, such as A100:4|T4:2, or a node for each model, with its "
            "part of the CPUs and the memory"
        )
    return row.text("model", default)


def check_jobs(
    path: Path, jobs: Sequence[Numbered], nodes: Sequence[Node], complaints: Complaints
) -> tuple[Job, ...]:
    """The jobs, without jobs of a repeated name.

    Raises TraceInvalid for the first job that repeats a name, names an unknown model or is larger
    than every node, unless the complaints are lenient. Then too large jobs and jobs that name
    unknown models stay in: they are refused, and counted, when they arrive.
    """
    models = {node.model for node in nodes}
    cluster = NodeArrays(nodes)
    possible: dict[Shape, bool] = {}
    seen: dict[str, int] = {}
    kept = []
    for line, job in jobs:
        shape = job.shape
        if job.name in seen:
            complaints.about(path, line, f"{job.name} is in line {seen[job.name]} already")
            continue
        seen[job.name] = line
        unknown = sorted(shape.models - models)
        if unknown:
            complaints.about(
                path, line, f"{job.name} asks for {unknown[0]}, which no node has", stays=True
            )
        else:
            if shape not in possible:
                possible[shape] = bool(cluster.could_ever(shape).any())
            if not possible[shape]:
                problem = f"{job.name} is larger than every node: {shape}"
                complaints.about(path, line, problem, stays=True)
        kept.append(job)
    return tuple(kept)


def check_nodes(
    path: Path, nodes: Sequence[tuple[int, Node]], complaints: Complaints
) -> tuple[Node, ...]:
    """The nodes, without nodes of a repeated name; raises as `check_jobs`."""
    seen: dict[str, int] = {}
    kept = []
    for line, node in nodes:
        if node.name in seen:
            complaints.about(path, line, f"{node.name} is in line {seen[node.name]} already")
            continue
        seen[node.name] = line
        kept.append(node)
    return tuple(kept)
