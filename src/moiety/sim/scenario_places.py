"""The places of running tasks in a scenario, and the error if these places are impossible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moiety.policy.model.cluster import WHOLE_GPU, Node
from moiety.policy.model.snapshot import Running, Spot, Task
from moiety.policy.model.workloads import Shape
from moiety.sim.case_values import BadCase

Own = tuple[Task, Shape, str, tuple[str, ...]]
"""A running task, its shape, its node, and the names of its devices."""


class Seating:
    """Gives running tasks their GPUs: devices are named, but not numbered, in a scenario."""

    def __init__(self, nodes: Sequence[Node], machines: Mapping[str, str]) -> None:
        """`machines` has the machine of each node that is a part of one."""
        self._on = {node.name: [node] for node in nodes}
        for node in nodes:
            if node.name in machines:
                self._on.setdefault(machines[node.name], []).append(node)
        self._left = {node.name: [WHOLE_GPU] * len(node.gpus) for node in nodes}
        self._named: dict[tuple[str, str], int] = {}

    def seat(self, tasks: list[Own]) -> list[Running]:
        """Places of all tasks: named devices first, then whole GPUs, then parts by size."""
        found = {}
        for task, shape, node, devices in sorted(tasks, key=self._turn):
            found[task] = Running(task, shape, self._spot(task, shape, node, devices))
        return [found[task] for task, _, _, _ in tasks]

    def _turn(self, own: Own) -> tuple[bool, int]:
        _, shape, node, devices = own
        memories = [on.gpu_memory_mib for on in self._on.get(node, ())]
        return not devices, -max(map(shape.milli_on, memories), default=shape.milli_on(0))

    def _spot(self, task: Task, shape: Shape, node: str, devices: tuple[str, ...]) -> Spot:
        if node not in self._on:
            raise BadCase("jobs", f"{task.workload} runs on {node}, which is not there")
        parts = self._on[node]
        parts = [on for on in parts if not shape.models or on.model in shape.models] or parts
        for on in sorted(parts, key=lambda on: not self._has_named(on, devices)):
            found = self._spot_on(on, shape, devices)
            if found:
                return found
        raise BadCase("jobs", f"{task.workload} runs on {node}, but its GPUs are full")

    def _spot_on(self, on: Node, shape: Shape, devices: tuple[str, ...]) -> Spot | None:
        """The place on a node, which is then taken; None: its GPUs have no room."""
        if not shape.gpus:
            return Spot(on.name)
        milli = shape.milli_on(on.gpu_memory_mib)
        left = self._left[on.name]
        chosen: list[int] = []
        for number in range(shape.gpus):
            device = devices[number] if number < len(devices) else None
            gpu = self._gpu(on.name, device, milli, chosen)
            if gpu is None:
                return None
            chosen.append(gpu)
        for gpu in chosen:
            left[gpu] -= milli
        for device, gpu in zip(devices, chosen, strict=False):
            self._named.setdefault((on.name, device), gpu)
        return Spot(on.name, tuple(sorted(chosen)), milli)

    def _has_named(self, on: Node, devices: tuple[str, ...]) -> bool:
        return any((on.name, device) in self._named for device in devices)

    def _gpu(self, node: str, device: str | None, milli: int, taken: list[int]) -> int | None:
        left = self._left[node]
        named = self._named.get((node, device)) if device is not None else None
        if named is not None and left[named] >= milli and named not in taken:
            return named
        empty = [at for at, amount in enumerate(left) if amount == WHOLE_GPU and at not in taken]
        any_ = [at for at, amount in enumerate(left) if amount >= milli and at not in taken]
        return next(iter(empty or any_), None)
