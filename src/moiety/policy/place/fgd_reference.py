"""Fragmentation gradient descent exactly as published, down to the order of its sums.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC '23, and the simulator that its authors published. A node's fragment amount F
is the GPU part that typical shapes cannot use; a placement scores int(100 * sigmoid(dF / 1000))
with dF how much F falls. The truncation decides much: it makes most of the scores equal, and then
the order of the nodes counts.

It is kept exact so that comparisons with it mean something. The sums are floating point and are
done in the published order, by what a shape lacks; where dF is zero on paper, the last bit decides
between 49 and 50. The default rule has whole numbers instead.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import exp
from typing import Final

import numpy as np

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import Ints, NodeArrays
from moiety.policy.place.placement_rules import PREFERENCE_BITS
from moiety.policy.place.workload_mix import WorkloadMix

LACKS: Final = 6
"""CPU and GPU, GPU, CPU, neither (CPU-only), CPU (CPU-only), the model: one sum for each"""
KEPT_MAX: Final = 100_000
"""Curves that are remembered; as many node states are met again and again."""
LAST: Final = (1 << PREFERENCE_BITS) - 1


class PublishedFgd:
    """The rule `fgd`; shapes that ask for memory of a GPU count by their part of it."""

    chooses_gpus = True

    def __init__(self, cluster: NodeArrays, typical: WorkloadMix) -> None:
        self._cluster = cluster
        self._typical = typical.weighted
        self._steps = sorted({shape.cpu_milli for shape, _ in self._typical})
        self._curves: dict[tuple[int, int, tuple[int, ...]], list[float]] = {}

    def changed(self, node: int) -> None:
        """Only states are remembered, not nodes."""

    def codes(self, cluster: NodeArrays, shape: Shape, nodes: Ints) -> Ints:
        """See Rule."""
        return np.array(self.codes_of_few(cluster, shape, nodes.tolist()), np.int64)

    def codes_of_few(self, cluster: NodeArrays, shape: Shape, nodes: Sequence[int]) -> list[int]:
        """See Rule."""
        return [self._code(cluster, shape, node) for node in nodes]

    def _code(self, cluster: NodeArrays, shape: Shape, node: int) -> int:
        model, memory = int(cluster.model[node]), int(cluster.gpu_memory[node])
        cpu = int(cluster.free_cpu[node])
        left: list[int] = cluster.left[node].tolist()
        ordered: list[int] = cluster.ordered[node].tolist()
        before = self._curve(model, memory, tuple(ordered))[bisect_right(self._steps, cpu)]
        step = bisect_right(self._steps, cpu - shape.cpu_milli)
        milli = shape.milli_on(memory)
        best, preferred = -1, 0
        for at in _candidates(shape, milli, left, ordered):
            after = ordered.copy()
            for position in range(at, at + shape.gpus):
                after[position] -= milli
            after.sort()
            falls = (before - self._curve(model, memory, tuple(after))[step]) / 1000
            points = int(1.0 / (1.0 + exp(-falls)) * 100)
            if points > best:
                best, preferred = points, at
        return best << PREFERENCE_BITS | LAST - preferred

    def _curve(self, model: int, memory: int, left: tuple[int, ...]) -> list[float]:
        """F of a node with so much left on its GPUs, by how many CPU steps its free CPUs reach."""
        key = (model, memory, left)
        found = self._curves.get(key)
        if found is None:
            if len(self._curves) >= KEPT_MAX:
                self._curves.clear()
            name = self._cluster.models[model]
            found = self._curves[key] = self._new_curve(name, memory, left)
        return found

    def _new_curve(self, model: str, memory: int, left: tuple[int, ...]) -> list[float]:
        sums = np.zeros((len(self._steps) + 1, LACKS))
        total = sum(left)
        reached = np.arange(len(self._steps) + 1)
        for shape, weight in self._typical:
            enough = reached > self._steps.index(shape.cpu_milli)
            if not shape.gpus:
                sums[enough, 3] += weight * total
                sums[~enough, 4] += weight * total
                continue
            if shape.models and model not in shape.models:
                sums[:, 5] += weight * total
                continue
            milli = shape.milli_on(memory)
            fits = sum(amount >= milli for amount in left) >= shape.gpus
            if fits:
                sums[enough, 1] += weight * sum(amount for amount in left if amount < milli)
                sums[~enough, 2] += weight * total
            else:
                sums[enough, 1] += weight * total
                sums[~enough, 0] += weight * total
        whole: list[float] = (
            ((((sums[:, 0] + sums[:, 1]) + sums[:, 2]) + sums[:, 3]) + sums[:, 4]) + sums[:, 5]
        ).tolist()
        return whole


def _candidates(shape: Shape, milli: int, left: list[int], ordered: list[int]) -> list[int]:
    """Where in `ordered` the task's GPUs could begin, in the order in which nodes list theirs."""
    if not shape.gpus:
        return [0]
    if shape.gpus > 1 or milli == WHOLE_GPU:
        return [next(at for at, amount in enumerate(ordered) if amount >= milli)]
    seen = dict.fromkeys(amount for amount in left if amount >= milli)
    return [ordered.index(amount) for amount in seen]
