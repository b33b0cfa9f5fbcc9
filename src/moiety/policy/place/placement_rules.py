"""The interface of the rules of placement, and the rules that need no more than sums.

A rule gives each node that has room *points* for a shape, as whole numbers, so that equal means
equal. Nodes with equal points are taken in one fixed order (`Placer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import Ints, NodeArrays

PREFERENCE_BITS: Final = 6
NO_PREFERENCE: Final = 0

MOST_CPU_MILLI: Final = 128000
MOST_GPU_MILLI: Final = 8000
"""The largest node of the cluster for which best-fit was published, the unit of free amounts."""


class PlacementRule(Protocol):
    """A rule of placement."""

    chooses_gpus: bool
    """Whether codes say on which GPU a part of a GPU is best."""

    def codes(self, cluster: NodeArrays, shape: Shape, nodes: Ints) -> Ints:
        """For each of these nodes, all of which have room: points << 6 | preference.

        The preference says which GPU gets a part of one: 63 - its position in `cluster.ordered`.
        """
        ...

    def codes_of_few(self, cluster: NodeArrays, shape: Shape, nodes: Sequence[int]) -> list[int]:
        """The codes of a few nodes, for which arrays may cost more than they save."""
        ...

    def changed(self, node: int) -> None:
        """Note that a task began or ended on a node."""
        ...


class BestFit:
    """As published: (1 - what is left of CPU and GPU, halves of the largest node's) in percent."""

    chooses_gpus = False

    def codes(self, cluster: NodeArrays, shape: Shape, nodes: Ints) -> Ints:
        """See PlacementRule. Computed in the published order, because the result is truncated."""
        left = (cluster.free_cpu[nodes] - shape.cpu_milli) / MOST_CPU_MILLI * 0.5
        gpus = cluster.left_total[nodes] - shape.gpus * cluster.milli(shape, nodes)
        left += gpus / MOST_GPU_MILLI * 0.5
        return ((1.0 - left) * 100.0).astype(np.int64) << PREFERENCE_BITS

    def codes_of_few(self, cluster: NodeArrays, shape: Shape, nodes: Sequence[int]) -> list[int]:
        """See PlacementRule. Computed in the same order."""
        found = []
        for node in nodes:
            milli = shape.gpu_milli
            if shape.gpu_memory_mib:
                milli = shape.milli_on(cluster.nodes[node].gpu_memory_mib)
            cpu, _, _, gpus = cluster.free_on(node)
            left = (cpu - shape.cpu_milli) / MOST_CPU_MILLI * 0.5
            gpus -= shape.gpus * milli
            left += gpus / MOST_GPU_MILLI * 0.5
            found.append(int((1.0 - left) * 100.0) << PREFERENCE_BITS)
        return found

    def changed(self, node: int) -> None:
        """Nothing is kept."""


class WorstFit:
    """The node that is left with the most, by the same measure."""

    chooses_gpus = False

    def codes(self, cluster: NodeArrays, shape: Shape, nodes: Ints) -> Ints:
        """See PlacementRule."""
        gpus = cluster.left_total[nodes] - shape.gpus * cluster.milli(shape, nodes)
        left = (cluster.free_cpu[nodes] - shape.cpu_milli) * MOST_GPU_MILLI + gpus * MOST_CPU_MILLI
        return left // 10**6 << PREFERENCE_BITS

    def codes_of_few(self, cluster: NodeArrays, shape: Shape, nodes: Sequence[int]) -> list[int]:
        """See PlacementRule."""
        found: list[int] = self.codes(cluster, shape, np.array(nodes)).tolist()
        return found

    def changed(self, node: int) -> None:
        """Nothing is kept."""


class Fullness:
    """By the part of a node that is in use: the fullest first (bin-pack) or last (spread).

    GPU tasks go by GPUs, others by CPUs. Where it is measured how busy the GPUs are, spread goes
    by that first, in tenths.
    """

    chooses_gpus = False

    def __init__(self, cluster: NodeArrays, *, fullest_first: bool) -> None:
        self._sign = 1 if fullest_first else -1
        self._whole = cluster.capacity.sum(axis=1)
        self._busy = np.zeros(len(cluster), np.int64)
        if not fullest_first:
            for at, node in enumerate(cluster.nodes):
                measured = [gpu.utilisation for gpu in node.gpus if gpu.utilisation is not None]
                if measured:
                    self._busy[at] = round(10 * sum(measured) / len(measured))

    def codes(self, cluster: NodeArrays, shape: Shape, nodes: Ints) -> Ints:
        """See PlacementRule."""
        if shape.gpus:
            whole = self._whole[nodes]
            used = whole - cluster.left_total[nodes]
        else:
            whole = cluster.cpu[nodes]
            used = whole - cluster.free_cpu[nodes]
        part = used * 1000 // np.maximum(whole, 1) + self._busy[nodes] * 10000
        points: Ints = self._sign * part
        return points << PREFERENCE_BITS

    def codes_of_few(self, cluster: NodeArrays, shape: Shape, nodes: Sequence[int]) -> list[int]:
        """See PlacementRule."""
        found: list[int] = self.codes(cluster, shape, np.array(nodes)).tolist()
        return found

    def changed(self, node: int) -> None:
        """Nothing is kept."""
