"""The store and the machine as a snapshot of `moiety.policy`, and its decisions as orders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from moiety.policy.model.cluster import WHOLE_GPU, GpuDevice, Node
from moiety.policy.model.decisions import Decision, Eviction, Placement, PlacementRefusal
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Running, Snapshot, Spot, Task
from moiety.policy.model.workloads import Shape, Subgroup, Workload
from moiety.pool.engine.books import GpuBooks
from moiety.pool.engine.eligible import Eligible
from moiety.pool.engine.messages import (
    CardView,
    CycleAnswer,
    EndOrder,
    MachineView,
    StartOrder,
    WaitReason,
)
from moiety.pool.engine.user_limits import UserBooks, only_on
from moiety.pool.engine.wait_times import WaitTimes
from moiety.pool.model.project_rows import OUTSIDE
from moiety.pool.model.projects import FIRST_MONDAY_S, pool_words
from moiety.pool.model.records import PREEMPTED, RESUMES, WorkRow
from moiety.pool.model.states import ACTIVE, WorkState

MAIN: Final = "main"
OUTSIDE_QUEUE: Final = Queue(OUTSIDE, quota=Amounts(gpu_milli=0), weight=0.0)
TASK_STEP_S: Final = 1e-6
"""Tasks of an array are submitted together, and the first are tried first."""
SHAPES_KEPT: Final = 4096
"""Shapes that are kept for the next workload that asks for the same."""
BESIDE_MAX: Final = 3
"""The most GPUs that a reason names."""
WHOLE_NEEDS: Final = 9
"""Tenths of a GPU's memory that work of the whole GPU needs beside an idle process of others."""
AWAY: Final = frozenset({WorkState.SUSPENDING, WorkState.SUSPENDED})
"""What has given its GPUs back, or is about to, and keeps its memory."""
NOTHING: Final[Mapping[int, int]] = {}


@dataclass(slots=True)
class PoolNodes:
    """The nodes of a machine: one for each model of GPU and size of its memory."""

    nodes: tuple[Node, ...] = ()
    cards: dict[str, list[CardView]] = field(default_factory=dict)
    """By node: its GPUs, in the order of the node's own numbers."""

    def spot(self, indices: Iterable[int], gpu_milli: int) -> Spot:
        """The place of a workload that has these GPUs of the machine."""
        wanted = set(indices)
        for name, cards in self.cards.items():
            own = tuple(at for at, card in enumerate(cards) if card.index in wanted)
            if own or not wanted:
                return Spot(name, own, gpu_milli)
        return Spot(next(iter(self.cards)), (), 0)

    def beside(self) -> str:
        """What programs outside the pool have of the GPUs, in words; empty: nothing."""
        parts = [
            f"{card.outside_mib} MiB and {card.outside_milli / 10:g} % of the time of GPU "
            f"{card.index}"
            for cards in self.cards.values()
            for card in cards
            if card.outside_mib or card.outside_milli
        ]
        more = f" and of {len(parts) - BESIDE_MAX} more" if len(parts) > BESIDE_MAX else ""
        shown = ", ".join(parts[:BESIDE_MAX])
        return f"programs outside the pool have {shown}{more}" if parts else ""

    def places(self) -> dict[int, tuple[str, int]]:
        """By index of a GPU: its node, and its number there."""
        return {
            card.index: (name, at)
            for name, cards in self.cards.items()
            for at, card in enumerate(cards)
        }

    def indices(self, spot: Spot) -> list[int]:
        """The GPUs of the machine at a place."""
        return [self.cards[spot.node][at].index for at in spot.gpus]


def nodes_of(machine: MachineView) -> PoolNodes:
    """The nodes of a machine; its processors and memory are divided by the number of GPUs."""
    kinds: dict[tuple[str, int], list[CardView]] = {}
    for card in sorted(machine.cards, key=lambda each: each.index):
        kinds.setdefault((card.model, card.memory_mib), []).append(card)
    if not kinds:
        node = Node(machine.name, machine.cpu_milli, machine.memory_mib)
        return PoolNodes((node,), {node.name: []})
    found = PoolNodes()
    total = len(machine.cards)
    for at, ((model, memory_mib), cards) in enumerate(kinds.items()):
        node = Node(
            machine.name if len(kinds) == 1 else f"{machine.name}/{at}",
            machine.cpu_milli * len(cards) // total,
            machine.memory_mib * len(cards) // total,
            tuple(GpuDevice(i, is_healthy=card.usable) for i, card in enumerate(cards)),
            model=model,
            gpu_memory_mib=memory_mib,
            topology=(("machine", machine.name),),
        )
        found.nodes += (node,)
        found.cards[node.name] = cards
    return found


def whole_memory_mib(machine: MachineView) -> int:
    """The memory that work of whole GPUs needs of each, where others have some of it; else 0.

    What has memory of a GPU and does nothing does not keep work of a whole GPU from it, if that is
    little; without such processes, memory does not count for it.
    """
    if not any(card.outside_mib and not card.outside_milli for card in machine.cards):
        return 0
    return min(card.memory_mib for card in machine.cards) * WHOLE_NEEDS // 10


def workload_of(row: WorkRow, models: Iterable[str], whole_mib: int = 0) -> Workload:
    """A workload as the engine knows it; `models` are those of the machine."""
    named = row.gpu_model.lower()
    wanted = frozenset(m for m in models if named in m.lower()) if named else frozenset()
    return Workload(
        str(row.id),
        _tasks_of(
            cpu_milli=row.cpu_milli,
            memory_mib=row.memory_mib,
            gpus=row.gpus,
            gpu_milli=row.gpu_milli,
            gpu_memory_mib=row.gpu_memory_mib or (whole_mib if row.gpu_milli == WHOLE_GPU else 0),
            models=wanted or (frozenset({row.gpu_model}) if named else frozenset()),
        ),
        queue=row.project,
        user=row.user,
        priority=row.priority,
        is_preemptible=row.preemptible,
        is_opportunistic=row.opportunistic,
        submitted_s=row.turn_s
        or row.submitted_s + (row.id - (row.array_id or row.id)) * TASK_STEP_S,
        max_run_s=row.time_limit_s,
    )


@lru_cache(SHAPES_KEPT)
def _tasks_of(**values: Any) -> tuple[Subgroup, ...]:
    """The one task of a workload with this shape; equal shapes are one object in memory."""
    return (Subgroup(MAIN, Shape(**values)),)


def outside_work(nodes: PoolNodes) -> tuple[list[Workload], list[Running]]:
    """What the pool did not start, as work that cannot be taken away."""
    workloads: list[Workload] = []
    running: list[Running] = []
    for name, cards in nodes.cards.items():
        for at, card in enumerate(cards):
            if not (card.outside_milli or card.outside_mib):
                continue
            milli = min(card.outside_milli, WHOLE_GPU)
            shape = Shape(
                gpus=1,
                gpu_milli=max(milli, 1),  # 0 would be the part that the memory is
                gpu_memory_mib=min(card.outside_mib, card.memory_mib),
            )
            label = f"{OUTSIDE}{card.index}"
            workloads.append(
                Workload(label, (Subgroup(MAIN, shape),), queue=OUTSIDE, is_preemptible=False)
            )
            running.append(Running(Task(label, MAIN, 0), shape, Spot(name, (at,), milli)))
    return workloads, running


def running_of(row: WorkRow, workload: Workload, nodes: PoolNodes, carried: int = 0) -> Running:
    """The task of a workload that has its GPUs."""
    shape = workload.subgroups[0].shape
    spot = nodes.spot(row.cards, 0)
    memory_mib = next((node.gpu_memory_mib for node in nodes.nodes if node.name == spot.node), 0)
    milli = shape.milli_on(memory_mib) if shape.gpus else 0
    return Running(
        Task(workload.name, MAIN, 0),
        shape,
        Spot(spot.node, spot.gpus, min(milli, WHOLE_GPU)),
        since_s=(row.began_s or 0.0) + row.suspended_s,
        state_bytes=carried if row.state is WorkState.RUNNING else 0,
    )


def snapshot_of(
    nodes: PoolNodes,
    rows: Collection[WorkRow],
    workloads: Mapping[int, Workload],
    queues: tuple[Queue, ...],
    now_s: float,
    monday_s: float = FIRST_MONDAY_S,
    carried: Mapping[int, int] = NOTHING,
    host_free_bytes: int = 0,
    users: UserBooks | None = None,
    waits: WaitTimes | None = None,
) -> Snapshot:
    """The pool now: what waits and may be tried, what runs, and what others have.

    What was told to give its GPUs to others counts as gone: else more would be ended for them. All
    other work that ends has its GPUs, as far as others have not got them meanwhile: it may have
    been suspended. `workloads` has the engine's form of each row. Suspended work
    waits for its own GPUs: it goes on there and nowhere else. `carried` are the bytes of what can
    be suspended, and `host_free_bytes` what the host has room for. `users` are their limits, where
    there are any.
    """
    beside, running = outside_work(nodes)
    found = [*beside]
    ending: list[Running] = []
    eligible = Eligible.of(rows, now_s)
    places = nodes.places()
    for row in rows:
        workload = workloads[row.id]
        if row.state is WorkState.SUSPENDED and row.intent == RESUMES:
            own = frozenset(places[card] for card in row.cards if card in places)
            found.append(only_on(workload, own))
        if row.state in AWAY or (row.state is WorkState.ENDING and row.intent == PREEMPTED):
            continue
        if row.state in ACTIVE:
            begun = running_of(row, workload, nodes, carried.get(row.id, 0))
            found.append(_without_limit(workload, begun, now_s))
            (ending if row.state is WorkState.ENDING else running).append(begun)
        elif not eligible.has(row) or (users is not None and users.why_not(row) is not None):
            if waits is not None:
                waits.later.add(workload.name)
        elif users is None:
            found.append(workload)
        else:
            found.append(users.confined(row, workload, places))
    running += ending
    return Snapshot(
        nodes=_with_hosts(nodes.nodes, running),
        workloads=tuple(found),
        running=_within(running),
        queues=(*queues, OUTSIDE_QUEUE),
        now_s=now_s,
        monday_s=monday_s,
        waits_since={} if waits is None else waits.at(now_s),
        host_free=dict.fromkeys(
            (node.name for node in nodes.nodes if host_free_bytes),
            host_free_bytes // len(nodes.nodes),
        ),
    )


def _within(running: Iterable[Running]) -> tuple[Running, ...]:
    """What runs, with no more of a GPU than those before it leave: programs outside come first.

    A program outside the pool can use a GPU that work of the pool has. It goes on, and counts
    with what is left: so it ends for others only if they have room beside the program.
    """
    left: dict[tuple[str, int], int] = {}
    found = []
    for each in running:
        spot = each.spot
        places = [(spot.node, gpu) for gpu in spot.gpus]
        milli = min([spot.gpu_milli, *(left.get(place, WHOLE_GPU) for place in places)])
        is_less = milli < spot.gpu_milli
        found.append(replace(each, spot=spot._replace(gpu_milli=milli)) if is_less else each)
        for place in places:
            left[place] = left.get(place, WHOLE_GPU) - milli
    return tuple(found)


def _with_hosts(nodes: tuple[Node, ...], running: Iterable[Running]) -> tuple[Node, ...]:
    """The nodes, with at least the processors and the memory that work on them was given.

    A machine can have fewer than when that began, and GPUs that come or go divide them anew.
    """
    used: dict[str, list[int]] = {node.name: [0, 0] for node in nodes}
    for each in running:
        own = used[each.spot.node]
        own[0] += each.shape.cpu_milli
        own[1] += each.shape.memory_mib
    if all(n.cpu_milli >= used[n.name][0] and n.memory_mib >= used[n.name][1] for n in nodes):
        return nodes
    return tuple(
        replace(
            node,
            cpu_milli=max(node.cpu_milli, used[node.name][0]),
            memory_mib=max(node.memory_mib, used[node.name][1]),
        )
        for node in nodes
    )


def _without_limit(workload: Workload, begun: Running, now_s: float) -> Workload:
    """Work that has had its time has no limit any more: its supervisor ends it, by its own clock.

    Else the engine would end it, and give its GPUs to others at once, also beside free ones.
    """
    limit_s = workload.max_run_s
    is_over = limit_s is not None and now_s - begun.since_s >= limit_s
    return replace(workload, max_run_s=None) if is_over else workload


def orders_of(
    plan: Iterable[Decision],
    rows: Mapping[int, WorkRow],
    nodes: PoolNodes,
    look_s: float | None = None,
    arena_mib: int = 0,
    beyond: dict[int, WaitReason] | None = None,
    users: UserBooks | None = None,
) -> CycleAnswer:
    """The orders of a plan. A start on GPUs that others still have is left to a later cycle.

    Work that has had its time is ended by its supervisor. `beyond` is told of work for which there
    are GPUs, but whose memory limit is too much beside those of others.
    """
    ends: list[EndOrder] = []
    starts: list[StartOrder] = []
    books = GpuBooks(
        [card for each in nodes.cards.values() for card in each], rows.values(), arena_mib
    )
    for each in plan:
        if isinstance(each, Eviction):
            row = rows.get(int(each.task.workload))
            is_there = row is not None and row.state in (WorkState.STARTING, WorkState.RUNNING)
            if row is not None and is_there and not each.is_final:
                ends.append(EndOrder(row.id, pool_words(each.reason), each.is_suspension))
        elif isinstance(each, Placement):
            row = rows[int(each.task.workload)]
            cards = nodes.indices(each.spot)
            if row.state is WorkState.SUSPENDED:
                milli = books.milli_of(row, row.cards)
                if books.take_back(row):
                    starts.append(StartOrder(row.id, row.attempt, row.cards, milli, is_resume=True))
                continue
            if users is not None and not users.take(row, cards):
                continue  # what else starts now takes what its user may have: it is tried next
            if books.take(row, cards, each.spot.gpu_milli):
                starts.append(StartOrder(row.id, row.attempt + 1, cards, each.spot.gpu_milli))
            elif beyond is not None and (why := books.beyond_limits(row, cards)):
                beyond[row.id] = why
    return CycleAnswer(ends, starts, look_s)


def reasons_of(plan: Iterable[Decision]) -> dict[str, WaitReason]:
    """By the engine's name of a workload: why it waits."""
    return {
        each.task.workload: WaitReason(
            str(each.reason), pool_words(each.text), each.is_final, dict(each.numbers)
        )
        for each in plan
        if isinstance(each, PlacementRefusal)
    }
