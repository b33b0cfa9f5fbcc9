"""The order `default` of gangs: the policy engine decides, and the pool carries that out.

Nothing here orders work or chooses what ends. A gang is a workload of one task for each node that
it needs; the engine learns when gangs come, begin, stop and end, never how long they will run. It
is told what has changed since it was asked last: a trace has hundreds of thousands of changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.memory import (
    Began,
    Divided,
    Ended,
    Passed,
    PolicyMemory,
    Stopped,
    Submitted,
    learn,
)
from moiety.policy.model.cluster import WHOLE_GPU, Node, Placing, Pool, gpus
from moiety.policy.model.decisions import CyclePlan, Eviction, Move, Placement
from moiety.policy.model.queues import Queue
from moiety.policy.model.snapshot import Running, Snapshot, Task
from moiety.policy.model.workloads import Shape, Subgroup, Workload
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.state.kept_state import Changes, KeptState
from moiety.sim.runs import GpuPool, Run
from moiety.sim.seats import Nodes, Seats

SETTINGS: Final = CycleSettings(moves_max=0, reservations=0, reasons=False)
"""Moves would be stops and starts here, and the worth of what waits grows until it gets room."""
POOL: Final = Pool(placing=Placing.BIN_PACK)
POOLS: Final = (POOL,)
MIX: Final = WorkloadMix(())
"""`POOL` places without regard to what else may come."""
MODEL: Final = "GPU"
ASKED_MAX: Final = 8
"""How often the engine is asked at one moment, if it asks for that because work has ended."""


class Engine:
    """The order `default`."""

    name = "default"

    def __init__(
        self,
        queues: Sequence[Queue] = (),
        monday_s: float = 0.0,
        settings: CycleSettings = SETTINGS,
    ) -> None:
        self._settings = settings
        self.memory = PolicyMemory()
        """What it has learned."""
        self._kept = KeptState()
        self._queues = tuple(queues)
        self._monday_s = monday_s
        self._exchanged_s: dict[tuple[str, str], float] = {}
        self._work: dict[int, Workload] = {}
        """Each gang that waits or runs, by its number."""
        self._running: dict[int, list[Running]] = {}
        self._is_asked = False
        """Whether the engine wants to be asked again at once."""
        self._asked_s = 0.0
        """When it was asked last."""
        self._changed: dict[int, None] = {}
        """Gangs that came, began, stopped or ended since the engine was told."""
        self._told: dict[int, tuple[Workload, list[Running] | None]] = {}
        """What the engine was told of each gang: where it runs; None: it waits."""
        self._bare = Snapshot((), queues=self._queues, pools=POOLS, monday_s=monday_s)
        """The cluster without work."""
        self._nodes_of: int | None = None
        """The version of the nodes that `_bare` has; None: it has none."""
        self._lasting_of = self._held_on = 0
        """The versions of the lasting nodes of `_seats`, and for which gangs have been shaped."""
        self._seats: dict[int, Seats] = {}
        """The seats of gangs by size on an empty cluster of all lasting nodes."""
        self._nodes_told: tuple[Node, ...] | None = None
        """The nodes of the last decision; None: there was none."""

    def came(self, run: Run, pool: GpuPool) -> None:
        """A gang waits now."""
        learn(self.memory, Passed(pool.now_s))
        workload = self._workload(run, pool.nodes)
        if self._queues:
            workload = replace(workload, queue=run.gang.queue, user=run.gang.user)
        self._work[run.number] = workload
        self._changed[run.number] = None
        if not self._queues:
            workload = replace(workload, user=f"{run.gang.queue}\n{run.gang.user}")
        learn(self.memory, Submitted(workload))

    def ended(self, run: Run, pool: GpuPool) -> None:
        """A gang has done its work."""
        learn(self.memory, Passed(pool.now_s))
        workload = self._work.pop(run.number)
        self._running.pop(run.number, None)
        self._changed[run.number] = None
        learn(self.memory, Ended(workload.name, run.attained_s))

    def _workload(self, run: Run, nodes: Nodes) -> Workload:
        """A task for each node that the gang would have on an empty cluster."""
        subgroups = self._subgroups(run.gang.gpus, nodes)
        return Workload(f"{run.number:07}", subgroups, submitted_s=run.gang.submitted_s)

    def _subgroups(self, size: int, nodes: Nodes) -> tuple[Subgroup, ...]:
        if nodes.lasting_version != self._lasting_of:
            self._lasting_of = nodes.lasting_version
            self._seats.clear()
        seats = self._seats.get(size)
        if seats is None:
            seats = self._seats[size] = nodes.find(size, nodes.lasting) or ((0, size),)
        return _groups(seats)

    def _shape_again(self, pool: GpuPool) -> None:
        """Give waiting gangs other tasks if theirs have no room on the nodes that last."""
        nodes = pool.nodes
        if nodes.lasting_version == self._held_on:
            return
        self._held_on = nodes.lasting_version
        is_held: dict[tuple[Subgroup, ...], bool] = {}
        for run in pool.waiting.values():
            own = self._work[run.number]
            if own.subgroups not in is_held:
                tasks = [each.shape.gpus for each in own.subgroups for _ in range(each.tasks)]
                is_held[own.subgroups] = nodes.holds(tasks)
            if not is_held[own.subgroups]:
                subgroups = self._subgroups(run.gang.gpus, nodes)
                self._work[run.number] = replace(own, subgroups=subgroups)

    def decide(self, pool: GpuPool) -> float | None:
        """Start and stop what the engine says; returns when it wants to be asked again."""
        learn(self.memory, Passed(pool.now_s))
        self._note_stops(pool)
        if not pool.waiting:
            return None
        self._shape_again(pool)
        is_asked = pool.has_news or self._is_asked
        if not (is_asked or self.memory.is_moved(pool.now_s, self._asked_s)):
            return self.memory.look_s(pool.now_s)
        self._asked_s = pool.now_s
        for _ in range(ASKED_MAX):
            plan = self._ask(pool)
            self._carry_out(pool, plan)
            self._is_asked = plan.look_s == pool.now_s
            if not (self._is_asked and pool.waiting):
                return plan.look_s
        self._is_asked = False  # it would take the same room to and fro for ever
        return self.memory.look_s(pool.now_s)

    def snapshot(self, pool: GpuPool) -> Snapshot:
        """What the engine sees now, for questions beside its decisions."""
        running = tuple(each for running in self._running.values() for each in running)
        return replace(self._cluster(pool), workloads=tuple(self._work.values()), running=running)

    def _ask(self, pool: GpuPool) -> CyclePlan:
        """What should happen now, by what has changed; by all that there is if nodes have."""
        snapshot = self._cluster(pool)
        changes: Changes | None = None
        if snapshot.nodes is self._nodes_told:
            changes = self._changes()
        else:
            snapshot = self.snapshot(pool)
            self._told.clear()
            self._changed.update(dict.fromkeys(self._work))
        plan = decide(snapshot, MIX, self._settings, None, self.memory, self._kept, changes)
        for number in self._changed:
            if number in self._work:
                self._told[number] = self._work[number], self._running.get(number)
            else:
                self._told.pop(number, None)
        self._changed.clear()
        self._nodes_told = snapshot.nodes
        return plan

    def _changes(self) -> Changes:
        """What has happened since the engine was told."""
        came: list[Workload] = []
        gone: list[str] = []
        began: list[Running] = []
        ended: list[Task] = []
        for number in self._changed:
            workload, running = self._work.get(number), self._running.get(number)
            told = self._told.get(number)
            if workload is None:
                if told is not None:
                    gone.append(told[0].name)
                continue
            if told is None:
                came.append(workload)
            elif told[1] and not running:
                ended += [each.task for each in told[1]]
            if running and not (told and told[1] is running):
                began += running
        return Changes(tuple(came), tuple(gone), tuple(began), tuple(ended))

    def _carry_out(self, pool: GpuPool, plan: CyclePlan) -> None:
        began: dict[str, list[Placement]] = {}
        moved: dict[str, list[Move]] = {}
        for each in plan:
            if isinstance(each, Eviction):
                if each.exchange:
                    self._exchanged_s[each.exchange] = pool.now_s
                run = pool.running.get(int(each.task.workload))
                if run is not None:
                    pool.stop(run, suspends=each.is_suspension)
            elif isinstance(each, Move):
                moved.setdefault(each.task.workload, []).append(each)
            elif isinstance(each, Placement):
                began.setdefault(each.task.workload, []).append(each)
        for name, moves in moved.items():
            began[name] = self._moved(pool, pool.running[int(name)], moves)
        self._note_stops(pool)
        for name, placements in began.items():
            self._start(pool, pool.waiting[int(name)], placements)

    def _start(self, pool: GpuPool, run: Run, placements: list[Placement]) -> None:
        seats: Counter[int] = Counter()
        for each in placements:
            seats[int(each.spot.node)] += len(each.spot.gpus)
        pool.start(run, tuple(seats.items()))
        shapes = {one.name: one.shape for one in self._work[run.number].subgroups}
        self._running[run.number] = [
            Running(
                each.task,
                shapes[each.task.subgroup],
                each.spot,
                pool.now_s,
                pool.gpu_bytes(run) * len(each.spot.gpus),
            )
            for each in placements
        ]
        self._changed[run.number] = None
        name = self._work[run.number].name
        learn(self.memory, Began(name, run.since_s, run.received_s))

    def _moved(self, pool: GpuPool, run: Run, moves: list[Move]) -> list[Placement]:
        """Stop a gang to let it go on elsewhere; returns where."""
        to = {each.task: each.target for each in moves}
        spots = [
            Placement(each.task, to.get(each.task, each.spot)) for each in self._running[run.number]
        ]
        pool.stop(run, suspends=True)
        return spots

    def _note_stops(self, pool: GpuPool) -> None:
        """Gangs stop by a decision, or because their node goes down."""
        for number in [each for each in self._running if each not in pool.running]:
            del self._running[number]
            self._changed[number] = None
            run = pool.waiting[number]
            learn(self.memory, Stopped(self._work[number].name, run.received_s))

    def _cluster(self, pool: GpuPool) -> Snapshot:
        """The cluster as it is now, without work."""
        nodes = pool.nodes
        if nodes.version != self._nodes_of:
            self._nodes_of = nodes.version
            there = [size * up for size, up in zip(nodes.size, nodes.up, strict=True)]
            if self._queues:
                learn(self.memory, Divided(sum(there), self._queues, self._monday_s))
            named = tuple(
                Node(f"{at:07}", 0, 0, gpus(size), MODEL) for at, size in enumerate(there) if size
            )
            self._bare = replace(self._bare, nodes=named, exchanged_s=self._exchanged_s)
        free = {f"{at:07}": free for at, free in pool.host_free().items()}
        if free:
            return replace(self._bare, now_s=pool.now_s, host_free=free)
        return self._bare.at(pool.now_s)


@cache
def _shape(gpus_: int) -> Shape:
    """One object for each size: equal ones are found faster."""
    return Shape(0, 0, gpus_, WHOLE_GPU)


@cache
def _groups(seats: Seats) -> tuple[Subgroup, ...]:
    """A task for each node of these seats."""
    sizes = Counter(count for _, count in seats)
    return tuple(
        Subgroup(f"of-{size}", _shape(size), tasks, tasks) for size, tasks in sizes.items()
    )
