"""The shapes that a pool should stay able to take: the most frequent ones of its work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.workloads import Shape, Workload

COVERED_PERCENT: Final = 95
"""The part of all tasks that counts; rarer ones are noise (Weng et al., USENIX ATC '23)."""
DEMANDS_MAX: Final = 512
"""The most entries of demand that say how large a node they need; others name models only."""


@dataclass(frozen=True, slots=True)
class WorkloadMix:
    """Shapes by how often they come, the most frequent first; host memory is left out of them."""

    shapes: tuple[tuple[Shape, int], ...]
    tasks: int = 0
    """The number of tasks from which the shapes were chosen."""
    demand: tuple[tuple[Shape, int], ...] = ()
    """GPU thousandths of all tasks, rare ones too, by what they need of a node, the most first."""
    memory_mib_per_gpu: int = 0
    """The memory that a whole GPU's worth of tasks needs in the mean; 0: not known."""

    @property
    def weighted(self) -> list[tuple[Shape, float]]:
        """With weights that add up to one, divided twice as published: the last bit can matter."""
        covered = sum(count for _, count in self.shapes)
        if covered == self.tasks:
            return [(shape, count / covered) for shape, count in self.shapes]
        part = covered / self.tasks
        return [(shape, count / self.tasks / part) for shape, count in self.shapes]


def typical(
    tasks: Iterable[Shape],
    covered_percent: int = COVERED_PERCENT,
    spelled: Iterable[str] | None = None,
) -> WorkloadMix:
    """The most frequent shapes that make up `covered_percent` of past or expected tasks.

    `spelled` has each task's models as its trace writes them: what is written differently then
    counts apart, as in the published runs, where `A|B|B` is not `A|B`.
    """
    if spelled is None:
        return typical_of(Counter(tasks), covered_percent)
    return _typical(Counter(zip(tasks, spelled, strict=True)), covered_percent)


def typical_of(tasks: Mapping[Shape, int], covered_percent: int = COVERED_PERCENT) -> WorkloadMix:
    """The same, from the number of tasks of each shape."""
    found = {(shape, "|".join(sorted(shape.models))): count for shape, count in tasks.items()}
    return _typical(found, covered_percent)


def typical_work(workloads: Iterable[Workload]) -> WorkloadMix:
    """The same, from all tasks of workloads."""
    counts: dict[Shape, list[int]] = {}
    for workload in workloads:
        for subgroup in workload.subgroups:
            found = counts.get(subgroup.shape)
            if found is None:
                counts[subgroup.shape] = [subgroup.tasks]
            else:
                found.append(subgroup.tasks)
    return typical_of({shape: sum(tasks) for shape, tasks in counts.items()})


def _typical(tasks: Mapping[tuple[Shape, str], int], covered_percent: int) -> WorkloadMix:
    counts: Counter[tuple[Shape, str]] = Counter()
    demand: Counter[Shape] = Counter()
    memory = 0
    for (shape, name), count in tasks.items():
        counts[replace(shape, memory_mib=0), name] += count
        if shape.gpus:
            demand[_need(shape)] += count * shape.total_milli
            memory += count * shape.memory_mib
    gpu_milli = demand.total()
    total = counts.total()
    ranked = sorted(counts.items(), key=lambda item: (item[1], _order(*item[0])), reverse=True)
    kept: list[tuple[Shape, int]] = []
    covered = 0
    for (shape, _), count in ranked:
        if covered * 100 >= covered_percent * total:
            break
        kept.append((shape, count))
        covered += count
    return WorkloadMix(
        tuple(kept),
        total,
        _demands(demand),
        memory * WHOLE_GPU // gpu_milli if gpu_milli else 0,
    )


def _need(shape: Shape) -> Shape:
    """The shape without the part of a GPU: any healthy GPU with enough memory has it."""
    return shape if shape.gpu_milli in {0, WHOLE_GPU} else replace(shape, gpu_milli=WHOLE_GPU)


def _demands(demand: Counter[Shape]) -> tuple[tuple[Shape, int], ...]:
    """The largest demands, and what is left of demand by the models that it names."""
    ranked = sorted(demand.items(), key=lambda item: (-item[1], _exact_order(item[0])))
    found = dict(ranked[:DEMANDS_MAX])
    for shape, amount in ranked[DEMANDS_MAX:]:
        anywhere = Shape(gpus=1, gpu_milli=WHOLE_GPU, models=shape.models)
        found[anywhere] = found.get(anywhere, 0) + amount
    return tuple((shape, amount) for shape, amount in found.items() if amount)


def _exact_order(shape: Shape) -> tuple[tuple[int, int, int, int, str], int]:
    return _order(shape, "|".join(sorted(shape.models))), shape.memory_mib


def _order(shape: Shape, name: str) -> tuple[int, int, int, int, str]:
    return shape.cpu_milli, shape.gpu_milli, shape.gpus, shape.gpu_memory_mib, name
