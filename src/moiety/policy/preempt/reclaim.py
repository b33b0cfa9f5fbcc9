"""The ways to make room for a piece: by moving other tasks, or by ending tasks that may be ended.

Each returns the units that ended or moved in the trial, which then stands in the state, or None:
there is no such way, and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from typing import Final

from moiety.policy.model.snapshot import Task
from moiety.policy.place.pools import Masks
from moiety.policy.preempt.node_needs import Node
from moiety.policy.preempt.preemption_trial import EndedUnit, clear
from moiety.policy.preempt.reclaim_nodes import by_need, by_node, is_free_in_sum, openings, touches
from moiety.policy.preempt.rights import ReclaimCheck, by_right
from moiety.policy.preempt.upper_bound import could_free, enough_alone
from moiety.policy.preempt.victims import OPPORTUNISTS, Victims, VictimUnit
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart

NODES_TRIED_MAX: Final = 32
GANG_NODES_MAX: Final = 8
"""The most nodes of which each alone is tried for a whole gang."""
UNITS_MAX: Final = 64
"""The most units that are looked at one by one."""
FEW_TRIED_MAX: Final = 4
IN_ORDER_MAX: Final = 64
"""The most units that end in their order before it is tried node by node."""


def consolidate(
    state: ClusterState, piece: GangPart, leavers: Victims, moves_max: int
) -> list[EndedUnit] | None:
    """Make room by moving other tasks; none of them ends."""
    if moves_max <= 0 or not is_free_in_sum(state, piece):
        return None
    single = [
        VictimUnit(unit.order, unit.workload, (task,), unit.is_extra)
        for queue in leavers.queues
        for unit in leavers.of(queue)
        for task in unit.tasks
        if unit.workload.name != piece.workload.name
    ]
    single.sort(key=lambda unit: (_bytes(state, unit), unit.order))
    if len(piece.tasks) > 1:
        picked = iter(single[:moves_max])
        return clear(state, piece, picked, None, moves_max, all_return=True)
    for _, units in islice(by_node(state, piece, single, leavers), NODES_TRIED_MAX):
        picked = iter(units[:moves_max])
        plan = clear(state, piece, picked, None, moves_max, all_return=True)
        if plan is not None:
            return plan
    return None


def displace(
    state: ClusterState, piece: GangPart, leavers: Victims, moves_max: int
) -> list[EndedUnit] | None:
    """Make room by ending opportunistic workloads, which run only on room that no other wants."""
    return _by_end(state, piece, leavers, leavers.of(OPPORTUNISTS), moves_max)


def preempt(
    state: ClusterState, piece: GangPart, leavers: Victims, moves_max: int
) -> list[EndedUnit] | None:
    """Make room by ending work of lower priority in the same queue, and opportunistic work."""
    workload = piece.workload
    lower = [
        unit
        for unit in leavers.of(workload.queue)
        if unit.workload.priority < workload.priority and unit.workload.name != workload.name
    ]
    if not lower:
        return None
    return _by_end(state, piece, leavers, [*leavers.of(OPPORTUNISTS), *lower], moves_max)


def end_any(
    state: ClusterState, piece: GangPart, leavers: Victims, moves_max: int
) -> list[EndedUnit] | None:
    """Make room by ending any workload, in the order of harm, without regard to rights."""
    units = [
        unit
        for queue in leavers.queues
        for unit in leavers.of(queue)
        if unit.workload.name != piece.workload.name
    ]
    units.sort(key=lambda unit: unit.order)
    return _by_end(state, piece, leavers, [*leavers.of(OPPORTUNISTS), *units], moves_max)


def _by_end(
    state: ClusterState,
    piece: GangPart,
    leavers: Victims,
    units: Sequence[VictimUnit],
    moves_max: int,
) -> list[EndedUnit] | None:
    if not units:
        return None
    for masks in openings(state, piece, leavers):
        here = [unit for unit in units if touches(state, unit, masks)]
        plan = clear(state, piece, iter(here), None, moves_max, all_return=False)
        if plan is None and len(piece.tasks) > 1:
            nodes = by_node(state, piece, here, leavers)
            seen = {unit.tasks: unit for _, found in nodes for unit in found}
            plan = clear(state, piece, iter(seen.values()), None, moves_max, all_return=False)
        if plan is not None:
            return plan
    return None


def reclaim(
    state: ClusterState, piece: GangPart, leavers: Victims, moves_max: int
) -> list[EndedUnit] | None:
    """Make room by ending work of other queues that have too much."""
    right = ReclaimCheck(state, piece)
    others = [queue for queue in leavers.queues if queue != piece.workload.queue]
    if not right.open_queues(others):
        return None
    taking = Taking(state, piece, leavers, moves_max, others)
    is_alone = len(piece.tasks) == 1 and not piece.is_tied
    if is_alone:
        plan = taking.in_order(None)
        if plan is not None:
            return plan
    for masks in openings(state, piece, leavers):
        plan = None if is_alone else taking.in_order(masks)
        plan = plan or taking.in_nodes(masks) or taking.with_few(masks)
        if plan is not None:
            return plan
    return None


@dataclass(frozen=True, slots=True)
class Taking:
    """Taking back for one piece: which units of other queues yield, in which order."""

    state: ClusterState
    piece: GangPart
    leavers: Victims
    moves_max: int
    others: Sequence[str]
    """The queues that may be taken from, if there is a right to."""

    def in_order(
        self, masks: Masks | None, among: Container[VictimUnit] | None = None
    ) -> list[EndedUnit] | None:
        """End units in the order in which they yield, on any node; `among` restricts the units."""

        def of(queue: str) -> Sequence[VictimUnit]:
            found = self.leavers.of(queue)
            if among is not None:
                return [unit for unit in found if unit in among]
            return found if masks is None else [u for u in found if touches(self.state, u, masks)]

        right = ReclaimCheck(self.state, self.piece)
        without = self.piece.workload.name
        picked: Iterator[VictimUnit] = chain(
            of(OPPORTUNISTS), by_right(right, self.others, of, without)
        )
        if len(self.piece.tasks) == 1 or self.piece.tasks[0][1].gpus > 1:
            if not self.state.budget.is_bounded and not self.could_free(right, of):
                return None
            picked = islice(picked, IN_ORDER_MAX)
        return self._clear(picked, right)

    def could_free(self, right: ReclaimCheck, of: Callable[[str], Sequence[VictimUnit]]) -> bool:
        """Whether the first units in order could free the GPUs that the first shape asks for.

        It is a bound, found without ending any: as many units of each queue as of all together.
        """
        shape, count = self.piece.shapes[0]
        if shape.gpu_memory_mib or not shape.gpus:  # its part of a GPU differs from node to node
            return True
        first = list(of(OPPORTUNISTS)[:IN_ORDER_MAX])
        for queue in self.others:
            if right.may_open(queue):
                some = right.first_reached(queue, of(queue), IN_ORDER_MAX)
                if some is None:
                    return True
                first += some
        return could_free(self.state, self.piece, shape, count, first)

    def with_few(self, masks: Masks | None) -> list[EndedUnit] | None:
        """End only units of which each alone makes room for a task, first all of them, then fewer.

        So the right to take from a queue is not used up by small units that are of no use, nor by
        large units of which too much would have to be taken.
        """
        right = ReclaimCheck(self.state, self.piece)
        here = [
            unit
            for queue in self.others
            if right.could(queue)
            for unit in self.leavers.of(queue)[:UNITS_MAX]
            if touches(self.state, unit, masks)
        ]
        here.sort(key=lambda unit: unit.order)
        enough = enough_alone(self.state, self.piece, here[:UNITS_MAX])
        for first in range(min(len(enough), FEW_TRIED_MAX)):
            plan = self.in_order(masks, among=set(enough[first:]))
            if plan is not None:
                return plan
        return None

    def in_nodes(self, masks: Masks | None) -> list[EndedUnit] | None:
        """End units node by node: for a gang on one node after the other, then on each alone."""
        nodes = (units for _, units in self._nodes(masks))
        first = list(islice(nodes, NODES_TRIED_MAX))
        tries: list[Iterable[list[VictimUnit]]] = [[units] for units in first]
        if len(self.piece.tasks) > 1:
            tries = [chain(first, nodes), *(tries[:GANG_NODES_MAX] if len(first) > 1 else ())]
        for some in tries:
            right = ReclaimCheck(self.state, self.piece)
            picked = _node_after_node(right, some, self.piece.workload.name)
            plan = self._clear(picked, right)
            if plan is not None:
                return plan
        return None

    def _nodes(self, masks: Masks | None) -> Iterator[tuple[Node, list[VictimUnit]]]:
        """The nodes with all units that may be taken there, the least harm first."""
        if masks is None:
            return by_need(self.state, self.piece, self.leavers)
        others = [unit for queue in self.others for unit in self.leavers.of(queue)]
        others.sort(key=itemgetter(0))
        everyone = [
            unit
            for unit in (*self.leavers.of(OPPORTUNISTS), *others)
            if touches(self.state, unit, masks)
        ]
        return by_node(self.state, self.piece, everyone, self.leavers)

    def _clear(self, picked: Iterator[VictimUnit], right: ReclaimCheck) -> list[EndedUnit] | None:
        return clear(self.state, self.piece, picked, right, self.moves_max, all_return=False)


def _node_after_node(
    right: ReclaimCheck, nodes: Iterable[list[VictimUnit]], without: str
) -> Iterator[VictimUnit]:
    """The units that may be taken on the first node, then on the next."""
    gone: set[tuple[Task, ...]] = set()
    for units in nodes:
        by_queue: dict[str, list[VictimUnit]] = {}
        for unit in units:
            if unit.tasks in gone:
                continue
            if unit.workload.is_opportunistic:
                gone.add(unit.tasks)
                yield unit
            else:
                by_queue.setdefault(unit.workload.queue, []).append(unit)
        for unit in by_right(right, by_queue, by_queue.__getitem__, without):
            gone.add(unit.tasks)
            yield unit


def _bytes(state: ClusterState, unit: VictimUnit) -> int:
    return sum(state.began[task].state_bytes for task in unit.tasks if task in state.began)
