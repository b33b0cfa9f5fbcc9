"""For each node, the units there that may be ended, and how many of them a task would need.

It is kept while units begin and end, so that the nodes for a piece are found without looking at
every unit again. A need is that of units of all queues; nodes with units of the queue that asks
are few, and are looked at anew.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import NodeArrays
from moiety.policy.preempt.victims import OPPORTUNISTS, Victims, VictimUnit
from moiety.policy.state.cluster_state import ClusterState, PlacedTask

Node = tuple[str, int]
"""A pool, and the position of one of its nodes."""
Rank = tuple[object, ...]
"""Where a unit stands among all: opportunistic ones first, then in the order of yielding."""


class Need(NamedTuple):
    """What a node would have to free for one task, and how far the units there would end for it."""

    to_free: int
    """Thousandths of GPUs."""
    last: Rank
    """The rank of the last unit that would have to end there; empty for none."""
    node: Node


class OnNode(NamedTuple):
    """A task on a node, and its unit; sorts by the order of yielding."""

    rank: Rank
    position: int
    """Of the task in its unit."""
    queue: str
    unit: VictimUnit
    seated: PlacedTask


class NodeNeeds:
    """The needs of all nodes for tasks of the shapes that were asked for."""

    def __init__(self, state: ClusterState, leavers: Victims) -> None:
        self._state = state
        self._leavers = leavers
        self._on: dict[Node, list[OnNode]] = {}
        self._of: dict[str, list[tuple[Node, OnNode]]] = {}
        """The same by workload."""
        self._nodes_of: dict[str, Counter[Node]] = {}
        """How many tasks of each queue are on each node."""
        self._known: dict[Shape, dict[Node, Need]] = {}
        self._sorted: dict[Shape, list[Need]] = {}
        self._dirty: dict[Shape, set[Node]] = {}
        """The nodes of which the need is not right any more."""
        self._changed = {pool: placer.watch() for pool, placer in state.pools.placers.items()}
        """The nodes on which tasks began or ended since all shapes were told."""
        leavers.renewed.clear()
        for queue in (OPPORTUNISTS, *leavers.queues):
            for unit in leavers.of(queue):
                for node, here in self._enter(queue, unit):
                    self._on.setdefault(node, []).append(here)
        for line in self._on.values():
            line.sort(key=_place)

    @classmethod
    def current(cls, state: ClusterState, leavers: Victims) -> NodeNeeds:
        """The needs as they are now."""
        found = leavers.needs
        if not isinstance(found, cls):
            found = leavers.needs = cls(state, leavers)
            return found
        for queue in (OPPORTUNISTS, *leavers.queues):
            leavers.of(queue)
        for name in leavers.renewed:
            for node, here in found._of.pop(name, ()):
                found._drop(node, here)
            queue_of = leavers.queue_of(name)
            if queue_of is not None:
                for unit in leavers.units_of(name):
                    for node, here in found._enter(queue_of, unit):
                        insort(found._on.setdefault(node, []), here, key=_place)
                        found._touch(node)
        leavers.renewed.clear()
        return found

    def _enter(self, queue: str, unit: VictimUnit) -> list[tuple[Node, OnNode]]:
        """Note where a unit is; returns its tasks, which still have to get into their lines."""
        rank = queue != OPPORTUNISTS, unit.order
        found = []
        nodes = self._nodes_of.setdefault(queue, Counter())
        for position, task in enumerate(unit.tasks):
            seated = self._state.seated.get(task)
            if seated is None:
                continue
            node = seated.place.pool, seated.place.seat.node
            here = OnNode(rank, position, queue, unit, seated)
            found.append((node, here))
            nodes[node] += 1
        self._of.setdefault(unit.workload.name, []).extend(found)
        return found

    def _drop(self, node: Node, here: OnNode) -> None:
        line = self._on[node]
        del line[bisect_left(line, _place(here), key=_place)]
        nodes = self._nodes_of[here.queue]
        nodes[node] -= 1
        if not nodes[node]:
            del nodes[node]
        self._touch(node)

    def _touch(self, node: Node) -> None:
        for dirty in self._dirty.values():
            dirty.add(node)

    def of(
        self, shape: Shape, queue: str, could: Callable[[Node], bool]
    ) -> Iterator[tuple[Node, list[VictimUnit]]]:
        """The nodes where a task of a queue would have room if units of other queues ended.

        Those come first on which the least of GPUs has to be freed, then those whose units yield
        first; each with its units. Nodes for which not `could` holds are left out.
        """
        own: Mapping[Node, int] = self._nodes_of.get(queue, Counter())
        usual = (need for need in self._all(shape) if need.node not in own)
        others = [
            need
            for node in own
            if (need := self._need(shape, node, self._without(node, queue))) is not None
        ]
        for need in heapq.merge(usual, sorted(others)):
            if could(need.node):
                here = self._without(need.node, queue)
                yield need.node, list({each.unit.tasks: each.unit for each in here}.values())

    def _without(self, node: Node, queue: str) -> list[OnNode]:
        return [each for each in self._on[node] if each.queue != queue]

    def _all(self, shape: Shape) -> list[Need]:
        """The needs of all nodes, sorted; they are renewed where something has changed."""
        for pool, changed in self._changed.items():
            for at in changed:
                self._touch((pool, at))
            changed.clear()
        line = self._sorted.get(shape)
        if line is None:
            self._dirty[shape] = set()
            found = (self._need(shape, node, here) for node, here in self._on.items())
            line = self._sorted[shape] = sorted(need for need in found if need is not None)
            self._known[shape] = {need.node: need for need in line}
            return line
        known, dirty = self._known[shape], self._dirty[shape]
        for node in dirty:
            before, now = known.pop(node, None), self._need(shape, node, self._on.get(node, ()))
            if now is not None:
                known[node] = now
            if now == before:
                continue
            if before is not None:
                del line[bisect_left(line, before)]
            if now is not None:
                insort(line, now)
        dirty.clear()
        return line

    def _need(self, shape: Shape, node: Node, here: Sequence[OnNode]) -> Need | None:
        """The need of one node; None: no unit is there, or all would not free enough in sum."""
        if not here:
            return None
        return need_of(self._state.pools.placers[node[0]].cluster, shape, node, here)


def need_of(cluster: NodeArrays, shape: Shape, place: Node, here: Sequence[OnNode]) -> Need | None:
    """The need of a node if these tasks can end there; None: they do not free enough in sum."""
    node = place[1]
    wanted = shape.gpus * shape.milli_on(cluster.nodes[node].gpu_memory_mib)
    gpu, cpu = int(cluster.left_total[node]), int(cluster.free_cpu[node])
    memory = int(cluster.free_memory[node])
    to_free = max(wanted - gpu, 0)
    last: Rank = ()
    tasks = iter(here)
    while gpu < wanted or cpu < shape.cpu_milli or memory < shape.memory_mib:
        each = next(tasks, None)
        if each is None:
            return None
        last = each.rank
        gpu += each.seated.shape.gpus * each.seated.place.seat.gpu_milli
        cpu += each.seated.shape.cpu_milli
        memory += each.seated.shape.memory_mib
    return Need(to_free, last, place)


def _place(here: OnNode) -> tuple[Rank, int]:
    return here.rank, here.position
