"""A day of a real cluster on one pool, and what the simulator says of the same day.

The jobs are 400 successive ones of Microsoft's ITP trace, cluster 06, of at most 8 GPUs, scaled to
90 % of 8 simulated cards and to a few minutes. Each is the same C program, which has memory of its
GPUs and ends after its time. Two projects with quotas have them in turn. The simulator has the same
engine with the same settings, suspends as the pool does, and adds to each job what a start was
measured to cost.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Final

from bench.figure import Figure
from bench.policy_traces import OPENB
from moiety.devices.native import native_dir, simgpu_dir
from moiety.pool.client import PoolClient
from moiety.pool.engine.planner import NO_MOVES
from moiety.pool.model.project_rows import ProjectRow, Projects
from moiety.pool.model.projects import queues_of
from moiety.pool.model.records import Accepted, Submission, WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.store import rows
from moiety.pool.store.database import reader
from moiety.sim.engine import Engine
from moiety.sim.gangs import GangJob, GangTrace, read_gangs
from moiety.sim.runs import RestartCost, replay
from moiety.sim.seats import Nodes
from moiety.sim.suspension import StoppingPool, SuspensionCost
from moiety.testing.node import Node
from moiety.testing.waiting import until
from tests.support.native import compile_c
from tests.support.pool_node import PoolNode

TRACE: Final = OPENB.parent / "itp" / "cluster06.csv"
CLUSTER: Final = 112
GPUS: Final = 8
GPU: Final = f"{GPUS}xA100-80:memory=64MiB"
LOAD: Final = 0.9
JOBS: Final = int(os.environ.get("MOIETY_POOL_DAY_JOBS", "400"))
DAY_S: Final = float(os.environ.get("MOIETY_POOL_DAY_S", "300"))
"""How long the day is."""
PROJECTS: Final = (ProjectRow(name="a", quota=5), ProjectRow(name="b", quota=3))
PATIENCE_S: Final = 5.0
"""How long work within its project's quota may wait while others have more than theirs: decisions,
and programs that end, take time."""
SUSPENSION: Final = SuspensionCost(gpu_bytes=1 << 20)
"""What a program of the day has in a GPU: it leaves and comes back at once."""
ROOT: Final = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Day:
    """What became of the jobs."""

    rows: list[WorkRow]
    attempts: list[Attempt]
    began_s: dict[int, float]
    """By number: when its program said that it began, for the last time."""
    start_refused: int


@dataclass(frozen=True)
class Attempt:
    """The GPUs of a workload, from the decision to the end."""

    number: int
    gpus: int
    from_s: float
    until_s: float


def day_of(gangs: Sequence[GangJob], day_s: float = DAY_S) -> list[GangJob]:
    """The jobs in a day of this length and of 90 % load, in turn of the two projects."""
    first = gangs[0].submitted_s
    span = gangs[-1].submitted_s - first
    work = sum(gang.gpus * gang.duration_s for gang in gangs)
    longer = LOAD * GPUS * day_s / work
    return [
        replace(
            gang,
            name=f"job{at}",
            submitted_s=(gang.submitted_s - first) * day_s / span,
            duration_s=gang.duration_s * longer,
            queue=PROJECTS[at % len(PROJECTS)].name,
            user="user",
        )
        for at, gang in enumerate(gangs)
    ]


def predicted(jobs: Sequence[GangJob], cost_s: float) -> float:
    """The average time to completion that the simulator says, with this cost of a start."""
    there = tuple(replace(job, duration_s=job.duration_s + cost_s) for job in jobs)
    trace = GangTrace("day", there, (GPUS,))
    cost = RestartCost(0.0, checkpoint_s=1e9)  # what is ended begins anew
    world = StoppingPool(Nodes(trace.nodes), cost, SUSPENSION)
    runs, _ = replay(trace, Engine(queues_of(PROJECTS), settings=NO_MOVES), cost, pool=world)
    return mean(run.ended_s - run.gang.submitted_s for run in runs)


def run_day(pool: PoolNode, jobs: Sequence[GangJob], program: Path) -> Day:
    """Submit each job at its time, and wait until all are over."""
    with contextlib.closing(PoolClient(pool.paths)) as asking:
        asking.put("/projects", dict[str, list[str]], Projects(list(PROJECTS)))
    began_s = time.monotonic()
    for job in jobs:
        time.sleep(max(began_s + job.submitted_s - time.monotonic(), 0.0))
        asked = Submission(
            program=str(program), argv=["day_job", f"{job.duration_s:.4f}"],
            cwd=str(pool.node.folder), environment=dict(pool.node.env),
            project=job.queue, name=job.name, gpus=job.gpus,
        )  # fmt: skip
        with contextlib.closing(PoolClient(pool.paths)) as asking:  # the server ends idle ones
            asking.post("/workloads", Accepted, asked)
    reading = reader(pool.paths)
    until(lambda: not rows.counts(reading), "all jobs are over", deadline_s=10 * DAY_S, step_s=0.2)
    return _what_became(pool, reading)


def _what_became(pool: PoolNode, reading: sqlite3.Connection) -> Day:
    found = rows.ended_since(reading, 0)
    gpus = {row.id: row.gpus for row in found}
    attempts = [
        Attempt(number, gpus[number], from_s, until_s)
        for number, from_s, until_s in reading.execute(
            "SELECT workload, committed_s, ended_s FROM attempt ORDER BY committed_s"
        )
    ]
    began = {}
    for row in found:
        log = Path(row.stdout)
        lines = log.read_text().splitlines() if log.exists() else []
        for line in lines:
            if line.replace(".", "", 1).isdecimal():
                began[row.id] = float(line)
        if row.state is not WorkState.DONE:
            print(f"bench: job {row.id} is {row.state}: {row.reason}; it said {lines}")
    return Day(found, attempts, began, pool.status().start_refused)


def quota_broken(day: Day, quotas: dict[str, float]) -> int:
    """How many jobs waited within their project's quota while another project had more than its."""
    project = {row.id: row.project for row in day.rows}
    first = {each.number: each.from_s for each in reversed(day.attempts)}
    moments = sorted({at for each in day.attempts for at in (each.from_s, each.until_s)})
    has = [dict.fromkeys(quotas, 0) for _ in moments]
    at_of = {moment: at for at, moment in enumerate(moments)}
    for each in day.attempts:
        for at in range(at_of[each.from_s], at_of[each.until_s]):
            has[at][project[each.number]] += each.gpus
    broken = 0
    for row in day.rows:
        waited_s = 0.0
        for at, moment in enumerate(moments[:-1]):
            begin, end = max(moment, row.submitted_s), min(moments[at + 1], first[row.id])
            within = has[at][row.project] + row.gpus <= quotas[row.project]
            others = any(has[at][name] > quotas[name] for name in quotas if name != row.project)
            if begin >= end:
                continue
            waited_s = waited_s + end - begin if within and others else 0.0
            if waited_s > PATIENCE_S:
                broken += 1
                break
    return broken


def start_cost_s(day: Day, asked_s: dict[int, float]) -> float:
    """What a start costs its GPUs in the mean, beside the time that its program asks for.

    That is from the moment at which work could have begun (it came, or GPUs became free) to the
    moment at which its end is known, but for the time that it was suspended.
    """
    last = {each.number: each for each in day.attempts}
    row_of = {row.id: row for row in day.rows}
    ends = sorted(each.until_s for each in day.attempts)
    costs = []
    for number, own_s in asked_s.items():
        from_s = last[number].from_s
        freed = bisect_right(ends, from_s)
        row = row_of[number]
        could_s = max(row.submitted_s, ends[freed - 1] if freed else 0.0)
        costs.append(last[number].until_s - could_s - own_s - row.suspended_s)
    return mean(costs)


def figures(day: Day, jobs: Sequence[GangJob]) -> list[Figure]:
    """The figures of a day."""
    last = {each.number: each for each in day.attempts}
    asked = {f"job{at}": job.duration_s for at, job in enumerate(jobs)}
    done = [row for row in day.rows if row.state is WorkState.DONE]
    cost_s = start_cost_s(day, {row.id: asked[row.name] for row in done})
    start_ms = median((day.began_s[row.id] - last[row.id].from_s) * 1e3 for row in done)
    real_s = mean((row.ended_s or 0.0) - row.submitted_s for row in day.rows)
    said_s = predicted(jobs, cost_s)
    quotas = {each.name: each.quota or 0.0 for each in PROJECTS}
    load = os.getloadavg()[0]
    device, note = f"simgpu, {GPU}", f"at a load of {load:.0f}; a start costs {cost_s * 1e3:.0f} ms"
    again = len(day.attempts) - len(day.rows)
    return [
        Figure("pool_day_lost", len(jobs) - len(done), "jobs", 0, "lower", device, len(jobs)),
        Figure(
            "pool_day_quota_broken", quota_broken(day, quotas), "jobs", 0, "lower", device,
            len(jobs), note=f"{again} began anew",
        ),
        Figure("pool_start_refused", day.start_refused, "", 0, "lower", device, len(jobs)),
        Figure(
            "pool_day_jct_error", abs(real_s / said_s - 1.0), "", 0.10, "lower", device,
            len(jobs), note=f"{real_s:.2f} s, foreseen {said_s:.2f}; {note}",
        ),
        Figure("pool_start_p50_ms", start_ms, "ms", 30, "lower", device, len(jobs), note=note),
    ]  # fmt: skip


@contextlib.contextmanager
def day_pool() -> Iterator[tuple[PoolNode, Path]]:
    """A pool of 8 simulated GPUs, and the program of its jobs."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Node(Path(folder), GPU, native=native_dir()) as node,
    ):
        node.start_agent()
        simgpu = simgpu_dir()
        assert simgpu is not None, "the native libraries are built"
        driver = str(simgpu / "libcuda.so.1")
        program = compile_c(
            [ROOT / "bench" / "native" / "day_job.c"], Path(folder) / "day_job",
            flags=(f"-I{ROOT / 'native'}", driver),
        )  # fmt: skip
        pool = PoolNode(node)
        try:
            pool.up()
            yield pool, program
        finally:
            pool.close()


def measure() -> list[Figure]:
    """Let a day pass."""
    if not TRACE.exists():
        print(f"bench: {TRACE} is not there: MOIETY_DATA says where else")
        return []
    gangs = read_gangs(TRACE, CLUSTER, lenient=True).gangs
    jobs = day_of([gang for gang in gangs if gang.gpus <= GPUS][:JOBS])
    with day_pool() as (pool, program):
        return figures(run_day(pool, jobs, program), jobs)
