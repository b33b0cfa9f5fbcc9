"""The places of running tasks in a scenario, and the error if these places are impossible."""

from __future__ import annotations

from collections.abc import Mapping

from moiety.policy.model.cluster import WHOLE_GPU, Node
from moiety.policy.model.snapshot import Running, Spot, Task
from moiety.policy.model.workloads import Shape
from moiety.sim.case_values import BadCase

Own = tuple[Task, Shape, str, tuple[str, ...]]
"""A running task, its shape, its node, and the names of its devices."""


class Seating:
    """Gives running tasks their GPUs: devices are named, but not numbered, in a scenario."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._left = {name: [WHOLE_GPU] * len(node.gpus) for name, node in nodes.items()}
        self._named: dict[tuple[str, str], int] = {}

    def seat(self, tasks: list[Own]) -> list[Running]:
        """Places of all tasks: named devices first, then whole GPUs, then parts by size."""
        found = {}
        for task, shape, node, devices in sorted(tasks, key=self._turn):
            found[task] = Running(task, shape, self._spot(task, shape, node, devices))
        return [found[task] for task, _, _, _ in tasks]

    def _turn(self, own: Own) -> tuple[bool, int]:
        _, shape, node, devices = own
        on = self._nodes.get(node)
        return not devices, -shape.milli_on(on.gpu_memory_mib if on else 0)

    def _spot(self, task: Task, shape: Shape, node: str, devices: tuple[str, ...]) -> Spot:
        on = self._nodes.get(node)
        if on is None:
            raise BadCase("jobs", f"{task.workload} runs on {node}, which is not there")
        if not shape.gpus:
            return Spot(node)
        milli = shape.milli_on(on.gpu_memory_mib)
        left = self._left[node]
        chosen: list[int] = []
        for number in range(shape.gpus):
            device = devices[number] if number < len(devices) else None
            gpu = self._gpu(node, device, milli, chosen)
            if gpu is None:
                raise BadCase("jobs", f"{task.workload} runs on {node}, but its GPUs are full")
            chosen.append(gpu)
        for gpu in chosen:
            left[gpu] -= milli
        return Spot(node, tuple(sorted(chosen)), milli)

    def _gpu(self, node: str, device: str | None, milli: int, taken: list[int]) -> int | None:
        left = self._left[node]
        named = self._named.get((node, device)) if device is not None else None
        if named is not None and left[named] >= milli and named not in taken:
            return named
        empty = [at for at, amount in enumerate(left) if amount == WHOLE_GPU and at not in taken]
        any_ = [at for at, amount in enumerate(left) if amount >= milli and at not in taken]
        for at in empty or any_:
            if device is not None:
                self._named.setdefault((node, device), at)
            return at
        return None
