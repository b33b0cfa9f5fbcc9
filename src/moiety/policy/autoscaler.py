"""Dynamic pools: which nodes are worth starting for waiting workloads, and which to give back.

The state after a cycle is tried out on a second cluster that also has the nodes that are being
started and all nodes that could be started. There each waiting workload is served once more in the
usual order: on present nodes, then on starting nodes, then on the fewest further nodes of the first
pool with which it has room. So a workload that would not fit, or may not begin because of a limit,
starts no node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from moiety.policy.model.cluster import Node, Pool
from moiety.policy.model.decisions import BY_QUEUE, Growth, PlacementRefusal, Release, Scaling
from moiety.policy.model.snapshot import Running
from moiety.policy.place.arrays import Bools, Mask, NodeArrays
from moiety.policy.place.pools import Masks
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart, next_piece
from moiety.policy.state.gang_start import start_piece
from moiety.policy.state.queue_order import QueueOrder
from moiety.policy.state.waiting_lines import WaitingLines

STARTED_MAX: Final = 1024
"""The most nodes of a pool that are started in one cycle."""
SHOWN_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class ScalingPlan:
    """What dynamic pools should do, and which workloads wait for it."""

    decisions: tuple[Scaling, ...] = ()
    comes: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    """For each workload: the pool in which nodes start for it, and when all of them are ready."""


def scale(
    state: ClusterState,
    known: WorkloadMix,
    without: Collection[str] = (),
    kept: Collection[tuple[str, int]] = (),
) -> ScalingPlan:
    """How the dynamic pools should grow and shrink, in the state after a cycle.

    Workloads in `without` do not wait any more; `kept` are nodes that are reserved.
    """
    trial = _Trial(state, known)
    if any(name not in without for name in state.unmet):
        trial.serve(without)
    decisions: list[Scaling] = []
    grows = set()
    for pool in trial.pools:
        if growth := trial.growth(pool):
            decisions.append(growth)
            grows.add(pool.name)
    busy = {(each.place.pool, each.place.seat.node) for each in state.seated.values()}
    busy |= {*kept, *trial.used}
    for pool in trial.pools:
        if pool.name not in grows | trial.wanted:
            decisions += _releases(state, pool, busy)
    return ScalingPlan(tuple(decisions), trial.comes)


def with_growth(
    state: ClusterState, plan: ScalingPlan, refusal: PlacementRefusal
) -> PlacementRefusal:
    """A refusal with what dynamic pools do, or could do, for its workload."""
    name = refusal.task.workload
    comes = plan.comes.get(name)
    if comes is not None:
        pool, ready_s = comes
        wait_s = ready_s - state.snapshot.now_s
        text = (
            f"{refusal.text}; a node of pool {pool} is being started for it, "
            f"expected in {wait_s:.0f} s"
        )
        numbers = {**refusal.numbers, "node_expected_s": round(wait_s)}
        return replace(refusal, text=text, is_final=False, numbers=numbers)
    if not refusal.is_final or refusal.reason in BY_QUEUE:
        return refusal
    piece = next_piece(state, state.workloads[name])
    held = could_hold(state, piece) if piece else None
    if held is None:
        return refusal
    text = f"{refusal.text}; pool {held.name} could have nodes for it, later"
    return replace(refusal, text=text, is_final=False)


def could_hold(state: ClusterState, piece: GangPart) -> Pool | None:
    """A dynamic pool that could take all of a piece if it had as many nodes as it may."""
    for name in state.pools.open_to(piece.workload):
        pool = state.pools.pools[name]
        if not pool.is_dynamic:
            continue
        one = NodeArrays([_like(pool, "")])
        for shape, count in piece.shapes:
            slots = int(one.slots(shape, one.left, one.free_cpu, one.free_memory)[0])
            if slots < 1 or (pool.nodes_max is not None and slots * pool.nodes_max < count):
                break
        else:
            return pool
    return None


def _like(pool: Pool, name: str) -> Node:
    assert pool.template
    return replace(pool.template, name=name, pool=pool.name)


def _next(pool: Pool, at: int) -> Node:
    """A node that is not there yet, by its place among those: starting ones come first."""
    node = _like(pool, f"\0{pool.name}/{at}")
    return replace(node, topology=pool.domains[at]) if at < len(pool.domains) else node


def _releases(state: ClusterState, pool: Pool, busy: Collection[tuple[str, int]]) -> list[Release]:
    """The nodes that have been empty for long, the longest first."""
    now_s, since = state.snapshot.now_s, state.snapshot.empty_since
    nodes = state.pools.placers[pool.name].cluster.nodes
    idle = [
        (since[node.name], node.name)
        for at, node in enumerate(nodes)
        if node.name in since
        and now_s - since[node.name] >= pool.idle_s
        and (pool.name, at) not in busy
    ]
    found = []
    for left, (empty_s, name) in zip(
        range(len(nodes) - 1, pool.nodes_min - 1, -1), sorted(idle), strict=False
    ):
        for_s = now_s - empty_s
        text = (
            f"node {name} of pool {pool.name} has been empty for {for_s:.0f} s, and no workload "
            f"that waits would have room on it: {left} are left, of at least {pool.nodes_min}"
        )
        numbers = {"empty_s": round(for_s), "nodes_left": left, "nodes_min": pool.nodes_min}
        found.append(Release(pool.name, name, text, numbers))
    return found


class _Trial:
    """The cluster as it would be with more nodes."""

    def __init__(self, state: ClusterState, known: WorkloadMix) -> None:
        self._before, self._known = state, known
        self._now_s = state.snapshot.now_s
        self.pools = [pool for pool in state.snapshot.pools if pool.is_dynamic]
        self.comes: dict[str, tuple[str, float]] = {}
        self.used: set[tuple[str, int]] = set()
        """Present nodes that would be taken."""
        self.wanted: set[str] = set()
        """Pools with workloads that wait for nodes in use, or for more nodes than can start."""
        self._for: dict[str, list[str]] = {pool.name: [] for pool in self.pools}
        self._opened = dict.fromkeys(self._for, 0)
        """Nodes beyond the starting ones."""
        self._there = {name: len(state.pools.placers[name].cluster) for name in self._for}
        self._ready = {
            pool.name: sorted(
                each.ready_s for each in state.snapshot.starting if each.pool == pool.name
            )
            for pool in self.pools
        }
        self._most = {pool.name: self._room(pool) for pool in self.pools}
        self._in_vain: set[int] = set()

    def _room(self, pool: Pool) -> int:
        """The most further nodes that can be of use: one for each task, unless domains differ."""
        state = self._before
        tasks = sum(state.workloads[name].tasks for name in state.unmet)
        bound = STARTED_MAX if pool.domains else min(tasks, STARTED_MAX)
        if pool.nodes_max is None:
            return bound
        has = self._there[pool.name] + len(self._ready[pool.name])
        return max(0, min(bound, pool.nodes_max - has))

    def serve(self, without: Collection[str]) -> None:
        """Let each waiting workload begin if it would have room, in the usual order."""
        before = self._before
        running = []
        for task, (shape, place, _) in before.seated.items():
            spot, began = before.pools.spot(place), before.began.get(task)
            again = Running(task, shape, spot, self._now_s)
            running.append(replace(began, spot=spot) if began else again)
        nodes = list(before.snapshot.nodes)
        for pool in self.pools:
            more = len(self._ready[pool.name]) + self._most[pool.name]
            nodes += [_next(pool, at) for at in range(more)]
        there = replace(before.snapshot, nodes=tuple(nodes), running=tuple(running))
        self._state = ClusterState(there, self._known)
        lacking = WaitingLines.current(self._state).lacking()
        self._state.standing.share_out(before.capacity, lacking, there.used)
        self._now = self._masks()
        self._coming = self._masks()
        for name, ready in self._ready.items():
            self._open_nodes(name)[: self._there[name] + len(ready)] = True
        for _ in QueueOrder(self._state, without).serve(self._attempt):
            if before.budget.is_past():
                break

    def _masks(self) -> Masks:
        """The nodes that are there now."""
        masks = {}
        for name, placer in self._state.pools.placers.items():
            open_: Bools = np.ones(len(placer.cluster), np.bool_)
            if name in self._there:
                open_[self._there[name] :] = False
            masks[name] = Mask(open_)
        return masks

    def _open_nodes(self, name: str) -> Bools:
        return self._coming[name].nodes

    def _attempt(self, piece: GangPart) -> None:
        if piece.is_extra or piece.likeness in self._in_vain:
            return  # tasks that a gang can do without are no reason to start nodes
        state = self._state
        if not state.may_start(piece.workload, piece.amounts):
            return
        if start_piece(state, piece, self._now):
            self._note(piece)
            return
        names = [name for name in state.pools.open_to(piece.workload) if name in self._for]
        has_more = any(self._ready[name] or self._opened[name] for name in names)
        if has_more and start_piece(state, piece, self._coming):
            self._note(piece)
            return
        for name in names:
            if self._open(piece, name):
                self._note(piece)
                return
        self._in_vain.add(piece.likeness)
        pool = could_hold(self._before, piece)
        if pool is not None:
            self.wanted.add(pool.name)

    def _open(self, piece: GangPart, name: str) -> bool:
        """Let a piece begin with the fewest further nodes of a pool; False: it cannot."""
        low, high = 1, self._most[name] - self._opened[name]
        if high < 1 or not self._fits(piece, name, high):
            return False
        while low < high:
            middle = (low + high) // 2
            if self._fits(piece, name, middle):
                high = middle
            else:
                low = middle + 1
        self._widen(name, high, is_open=True)
        if not start_piece(self._state, piece, self._coming):  # a rule that is random, say
            self._widen(name, high, is_open=False)
            return False
        self._opened[name] += high
        return True

    def _fits(self, piece: GangPart, name: str, more: int) -> bool:
        state = self._state
        mark = state.mark()
        self._widen(name, more, is_open=True)
        fits = start_piece(state, piece, self._coming)
        state.back(mark)
        self._widen(name, more, is_open=False)
        return fits

    def _widen(self, name: str, more: int, *, is_open: bool) -> None:
        first = self._first(name) + self._opened[name]
        self._open_nodes(name)[first : first + more] = is_open

    def _first(self, name: str) -> int:
        """The position of the first node that is neither present nor starting."""
        return self._there[name] + len(self._ready[name])

    def _note(self, piece: GangPart) -> None:
        """Note the nodes that a piece takes, and when the last of them is ready."""
        latest: tuple[float, str] | None = None
        workload = piece.workload.name
        for task, _ in piece.tasks:
            name, seat = self._state.seated[task].place
            if name not in self._for:
                continue
            if seat.node < self._there[name]:
                self.used.add((name, seat.node))
                continue
            ready_s = self._ready_s(name, seat.node)
            if seat.node >= self._first(name) and workload not in self._for[name][-1:]:
                self._for[name].append(workload)
            if latest is None or ready_s > latest[0]:
                latest = ready_s, name
        if latest is not None:
            self.comes[workload] = latest[1], latest[0]

    def _ready_s(self, name: str, node: int) -> float:
        if node < self._first(name):
            return max(self._ready[name][node - self._there[name]], self._now_s)
        return self._now_s + self._before.pools.pools[name].start_s

    def growth(self, pool: Pool) -> Growth | None:
        """The nodes that were opened in this pool."""
        more, names = self._opened[pool.name], self._for[pool.name]
        if not more:
            return None
        has, coming = self._there[pool.name], len(self._ready[pool.name])
        node = _like(pool, "")
        what = f"{len(node.gpus)} {node.model} GPUs each" if node.gpus else "without GPUs"
        shown = ", ".join(names[:SHOWN_MAX])
        if len(names) > SHOWN_MAX:
            shown += f" and {len(names) - SHOWN_MAX} more"
        bound = "" if pool.nodes_max is None else f", of at most {pool.nodes_max}"
        text = (
            f"pool {pool.name} wants {more} more node{'s' * (more > 1)} ({what}), expected in "
            f"{pool.start_s:.0f} s: there {shown} would have room, and nowhere now; it has {has}, "
            f"and {coming} more start{'s' * (coming == 1)}{bound}"
        )
        numbers = {"nodes": has, "starting": coming, "workloads": len(names)}
        if pool.nodes_max is not None:
            numbers["nodes_max"] = pool.nodes_max
        ready_s = self._now_s + pool.start_s
        return Growth(pool.name, more, tuple(names), ready_s, text, numbers)
