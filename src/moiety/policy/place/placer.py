"""Finds the place of a task: the best node by the pool's rule, and the GPUs in it.

Scores are kept for each shape, a row of one number for each node, and only nodes on which something
changed since are scored again. The number is `points << 26 | order << 6 | preference`: the most
points win, among equals the node that comes first in a fixed order, and the last bits say which of
its GPUs the rule means.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from moiety.model.errors import InvalidValue
from moiety.policy.model.cluster import WHOLE_GPU, Choosing, Placing
from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import Ints, Mask, NodeArrays, Seat
from moiety.policy.place.fgd_reference import PublishedFgd
from moiety.policy.place.fragmentation import LeastFragmentation
from moiety.policy.place.gpu_assignment import choose
from moiety.policy.place.placement_rules import (
    PREFERENCE_BITS,
    BestFit,
    Fullness,
    PlacementRule,
    WorstFit,
)
from moiety.policy.place.workload_mix import WorkloadMix

ORDER_BITS: Final = 20
NODES_MAX: Final = 1 << ORDER_BITS
LAST: Final = (1 << PREFERENCE_BITS) - 1
NO_ROOM: Final = np.iinfo(np.int64).min
KEPT_SCORES: Final = 1 << 24
"""The most scores that are kept, 8 bytes each: rows of the oldest shapes are given up."""
ROWS_MIN: Final = 16
CHANGES_MIN: Final = 4096
"""The least number of changes that are remembered; older rows are scored anew."""
FEW: Final = 48
"""The number of nodes up to which a check for room is quicker one by one than with arrays."""


class Placer:
    """Places tasks on the nodes of one pool, whose state it changes with `take` and `give_back`.

    `order` gives each node's place among nodes with equal points, the first first; without it they
    stand by name. `typical` is what the default rule and `fgd` keep room for. Random choices come
    from `seed`: the same calls give the same answers.
    """

    def __init__(
        self,
        cluster: NodeArrays,
        placing: Placing = Placing.DEFAULT,
        choosing: Choosing = Choosing.RULE,
        typical: WorkloadMix | None = None,
        order: Sequence[int] | None = None,
        seed: int = 0,
    ) -> None:
        if len(cluster) > NODES_MAX:
            raise InvalidValue(f"a pool of {len(cluster)} nodes; at most {NODES_MAX} can be placed")
        self.cluster = cluster
        self.placing = placing
        self.choosing = choosing
        if placing is Placing.SPREAD and choosing is Choosing.RULE and _is_measured(cluster):
            self.choosing = Choosing.LEAST_BUSY
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._rule = _rule(placing, cluster, typical or WorkloadMix(()))
        self._order = _standing(cluster, order)
        self._rows: dict[Shape, int] = {}
        self._rows_max = max(ROWS_MIN, KEPT_SCORES // max(len(cluster), 1))
        self._scores: Ints = np.full((ROWS_MIN, len(cluster)), NO_ROOM, np.int64)
        self._every: Ints = np.arange(len(cluster))
        self._changes_max = max(CHANGES_MIN, 4 * len(cluster))
        self._changes: list[int] = []
        """Nodes on which a task began or ended, the last change last."""
        self._watched: list[set[int]] = []
        self._forgotten = 0
        """The number of changes before those in `_changes`."""
        self._up_to: list[int] = []
        """For each row, how many changes are in its scores; -1: no score is right."""

    def find(self, shape: Shape, mask: Mask | None = None) -> Seat | None:
        """Where one task of this shape should run now; None: nowhere. `mask` restricts it."""
        scores = self._scored(shape)
        if mask is not None:
            scores = np.where(self.cluster.has_room_within(shape, mask), scores, NO_ROOM)
        if self.placing is Placing.RANDOM:
            fitting = np.flatnonzero(scores > NO_ROOM)
            node = int(self._random.choice(fitting)) if len(fitting) else 0
        else:
            node = int(scores.argmax()) if len(scores) else 0
        if not len(scores):
            return None
        score = int(scores[node])
        if score == NO_ROOM:
            return None
        milli = self.cluster.milli(shape, slice(node, node + 1))
        amount = milli if isinstance(milli, int) else int(milli[0])
        narrowed = mask is not None and mask.gpus is not None and not mask.gpus[node].all()
        if (narrowed or shape.is_apart or self.cluster.counts_memory) and shape.gpus:
            enough = self.cluster.enough(shape, slice(node, node + 1))[0]
            if mask is not None and mask.gpus is not None:
                enough &= mask.gpus[node]
            left = np.where(enough, self.cluster.left[node], 0).tolist()
            on = self.cluster.nodes[node]
            gpus = choose(on, left, shape.gpus, amount, self.choosing, self._random)
            return Seat(node, gpus, amount)
        return Seat(node, self._gpus(shape, node, amount, LAST - (score & LAST)), amount)

    def take(self, shape: Shape, seat: Seat) -> None:
        """A task begins there."""
        self.cluster.take(shape, seat)
        self._changed(seat.node)

    def give_back(self, shape: Shape, seat: Seat) -> None:
        """It ends."""
        self.cluster.give_back(shape, seat)
        self._changed(seat.node)

    def watch(self) -> set[int]:
        """A new set; each node on which a task begins or ends is added to it."""
        found: set[int] = set()
        self._watched.append(found)
        return found

    def _changed(self, node: int) -> None:
        self._changes.append(node)
        for each in self._watched:
            each.add(node)
        self._rule.changed(node)
        if len(self._changes) > self._changes_max:
            half = len(self._changes) // 2
            del self._changes[:half]
            self._forgotten += half

    def _scored(self, shape: Shape) -> Ints:
        """The row of this shape, with every score up to date."""
        row = self._rows.get(shape)
        if row is None:
            row = self._new_row(shape)
        scores: Ints = self._scores[row]
        known, latest = self._up_to[row], self._forgotten + len(self._changes)
        if known == latest:
            return scores
        self._up_to[row] = latest
        if known < self._forgotten:
            self._score(scores, shape, self._every)
            return scores
        changed = set(self._changes[known - self._forgotten :])
        if len(changed) > FEW:
            self._score(scores, shape, np.fromiter(changed, np.int64, len(changed)))
        else:
            self._score_few(scores, shape, changed)
        return scores

    def _score(self, scores: Ints, shape: Shape, nodes: Ints) -> None:
        room = self.cluster.has_room(shape, nodes)
        scores[nodes] = NO_ROOM
        nodes = nodes[room]
        if len(nodes):
            codes = self._rule.codes(self.cluster, shape, nodes)
            preference = codes & LAST
            scores[nodes] = (codes - preference << ORDER_BITS) | self._order[nodes] | preference

    def _score_few(self, scores: Ints, shape: Shape, nodes: Iterable[int]) -> None:
        """The same, node by node."""
        has_room = self.cluster.has_room_on
        fitting = []
        for node in nodes:
            if has_room(shape, node):
                fitting.append(node)
            else:
                scores[node] = NO_ROOM
        if not fitting:
            return
        codes = self._rule.codes_of_few(self.cluster, shape, fitting)
        for node, code in zip(fitting, codes, strict=True):
            preference = code & LAST
            standing = self._order.item(node)
            scores[node] = (code - preference << ORDER_BITS) | standing | preference

    def _new_row(self, shape: Shape) -> int:
        row = len(self._rows)
        if row >= self._rows_max:  # the one that has been there longest; it may come back
            oldest = next(iter(self._rows))
            row = self._rows.pop(oldest)
        elif row == len(self._scores):
            self._scores = np.concatenate([self._scores, np.full_like(self._scores, NO_ROOM)])
        self._rows[shape] = row
        if row == len(self._up_to):
            self._up_to.append(-1)
        self._up_to[row] = -1
        return row

    def _gpus(self, shape: Shape, node: int, milli: int, preferred: int) -> tuple[int, ...]:
        if not shape.gpus:
            return ()
        left: list[int] = self.cluster.left[node].tolist()
        if shape.gpus == 1 and self._rule.chooses_gpus and self.choosing is Choosing.RULE:
            if milli < WHOLE_GPU:
                return (left.index(int(self.cluster.ordered[node, preferred])),)
            return (left.index(WHOLE_GPU),)
        on = self.cluster.nodes[node]
        return choose(on, left, shape.gpus, milli, self.choosing, self._random)


def _is_measured(cluster: NodeArrays) -> bool:
    return any(gpu.utilisation is not None for node in cluster.nodes for gpu in node.gpus)


def _standing(cluster: NodeArrays, order: Sequence[int] | None) -> Ints:
    """For each node, a number at the right bits: the larger, the earlier among equals."""
    if order is None:
        by_name = sorted(range(len(cluster)), key=lambda at: cluster.nodes[at].name)
    else:
        if len(order) != len(cluster):
            raise InvalidValue(f"an order of {len(order)} for {len(cluster)} nodes")
        by_name = sorted(range(len(cluster)), key=lambda at: (order[at], cluster.nodes[at].name))
    standing = np.empty(len(cluster), np.int64)
    standing[by_name] = np.arange(len(cluster))[::-1]
    return standing << PREFERENCE_BITS


def _rule(placing: Placing, cluster: NodeArrays, typical: WorkloadMix) -> PlacementRule:
    if placing is Placing.DEFAULT:
        return LeastFragmentation(cluster, typical)
    if placing is Placing.FGD:
        return PublishedFgd(cluster, typical)
    if placing is Placing.BIN_PACK:
        return Fullness(cluster, fullest_first=True)
    if placing is Placing.SPREAD:
        return Fullness(cluster, fullest_first=False)
    if placing is Placing.WORST_FIT:
        return WorstFit()
    return BestFit()
