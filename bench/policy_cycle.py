"""How long a whole cycle takes: thousands of gangs, and room made on full clusters.

The time of `decide` counts, from the snapshot to the actions; the time for the reasons of all that
waits, which are found when they are read, is told beside it. Nodes have 8 GPUs. What is full is
full of jobs of one GPU each, of two queues, at random.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from random import Random

from bench.figure import Figure
from moiety.policy.cycle import decide
from moiety.policy.model.cluster import Node, gpus
from moiety.policy.model.decisions import Decision, Eviction, Placement, PlacementRefusal
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Running, Snapshot, Spot, Task
from moiety.policy.model.workloads import Shape, Subgroup, Workload

ROUNDS = 5
GPUS = 8
ONE = Shape(4000, 16_384, 1, 1000)
EIGHT = Shape(32_000, 131_072, 8, 1000)
GANGS = 4000
MANY = 20_000
PROJECTS = 20
EVICTIONS_MIN = 100
NODES = 1000
GANG_NODES = 500
GANG_TASKS = 250
DEVICE = "CPU, one core"
PEER = "baseline: KAI-Scheduler's own benchmark"


def measure() -> list[Figure]:
    """Seven figures."""
    found = [_cycle(), _many()]
    for nodes, bar, peer in ((100, 0.02, 0.21), (500, 0.1, 9.2), (1000, 0.2, 76.0)):
        snapshot = full(nodes, (workload("wants", "poor", ONE, 1),))
        figure, decisions = _figure(f"policy_reclaim_{nodes}_s", snapshot, bar, peer)
        assert count(decisions, Eviction) == count(decisions, Placement) == 1
        found.append(_noted(figure, f"one GPU is reclaimed; {PEER}"))
    return [*found, _gang(), _unschedulable()]


def _cycle() -> Figure:
    figure, decisions = _figure("policy_cycle_4000_gangs_s", gangs(), 1, 398)
    note = (
        f"{count(decisions, Placement)} tasks placed, {count(decisions, PlacementRefusal)} gangs "
        "told why not; baseline: KAI-Scheduler fills 500 nodes with 4,000 jobs of one GPU"
    )
    return _noted(figure, note)


def _many() -> Figure:
    """Each of twenty projects waits for more than it is due, and takes back a part of that."""
    figure, decisions = _figure("policy_cycle_20000_s", many(), 0.5, None)
    assert count(decisions, Eviction) >= EVICTIONS_MIN
    note = (
        f"{MANY} gangs of {PROJECTS} projects wait, {count(decisions, Eviction)} jobs of two other "
        f"queues end for {count(decisions, Placement)} tasks, "
        f"{count(decisions, PlacementRefusal)} gangs are told why not"
    )
    return _noted(figure, note)


def _gang() -> Figure:
    snapshot = full(GANG_NODES, (workload("wants", "poor", EIGHT, GANG_TASKS),))
    figure, decisions = _figure("policy_reclaim_gang_s", snapshot, 1, 102)
    assert count(decisions, Placement) == GANG_TASKS
    ended = count(decisions, Eviction)
    return _noted(figure, f"{GANG_TASKS} tasks of {GPUS} GPUs, for which {ended} jobs end; {PEER}")


def _unschedulable() -> Figure:
    gang = workload("wants", "poor", EIGHT, GANG_TASKS)
    kept = GANG_NODES - GANG_TASKS + 1
    snapshot = full(GANG_NODES, (gang,), kept=kept)
    figure, decisions = _figure("policy_unschedulable_gang_s", snapshot, 1, 249)
    assert count(decisions, PlacementRefusal) == len(decisions) == 1
    note = (
        f"until a gang of {GANG_TASKS} tasks within its queue's quota is told that it cannot "
        f"be scheduled: on {kept} nodes one job must not be ended; {PEER}"
    )
    return _noted(figure, note)


def _figure(
    name: str, snapshot: Snapshot, bar: float, peer: float | None
) -> tuple[Figure, list[Decision]]:
    """What deciding on a snapshot takes; the note has the processor's time so far."""
    took, worked, decisions = timed(snapshot)
    kind = "nodes" if snapshot.running == () else "full nodes"
    figure = Figure(
        name,
        took,
        "s",
        bar=bar,
        better="lower",
        device=f"{DEVICE}; {len(snapshot.nodes)} {kind} with {GPUS} GPUs each",
        samples=ROUNDS,
        baseline=peer,
        note=worked,
    )
    return figure, decisions


def _noted(figure: Figure, more: str) -> Figure:
    return replace(figure, note=f"{figure.note}{more}")


def timed(snapshot: Snapshot) -> tuple[float, str, list[Decision]]:
    """The median of some rounds in seconds, that of processor time in words, and the decisions."""
    took, worked, read = [], [], []
    for _ in range(ROUNDS):
        began, began_work = time.perf_counter(), time.process_time()
        plan = decide(snapshot)
        took.append(time.perf_counter() - began)
        decided = time.process_time()
        worked.append(decided - began_work)
        decisions = list(plan)
        read.append(time.process_time() - decided)
    words = (
        f"{statistics.median(worked):.3f} s of processor time, and {statistics.median(read):.3f} s "
        "to read all reasons; "
    )
    return round(statistics.median(took), 4), words, decisions


def count(decisions: list[Decision], kind: type) -> int:
    """How many are of that kind."""
    return sum(isinstance(each, kind) for each in decisions)


def cluster(count_: int) -> tuple[Node, ...]:
    """So many nodes with 8 GPUs."""
    return tuple(
        Node(f"n{at:04}", 128_000, 1_048_576, gpus(GPUS), "H100", 81_920) for at in range(count_)
    )


def workload(name: str, queue: str, shape: Shape, tasks: int, at_s: float = 0.0) -> Workload:
    """A gang."""
    return Workload(name, (Subgroup("main", shape, tasks, tasks),), queue, submitted_s=at_s)


def full(nodes: int, wanting: tuple[Workload, ...], kept: int = 0) -> Snapshot:
    """Two queues have all GPUs, and the third, entitled to half of them, has none.

    On `kept` nodes one job must not be ended.
    """
    whole = nodes * GPUS * 1000
    random = Random(0)
    places = [(node, gpu) for node in range(nodes) for gpu in range(GPUS)]
    random.shuffle(places)
    jobs, running = [], []
    for at, (node, gpu) in enumerate(places):
        job = workload(f"j{at:05}", f"rich{at % 2}", ONE, 1, float(at))
        if gpu == 0 and node < kept:
            job = replace(job, is_preemptible=False)
        jobs.append(job)
        spot = Spot(f"n{node:04}", (gpu,), 1000)
        running.append(Running(Task(job.name, "main", 0), ONE, spot, float(at)))
    queues = (
        Queue("poor", quota=Amounts(gpu_milli=whole // 2)),
        *(Queue(f"rich{at}", quota=Amounts(gpu_milli=whole // 5)) for at in range(2)),
    )
    return Snapshot(
        cluster(nodes), (*jobs, *wanting), tuple(running), queues, now_s=float(len(jobs))
    )


def many() -> Snapshot:
    """20,000 gangs of twenty projects wait on a full cluster; a fiftieth is due to them."""
    whole = NODES * GPUS * 1000
    snapshot = full(NODES, ())
    due = whole // 50
    departments = [Queue(f"d{at}", quota=Amounts(gpu_milli=due // 4)) for at in range(4)]
    own = [Queue(name, name[:2], Amounts(gpu_milli=due // PROJECTS)) for name in projects()]
    rich = [Queue(f"rich{at}", quota=Amounts(gpu_milli=(whole - due) // 2)) for at in range(2)]
    return replace(
        snapshot,
        workloads=(*snapshot.workloads, *waiting(MANY)),
        queues=(*rich, *departments, *own),
        now_s=float(len(snapshot.workloads) + MANY),
    )


def gangs() -> Snapshot:
    """4,000 gangs of twenty projects wait, for more than there is."""
    whole = NODES * GPUS * 1000
    queues = [Queue(f"d{at}", quota=Amounts(gpu_milli=whole // 4)) for at in range(4)]
    queues += [Queue(name, name[:2], Amounts(gpu_milli=whole // PROJECTS)) for name in projects()]
    return Snapshot(cluster(NODES), waiting(GANGS), (), tuple(queues), now_s=float(GANGS))


def projects() -> list[str]:
    """Each is a queue below one of four departments."""
    return [f"d{at % 4}p{at}" for at in range(PROJECTS)]


def waiting(total: int) -> tuple[Workload, ...]:
    """Gangs of all projects, of one to four tasks, each of a part of a GPU to eight GPUs."""
    random = Random(0)
    work = []
    for at in range(total):
        parts = random.choice((1, 1, 2, 4))
        whole_gpus = random.choice((1, 1, 1, 2, 4, 8))
        shape = Shape(4000 * whole_gpus, 16_384 * whole_gpus, whole_gpus, 1000)
        if random.random() < 0.25:
            shape = Shape(2000, 8192, 1, random.choice((250, 500)))
        work.append(workload(f"g{at:05}", random.choice(projects()), shape, parts, float(at)))
    return tuple(work)
