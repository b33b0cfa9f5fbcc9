"""The history of a cluster: nodes, pools, queues, jobs of any kind, and what changed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Final

from moiety.model.errors import TraceInvalid
from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.model.cluster import WHOLE_GPU, Node, Pool, gpus
from moiety.policy.model.decisions import Placement, PlacementRefusal
from moiety.policy.model.queues import Queue, QueueTree
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Shape, Subgroup, Workload
from moiety.policy.place.workload_mix import WorkloadMix, typical_work
from moiety.policy.state.kept_state import KeptState
from moiety.sim.changes import most_there
from moiety.sim.gangs import GangTrace
from moiety.sim.reading import Complaints
from moiety.sim.runs import ClusterChange
from moiety.sim.seats import Nodes, Seats

ALONE: Final = CycleSettings(moves_max=0, reservations=0, reasons=False)
"""For a workload that is tried on an empty cluster."""
MODEL: Final = "GPU"
"""The GPU model of nodes that name none."""


@dataclass(frozen=True, slots=True)
class HistoryJob:
    """A workload of the past, and how long it ran."""

    workload: Workload
    duration_s: float
    """Seconds of work with all of its tasks; with fewer it takes longer in proportion."""
    line: int = field(default=0, compare=False)
    """Where it stands in its file; 0: nowhere."""

    @property
    def gpus(self) -> float:
        """GPUs of all tasks; a part that is asked for by memory only counts as a whole GPU."""
        return (
            sum(
                each.tasks * each.shape.gpus * (each.shape.gpu_milli or WHOLE_GPU)
                for each in self.workload.subgroups
            )
            / WHOLE_GPU
        )


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A change of one node."""

    at_s: float
    """After the first submission."""
    what: str
    """`down` (a failure), `drain` (announced: work is kept), or `up` (the end of either)."""
    node: str


@dataclass(frozen=True)
class ClusterTrace:
    """What a replay of a history needs; jobs in the order in which they were submitted."""

    name: str
    nodes: tuple[Node, ...]
    """The nodes of no dynamic pool."""
    jobs: tuple[HistoryJob, ...]
    queues: tuple[Queue, ...] = ()
    """Empty: the names of queues only tell which jobs are alike."""
    pools: tuple[Pool, ...] = ()
    """The dynamic pools."""
    changes: tuple[NodeChange, ...] = ()
    monday_s: float = 0.0
    """A Monday's midnight on the clock of submissions: times of day count from there."""
    complaints: Complaints = field(default_factory=Complaints)
    notes: tuple[str, ...] = ()
    """What the reader left out, in sentences."""
    pool_nodes: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)
    """The nodes that each dynamic pool may ever have, by its name, in the order of starting."""

    @property
    def first_s(self) -> float:
        """When the first job was submitted."""
        return self.jobs[0].workload.submitted_s

    @property
    def last_s(self) -> float:
        """When the last job was submitted."""
        return self.jobs[-1].workload.submitted_s

    @property
    def mix(self) -> WorkloadMix:
        """The usual work."""
        return typical_work(job.workload for job in self.jobs)

    @property
    def all_pools(self) -> tuple[Pool, ...]:
        """The dynamic pools, and a fixed one for each other name that nodes have."""
        dynamic = {pool.name for pool in self.pools}
        names = sorted({node.pool for node in self.nodes} - dynamic)
        return (*(Pool(name) for name in names), *self.pools)


def without_impossible(trace: ClusterTrace, path: Path) -> ClusterTrace:
    """The trace without jobs that could not even begin on the empty cluster.

    Raises TraceInvalid for the first, unless the complaints are lenient, or if no job is left.
    """
    nodes = (*trace.nodes, *chain.from_iterable(trace.pool_nodes.values()))
    there = sorted({node.pool for node in nodes})
    models = {node.model for node in nodes}
    empty = Snapshot(
        nodes, queues=trace.queues, pools=tuple(Pool(name) for name in there), monday_s=0.0
    )
    tree = QueueTree(trace.queues) if trace.queues else None
    moments = (0.0, *tree.borders()) if tree else (0.0,)
    problems: dict[Workload, str] = {}
    kept_state = KeptState()
    mix = WorkloadMix(())
    seen: dict[str, int] = {}
    kept = []
    for job in trace.jobs:
        own = job.workload
        if own.name in seen:
            problem = f"{own.name} is in line {seen[own.name]} already"
            trace.complaints.about(path, job.line, problem)
            continue
        seen[own.name] = job.line
        kind = replace(own, name="job", user="", submitted_s=0.0, priority=0, max_run_s=None)
        if kind not in problems:
            problems[kind] = (
                _queue_problem(tree, own.queue)
                or _name_problem(kind, models, there)
                or _room_problem(kind, empty, moments, mix, kept_state)
            )
        if problems[kind]:
            trace.complaints.about(path, job.line, f"{own.name} {problems[kind]}")
            continue
        kept.append(job)
    if not kept:
        raise TraceInvalid(path.name, 0, "none of its jobs could ever run")
    return replace(trace, jobs=tuple(kept))


def _queue_problem(tree: QueueTree | None, queue: str) -> str:
    if tree is None:
        return ""
    if queue not in tree.queues:
        return f"is of queue {queue or '(none)'}, which is not there"
    if tree.children.get(queue):
        return f"is of queue {queue}, which only has queues below it"
    return ""


def _name_problem(kind: Workload, models: set[str], pools: Sequence[str]) -> str:
    for subgroup in kind.subgroups:
        unknown = sorted(subgroup.shape.models - models)
        if unknown:
            has = ", ".join(sorted(models - {""})) or "none"
            return f"asks for a GPU of model {unknown[0]}, and nodes have: {has}"
    elsewhere = sorted(kind.pools - set(pools))
    if elsewhere:
        return f"asks for pool {elsewhere[0]}, and there are: {', '.join(pools)}"
    return ""


def _room_problem(
    kind: Workload,
    empty: Snapshot,
    moments: Sequence[float],
    mix: WorkloadMix,
    kept: KeptState,
) -> str:
    """Why a workload cannot begin on the empty cluster, at any time of a week; "" if it can."""
    needed = sum(subgroup.tasks_min for subgroup in kind.subgroups)
    for now_s in moments:
        plan = decide(replace(empty, workloads=(kind,), now_s=now_s), mix, ALONE, kept=kept)
        if sum(isinstance(each, Placement) for each in plan) >= max(needed, 1):
            return ""
    asked = "; ".join(f"{each.tasks} x {each.shape}" for each in kind.subgroups)
    why = decide(replace(empty, workloads=(kind,)), mix, replace(ALONE, reasons=True))
    said = next((each.text for each in plan_refusals(why)), "there is no room for it")
    return f"could not begin on the empty cluster ({asked}): {said}"


def plan_refusals(plan: Sequence[object]) -> list[PlacementRefusal]:
    """The refusals of a plan."""
    return [each for each in plan if isinstance(each, PlacementRefusal)]


def of_gangs(
    trace: GangTrace, queues: Sequence[Queue] = (), changes: Sequence[ClusterChange] = ()
) -> ClusterTrace:
    """A file of jobs with whole GPUs, as a history: a task for each node that a gang needs.

    Gangs that the nodes left after all changes would not hold are made for those. Raises
    InvalidValue if a job does not fit on them.
    """
    changes = sorted(changes, key=lambda each: each.at_s)
    sizes = [*trace.nodes, *(each.gpus for each in changes if each.what == "add")]
    nodes = tuple(
        Node(f"{at:07}", 0, 0, gpus(size), MODEL) for at, size in enumerate(sizes) if size
    )
    added = iter(range(len(trace.nodes), len(sizes)))
    moves: list[NodeChange] = []
    for each in changes:
        if each.what == "add":
            name = f"{next(added):07}"
            moves += [NodeChange(-1.0, "drain", name), NodeChange(each.at_s, "up", name)]
        else:
            moves.append(NodeChange(each.at_s, each.what, f"{each.node:07}"))
    room, left = Nodes(trace.nodes), most_there(trace, changes)
    groups: dict[int, tuple[Subgroup, ...]] = {}
    jobs = []
    for at, gang in enumerate(trace.gangs):
        if gang.gpus not in groups:
            seats = room.find(gang.gpus, room.size)
            if seats is None or not left.holds(count for _, count in seats):
                seats = left.find(gang.gpus, left.size)
            groups[gang.gpus] = _subgroups(seats or ((0, gang.gpus),))
        jobs.append(
            HistoryJob(
                Workload(
                    gang.name or f"{at:07}",
                    groups[gang.gpus],
                    gang.queue,
                    user=gang.user,
                    submitted_s=gang.submitted_s,
                ),
                gang.duration_s,
                gang.line,
            )
        )
    return ClusterTrace(
        trace.name,
        nodes,
        tuple(jobs),
        tuple(queues),
        changes=tuple(moves),
        monday_s=trace.monday_s,
        complaints=trace.complaints,
    )


def _subgroups(seats: Seats) -> tuple[Subgroup, ...]:
    sizes: dict[int, int] = {}
    for _, count in seats:
        sizes[count] = sizes.get(count, 0) + 1
    return tuple(
        Subgroup(f"of-{size}", Shape(0, 0, size, WHOLE_GPU), tasks, tasks)
        for size, tasks in sizes.items()
    )
