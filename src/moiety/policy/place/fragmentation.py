"""The default rule: least fragmentation, with scarce GPUs, CPU and memory in mind.

docs/explanation-placement.md says why each term is there and where the constants come from. In
short, a placement costs:

- how much of the node's GPUs becomes useless for typical shapes (as fragmentation gradient descent
  has it, but without CPU-only shapes), in steps of 40 thousandths of a GPU;
- 400 thousandths for each GPU of which as much is asked for as there is, because tasks name its
  model or need a node of its size, in whole steps;
- 40 thousandths for each free GPU that the node's free memory can no longer feed;
- a thousandth of a step for the part of a GPU that nothing uses yet: among equals, it goes to one
  that is in use.

What CPUs are left for counts for a fifth of usefulness: of GPUs that a shape could use, a fifth is
useful only as far as the node's free CPUs would feed tasks of that shape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import floor
from typing import Final

import numpy as np
import numpy.typing as npt

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import Bools, Ints, NodeArrays
from moiety.policy.place.placement_rules import PREFERENCE_BITS
from moiety.policy.place.scarcity import scarcity
from moiety.policy.place.usefulness import ENDLESS, Left, Usefulness
from moiety.policy.place.workload_mix import WorkloadMix

STEP_MILLI: Final = 40
"""Differences below a 25th of a GPU are noise; equal points are better: nodes fill in one order."""
SCARCE_MILLI: Final = 400
"""What a GPU costs more than one that nothing needs, if its demand meets its supply."""
FED_PART: Final = 0.2
"""The part of a GPU's usefulness that depends on CPUs to go with it."""
POINTS: Final = 1000
"""The points of a step; a GPU that lacks memory costs as many."""
STEP_OF_GPU: Final = POINTS * WHOLE_GPU
"""A step, in points times thousandths of a GPU."""
ROUNDING: Final = 1e-6
"""In steps: sums that are equal on paper fall into the same step."""
FEW: Final = 16
"""The number of nodes up to which it is quicker to go through them one by one."""
NEVER: Final = -(1 << 62)
"""Fewer points than any node has."""

Floats = npt.NDArray[np.float64]
LAST: Final = (1 << PREFERENCE_BITS) - 1


class LeastFragmentation:
    """The rule `default`.

    U kinds of GPU use (how much of how many GPUs), M typical shapes (a kind and CPUs). A node's
    tally, [2U], says for each kind how many of its GPUs have enough left, and how much these have
    together; its usefulness is the mean over typical shapes of what they could use of it.
    """

    chooses_gpus = True

    def __init__(self, cluster: NodeArrays, typical: WorkloadMix) -> None:
        self._cluster = cluster
        memories = _memory_by_model(cluster)
        weights: dict[tuple[int, int, int], Ints] = {}
        for shape, count in typical.shapes:
            if not shape.gpus:
                continue
            for at, model in enumerate(cluster.models):
                milli = shape.milli_on(memories[at])
                if milli > WHOLE_GPU or (shape.models and model not in shape.models):
                    continue
                key = (milli, shape.gpus, shape.cpu_milli)
                weights.setdefault(key, np.zeros(len(cluster.models), np.int64))[at] += count
        types = sorted(weights)
        kinds = sorted({(milli, gpus) for milli, gpus, _ in types})
        total = sum(count for shape, count in typical.shapes if shape.gpus)
        self._gpus_needed = np.array([gpus for _, gpus in kinds], float)
        self._kind = np.array([kinds.index((milli, gpus)) for milli, gpus, _ in types], np.intp)
        self._cpu_needed = np.array([cpu for *_, cpu in types], float)
        self._fed_by_cpu = np.array(
            [FED_PART * milli * gpus / cpu if cpu else ENDLESS for milli, gpus, cpu in types]
        )
        weight = np.array([weights[key] for key in types], float).reshape(-1, len(cluster.models))
        self._weight: Floats = (weight / max(total, 1)).T.copy()
        self._is_uniform = bool((weight == weight[:, :1]).all())
        self._tallies = _tallies([milli for milli, _ in kinds])
        self._steps: dict[int, Floats] = {}
        self._of_few = Usefulness(
            {key: counts.tolist() for key, counts in weights.items()},
            len(cluster.models),
            total,
            FED_PART,
        )
        prices = scarcity(cluster, typical) * SCARCE_MILLI * POINTS / STEP_MILLI
        self._scarce: Ints = np.rint(prices).astype(np.int64)
        """By node: what a GPU of it costs in points."""
        self._scarce_of: list[int] = self._scarce.tolist()
        self._model_of: list[int] = cluster.model.tolist()
        self._memory_per_gpu = typical.memory_mib_per_gpu
        self._tally: Floats = self._tallies[cluster.ordered].sum(axis=1)
        every = np.arange(len(cluster))
        self._useful: Floats = self._usefulness(every, cluster.free_cpu, self._tally)
        self._stale: set[int] = set()
        """Nodes whose tally has to be taken again."""
        self._unmeasured: set[int] = set()
        """Nodes whose `_useful` has to be found again."""

    def changed(self, node: int) -> None:
        """See Rule."""
        self._stale.add(node)
        self._unmeasured.add(node)

    def codes(self, cluster: NodeArrays, shape: Shape, nodes: Ints) -> Ints:
        """See Rule."""
        milli = cluster.milli(shape, nodes)
        used: Ints | int = shape.gpus * milli
        cpu = cluster.free_cpu[nodes] - shape.cpu_milli
        if shape.gpus == 1 and shape.gpu_milli < WHOLE_GPU:
            rows, preference, tally, opens = self._each_gpu(nodes, milli)
            useful = self._useful_after(nodes[rows], cpu[rows], tally)
            falls = useful - self._useful[nodes][rows]
            falls += used if isinstance(used, int) else used[rows]
            codes = _points(falls) - opens << PREFERENCE_BITS | preference
            first = np.ones(len(rows), np.bool_)
            np.not_equal(rows[1:], rows[:-1], out=first[1:])
            best: Ints = np.maximum.reduceat(codes, first.nonzero()[0])
        else:
            tally = self._whole_gpus(shape, nodes, milli)
            useful = self._useful_after(nodes, cpu, tally)
            best = _points(used + useful - self._useful[nodes]) << PREFERENCE_BITS
        best -= self._extra(cluster, shape, nodes, used) << PREFERENCE_BITS
        return best

    def codes_of_few(self, cluster: NodeArrays, shape: Shape, nodes: Sequence[int]) -> list[int]:
        """See Rule. The same sums, node by node; only usefulness for all of them at once."""
        if len(nodes) > FEW:
            found: list[int] = self.codes(cluster, shape, np.array(nodes)).tolist()
            return found
        useful_of, unmeasured = self._of_few.of, self._unmeasured
        gpus, part = shape.gpus, shape.gpu_milli
        is_part = gpus == 1 and part < WHOLE_GPU
        codes = []
        for node in nodes:
            model = self._model_of[node]
            cpu, memory, left, left_total = cluster.free_on(node)
            if node in unmeasured:
                self._useful[node] = useful_of((model, left, cpu))
                unmeasured.discard(node)
            milli = part
            if shape.gpu_memory_mib:
                milli = shape.milli_on(cluster.nodes[node].gpu_memory_mib)
            used = gpus * milli
            lost = used - self._useful.item(node)
            cpu -= shape.cpu_milli
            if is_part:
                best = NEVER
                for column in _columns(milli, left):
                    after = list(left)
                    after[column] -= milli
                    after.sort()
                    fall = useful_of((model, tuple(after), cpu)) + lost
                    points = floor(fall / STEP_MILLI + ROUNDING) * POINTS
                    points -= left[column] == WHOLE_GPU
                    best = max(best, points << PREFERENCE_BITS | LAST - column)
            else:
                fall = useful_of((model, _without(left, gpus, milli), cpu)) + lost
                best = floor(fall / STEP_MILLI + ROUNDING) * POINTS << PREFERENCE_BITS
            extra = (self._scarce_of[node] * used + STEP_OF_GPU // 2) // STEP_OF_GPU * POINTS
            if self._memory_per_gpu:
                fed = (memory - shape.memory_mib) * WHOLE_GPU // self._memory_per_gpu
                extra += max(left_total - used - fed, 0)
            codes.append(best - (extra << PREFERENCE_BITS))
        return codes

    def _extra(self, cluster: NodeArrays, shape: Shape, nodes: Ints, used: Ints | int) -> Ints:
        """Points for scarce GPUs, in whole steps, and for memory that is missing."""
        extra = (self._scarce[nodes] * used + STEP_OF_GPU // 2) // STEP_OF_GPU * POINTS
        if self._memory_per_gpu:
            memory = cluster.free_memory[nodes] - shape.memory_mib
            fed = memory * WHOLE_GPU // self._memory_per_gpu
            extra += np.maximum(cluster.left_total[nodes] - used - fed, 0)
        return extra

    def _each_gpu(self, nodes: Ints, milli: Ints | int) -> tuple[Ints, Ints, Floats, Bools]:
        """Each GPU that could take a part: its node, its preference, and the node's new tally.

        The last array says which of them nothing uses yet. One GPU stands for all GPUs of a node
        with equally much left.
        """
        ordered = self._cluster.ordered[nodes]
        fits: Bools = ordered >= (milli if isinstance(milli, int) else milli[:, None])
        fits[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
        rows, columns = fits.nonzero()
        left = ordered[rows, columns]
        if isinstance(milli, int):
            tally = self._step(milli)[left]
        else:
            tally = self._tallies[left - milli[rows]] - self._tallies[left]
        tally += self._up_to_date_tally()[nodes[rows]]
        return rows, LAST - columns, tally, left == WHOLE_GPU

    def _whole_gpus(self, shape: Shape, nodes: Ints, milli: Ints | int) -> Floats:
        """The new tallies if the tasks take whole GPUs, or the fullest GPUs with enough left."""
        tally: Floats = self._up_to_date_tally()[nodes]
        if not shape.gpus:
            return tally
        if isinstance(milli, int) and milli == WHOLE_GPU:
            tally -= shape.gpus * self._tallies[WHOLE_GPU]
            return tally
        ordered = self._cluster.ordered[nodes]
        wanted = np.reshape(milli, (-1, 1))
        first = (ordered >= wanted).argmax(axis=1)
        amount = np.broadcast_to(milli, first.shape)
        every = np.arange(len(nodes))
        for further in range(shape.gpus):
            left = ordered[every, first + further]
            tally = tally + self._tallies[left - amount] - self._tallies[left]
        return tally

    def _step(self, milli: int) -> Floats:
        """By what is left of a GPU: how a tally changes if it gives `milli`; [1001, 2U]."""
        found = self._steps.get(milli)
        if found is None:
            left = np.arange(WHOLE_GPU + 1)
            found = self._tallies[np.maximum(left - milli, 0)] - self._tallies[left]
            self._steps[milli] = found
        return found

    def _usefulness(self, nodes: Ints, cpu: Ints, tally: Floats) -> Floats:
        """Thousandths of GPUs; [P], for P states of nodes that have these CPUs and tallies."""
        kinds = len(self._gpus_needed)
        usable = tally[:, kinds:] * (tally[:, :kinds] >= self._gpus_needed)
        usable = usable.take(self._kind, 1)
        cpus = cpu[:, None].astype(float)
        fed = cpus * self._fed_by_cpu
        useful = usable * FED_PART
        np.minimum(useful, fed, out=useful)
        usable *= 1 - FED_PART
        useful += usable
        useful *= cpus >= self._cpu_needed
        if self._is_uniform:  # not by `@`: its threads wait for each other where cores are busy
            mean: Floats = np.einsum("pm,m->p", useful, self._weight[0])
        else:
            mean = np.einsum("pm,pm->p", useful, self._weight[self._cluster.model[nodes]])
        return mean

    def _up_to_date_tally(self) -> Floats:
        if self._stale:
            for node in self._stale:
                self._tally[node] = self._tallies[self._cluster.ordered[node]].sum(axis=0)
            self._stale.clear()
        return self._tally

    def _useful_after(self, nodes: Ints, cpu: Ints, tally: Floats) -> Floats:
        """The usefulness of these states; what changed nodes have now is found in the same go."""
        if not self._unmeasured:
            return self._usefulness(nodes, cpu, tally)
        self._up_to_date_tally()
        changed = np.fromiter(self._unmeasured, np.int64, len(self._unmeasured))
        self._unmeasured.clear()
        states = len(nodes)
        useful = self._usefulness(
            np.concatenate([nodes, changed]),
            np.concatenate([cpu, self._cluster.free_cpu[changed]]),
            np.concatenate([tally, self._tally[changed]]),
        )
        self._useful[changed] = useful[states:]
        return useful[:states]


def _columns(milli: int, left: Left) -> list[int]:
    """Positions in `left` of GPUs with enough for a part, the first of each group of equal ones."""
    first = bisect_left(left, milli)
    after = range(first + 1, len(left))
    return [first, *(at for at in after if left[at] != left[at - 1])]


def _without(left: Left, gpus: int, milli: int) -> Left:
    """What is left after a task took whole GPUs, or parts of the fullest GPUs with enough left."""
    if milli == WHOLE_GPU:
        return (0,) * gpus + left[:-gpus]
    if not gpus:
        return left
    first = bisect_left(left, milli)
    taken = (amount - milli for amount in left[first : first + gpus])
    return tuple(sorted((*left[:first], *taken, *left[first + gpus :])))


def _points(falls: Floats) -> Ints:
    steps = falls / STEP_MILLI
    steps += ROUNDING
    points: Ints = np.floor(steps).astype(np.int64)
    points *= POINTS
    return points


def _memory_by_model(cluster: NodeArrays) -> list[int]:
    memories = [0] * len(cluster.models)
    for node, model in enumerate(cluster.model.tolist()):
        memories[model] = max(memories[model], int(cluster.gpu_memory[node]))
    return memories


def _tallies(millis: list[int]) -> Floats:
    """By what is left of one GPU: its part in its node's tally; [1001, 2U]."""
    left = np.arange(WHOLE_GPU + 1, dtype=float)[:, None]
    enough = left >= np.array(millis, float)
    return np.concatenate([enough.astype(float), np.where(enough, left, 0.0)], axis=1)
