"""The nodes of a pool as arrays: what is free on each, changed in place by placements.

`ordered` repeats `left` with each node's GPUs sorted, because most questions (is there room, which
GPUs are alike) do not depend on which GPU is which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from moiety.model.errors import InternalError, InvalidValue
from moiety.policy.model.cluster import WHOLE_GPU, Node
from moiety.policy.model.workloads import Shape

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

UNBOUNDED: Final = 1 << 30
"""Slots of a task that asks for nothing: it has room everywhere."""
SMALLEST_PADDING: Final = 1
"""A node without GPUs has a full one, so that no array is without columns."""


class Seat(NamedTuple):
    """A place by numbers: the node's position and those of its GPUs."""

    node: int
    gpus: tuple[int, ...]
    gpu_milli: int
    """Thousandths of each GPU."""


class FreeAmounts(NamedTuple):
    """What is free on one node, as numbers of Python."""

    cpu_milli: int
    memory_mib: int
    left: tuple[int, ...]
    """A row of `NodeArrays.ordered`."""
    left_total: int


class EmptySlots(NamedTuple):
    """How many tasks have room where nothing runs."""

    installed: int
    """On all GPUs."""
    healthy: int
    """Without the GPUs that are drained or lost."""

    @classmethod
    def total(cls, parts: Sequence[EmptySlots]) -> EmptySlots:
        """The sum of what several pools have."""
        return cls(sum(part.installed for part in parts), sum(part.healthy for part in parts))


class Mask(NamedTuple):
    """Where a task may run, of N nodes with at most G GPUs each."""

    nodes: Bools
    """[N]"""
    gpus: Bools | None = None
    """[N, G]; None: on all of a node's GPUs"""

    def both(self, other: Mask) -> Mask:
        """What both leave."""
        if self.gpus is None or other.gpus is None:
            gpus = self.gpus if other.gpus is None else other.gpus
        else:
            gpus = self.gpus & other.gpus
        return Mask(self.nodes & other.nodes, gpus)


class NodeArrays:
    """What is free on N nodes with at most G GPUs each.

    free_cpu, free_memory, left_total: [N]; left, ordered: [N, G] in thousandths, 0 where a node has
    no such GPU; GPUs that are not healthy count as full, whatever runs or ends there. model: [N], a
    position in `models`, of which the last is "" for nodes without GPUs.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        count = len(nodes)
        width = max([SMALLEST_PADDING, *(len(node.gpus) for node in nodes)])
        self.nodes = tuple(nodes)
        self.index = {node.name: at for at, node in enumerate(nodes)}
        if len(self.index) < count:
            raise InvalidValue("two nodes have the same name")
        self.models = (*sorted({node.model for node in nodes if node.model}), "")
        self.cpu: Ints = np.array([node.cpu_milli for node in nodes], np.int64)
        self.memory: Ints = np.array([node.memory_mib for node in nodes], np.int64)
        self.gpu_memory: Ints = np.array([node.gpu_memory_mib for node in nodes], np.int64)
        self.model: Ints = np.array([self.models.index(node.model) for node in nodes], np.int64)
        self.capacity: Ints = np.zeros((count, width), np.int64)
        self.installed: Ints = np.zeros((count, width), np.int64)
        """[N, G] in thousandths: the capacity if all GPUs were healthy."""
        for at, node in enumerate(nodes):
            for gpu in node.gpus:
                self.capacity[at, gpu.index] = WHOLE_GPU * gpu.is_healthy
                self.installed[at, gpu.index] = WHOLE_GPU
        self.has_unhealthy = bool((self.installed > self.capacity).any())
        self.free_cpu = self.cpu.copy()
        self.free_memory = self.memory.copy()
        self.left = self.capacity.copy()
        self.ordered: Ints = np.sort(self.left, axis=1)
        self.left_total: Ints = self.left.sum(axis=1)
        self.gpu_milli_total = int(self.left_total.sum())
        self.used_milli = 0
        self._free: list[FreeAmounts | None] = [None] * count
        """Kept for nodes that are asked for one by one."""
        self.counts_memory = False
        """Whether memory of GPUs is in use apart from their thousandths."""
        self._apart = 0
        """How many tasks that ask for memory and compute apart are there."""
        self._over: Ints | None = None
        """[N, G]: memory of GPUs that is in use beyond the part that goes with the thousandths in
        use, in thousandths of MiB; negative: less. None: nowhere. See `Shape.is_apart`"""

    def __len__(self) -> int:
        return len(self.nodes)

    def copy(self) -> Self:
        """Another one in the same state, to try things out in."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        for name in ("free_cpu", "free_memory", "left", "ordered", "left_total"):
            setattr(twin, name, getattr(self, name).copy())
        twin._free = [None] * len(self)
        twin._over = None if self._over is None else self._over.copy()
        return twin

    def milli(self, shape: Shape, nodes: Ints | slice = slice(None)) -> Ints | int:
        """Thousandths of each GPU that a shape takes: one number, or one for each of the nodes."""
        if not shape.gpu_memory_mib:
            return shape.gpu_milli
        memory = self.gpu_memory[nodes]
        by_memory = -(-shape.gpu_memory_mib * WHOLE_GPU // np.maximum(memory, 1))
        needed = shape.gpu_milli if shape.is_apart else by_memory
        return np.where(memory >= shape.gpu_memory_mib, needed, WHOLE_GPU + 1)

    def enough(self, shape: Shape, nodes: Ints | slice = slice(None)) -> Bools:
        """[number of nodes, G]: which GPUs have enough left of themselves and of their memory."""
        milli = np.reshape(self.milli(shape, nodes), (-1, 1))
        left = self.left[nodes]
        enough: Bools = left >= milli
        if self._over is not None or shape.is_apart:
            memory = self.gpu_memory[nodes][:, None]
            needed = shape.gpu_memory_mib * WHOLE_GPU if shape.is_apart else milli * memory
            over = 0 if self._over is None else self._over[nodes]
            enough &= left * memory - over >= needed
        return enough

    def healthy(self, seat: Seat) -> Sequence[int]:
        """The GPUs of a seat without those that are not healthy."""
        if not self.has_unhealthy:
            return seat.gpus
        own, node = self.capacity, seat.node
        return [gpu for gpu in seat.gpus if own[node, gpu] == self.installed[node, gpu]]

    def acceptable(self, shape: Shape) -> Bools | None:
        """[number of models]: which of them will do; None: all. Nodes without GPUs never matter."""
        if not shape.models or not shape.gpus:
            return None
        return np.array([model in shape.models for model in self.models])

    def has_room(self, shape: Shape, nodes: Ints | slice = slice(None)) -> Bools:
        """Which of the nodes could take one task of this shape now."""
        fits: Bools = self.free_cpu[nodes] >= shape.cpu_milli
        fits &= self.free_memory[nodes] >= shape.memory_mib
        if shape.gpus:
            width = self.left.shape[1]
            if shape.gpus > width:
                return np.zeros_like(fits)
            if self._over is None and not shape.is_apart:
                fits &= self.ordered[nodes, width - shape.gpus] >= self.milli(shape, nodes)
            else:
                fits &= self.enough(shape, nodes).sum(axis=1) >= shape.gpus
            models = self.acceptable(shape)
            if models is not None:
                fits &= models[self.model[nodes]]
        return fits

    def free_on(self, node: int) -> FreeAmounts:
        """What is free on one node."""
        found = self._free[node]
        if found is None:
            found = FreeAmounts(
                self.free_cpu.item(node),
                self.free_memory.item(node),
                tuple(self.ordered[node].tolist()),
                self.left_total.item(node),
            )
            self._free[node] = found
        return found

    def has_room_on(self, shape: Shape, node: int) -> bool:
        """Whether one node could take one task of this shape now."""
        cpu, memory, left, _ = self._free[node] or self.free_on(node)
        if cpu < shape.cpu_milli or memory < shape.memory_mib:
            return False
        if not shape.gpus:
            return True
        if self._over is not None or shape.is_apart:
            return bool(self.has_room(shape, np.array([node]))[0])
        if shape.gpus > len(left):
            return False
        milli = shape.gpu_milli
        if shape.models or shape.gpu_memory_mib:
            on = self.nodes[node]
            if shape.models and on.model not in shape.models:
                return False
            milli = shape.milli_on(on.gpu_memory_mib)
        return left[-shape.gpus] >= milli

    def has_room_within(self, shape: Shape, mask: Mask) -> Bools:
        """Which nodes could take one task now, if only what the mask leaves may be used."""
        fits = self.has_room(shape) & mask.nodes
        if shape.gpus and mask.gpus is not None:
            at = np.flatnonzero(fits)
            fits[at] = (self.enough(shape, at) & mask.gpus[at]).sum(axis=1) >= shape.gpus
        return fits

    def slots(self, shape: Shape, left: Ints, cpu: Ints, memory: Ints) -> Ints:
        """[N]: the most tasks of this shape that have room on each node, if this much is free."""
        slots: Ints = np.full(len(self), UNBOUNDED, np.int64)
        if shape.cpu_milli:
            slots = np.minimum(slots, cpu // shape.cpu_milli)
        if shape.memory_mib:
            slots = np.minimum(slots, memory // shape.memory_mib)
        if shape.gpus:
            milli = np.broadcast_to(self.milli(shape), len(self))[:, None]
            on_gpus = left // np.maximum(milli, 1)
            if shape.is_apart:
                in_memory = self.gpu_memory // shape.gpu_memory_mib
                on_gpus = np.minimum(on_gpus, in_memory[:, None])
            slots = np.minimum(slots, on_gpus.sum(axis=1) // shape.gpus)
            slots[(left >= milli).sum(axis=1) < shape.gpus] = 0
            models = self.acceptable(shape)
            if models is not None:
                slots = np.where(models[self.model], slots, 0)
        return slots

    def slots_of(self, shape: Shape, node: int) -> int:
        """The most tasks of this shape that have room on one node now."""
        slots = UNBOUNDED
        if shape.cpu_milli:
            slots = min(slots, int(self.free_cpu[node]) // shape.cpu_milli)
        if shape.memory_mib:
            slots = min(slots, int(self.free_memory[node]) // shape.memory_mib)
        if slots and shape.gpus:
            on = self.nodes[node]
            if shape.models and on.model not in shape.models:
                return 0
            milli = max(shape.milli_on(on.gpu_memory_mib), 1)
            most = on.gpu_memory_mib // shape.gpu_memory_mib if shape.is_apart else UNBOUNDED
            gpus = [min(left // milli, most) for left in self.left[node].tolist() if left >= milli]
            slots = min(slots, sum(gpus) // shape.gpus) if len(gpus) >= shape.gpus else 0
        return slots

    def slots_within(self, shape: Shape, mask: Mask) -> int:
        """The most tasks that have room within the mask."""
        left = self.left if mask.gpus is None else np.where(mask.gpus, self.left, 0)
        return int(self.slots(shape, left, self.free_cpu, self.free_memory)[mask.nodes].sum())

    def slots_when_empty(self, shape: Shape, mask: Mask | None = None) -> EmptySlots:
        """The most tasks that would have room, within the mask, if nothing ran there."""
        found = []
        for gpus in (self.installed, self.capacity)[: 1 + self.has_unhealthy]:
            left = gpus if mask is None or mask.gpus is None else np.where(mask.gpus, gpus, 0)
            slots = self.slots(shape, left, self.cpu, self.memory)
            found.append(int((slots if mask is None else slots[mask.nodes]).sum()))
        return EmptySlots(found[0], found[-1])

    def could_ever(self, shape: Shape, *, healthy: bool = False) -> Bools:
        """Which nodes could take it if nothing ran on them, and all their GPUs were healthy.

        With `healthy`: on the GPUs that are healthy now.
        """
        gpus = self.capacity if healthy else self.installed
        empty = self.copy()
        empty.free_cpu, empty.free_memory = self.cpu, self.memory
        empty.left, empty._over, empty.counts_memory = gpus, None, False
        empty.ordered = np.sort(gpus, axis=1)
        return empty.has_room(shape)

    def take(self, shape: Shape, seat: Seat) -> None:
        """Begin a task on a seat; raises InternalError if the seat has too little room."""
        self._change(shape, seat, 1)

    def give_back(self, shape: Shape, seat: Seat) -> None:
        """End a task; exactly undoes `take`."""
        self._change(shape, seat, -1)

    def take_all(self, taken: Sequence[tuple[Shape, Seat]]) -> None:
        """Begin many tasks at once, as with `take`."""
        at = np.array([seat.node for _, seat in taken], np.int64)
        np.subtract.at(self.free_cpu, at, [shape.cpu_milli for shape, _ in taken])
        np.subtract.at(self.free_memory, at, [shape.memory_mib for shape, _ in taken])
        parts = [(seat.node, gpu, seat.gpu_milli) for _, seat in taken for gpu in seat.gpus]
        if parts:
            nodes, gpus, amounts = np.array(parts, np.int64).T
            is_healthy = self.capacity[nodes, gpus] == self.installed[nodes, gpus]
            np.subtract.at(self.left, (nodes, gpus), np.where(is_healthy, amounts, 0))
        for shape, seat in taken:
            if shape.is_apart:
                self._change_memory(shape, seat, 1)
        for node, gpu in np.argwhere(self.left < 0):
            name = self.nodes[node].name
            raise InternalError(f"GPU {gpu} of {name} has {self.left[node, gpu]} left")
        for node in np.flatnonzero((self.free_cpu < 0) | (self.free_memory < 0)):
            cpu, memory = self.free_cpu[node], self.free_memory[node]
            raise InternalError(f"{self.nodes[node].name} has {cpu} CPU, {memory} MiB left")
        self._free = [None] * len(self)
        self.ordered = np.sort(self.left, axis=1)
        self.left_total = self.left.sum(axis=1)
        self.used_milli = self.gpu_milli_total - int(self.left_total.sum())

    def _change(self, shape: Shape, seat: Seat, sign: int) -> None:
        node = seat.node
        row: list[int] = self.left[node].tolist()
        amount = sign * seat.gpu_milli
        cpu = self.free_cpu.item(node) - sign * shape.cpu_milli
        memory = self.free_memory.item(node) - sign * shape.memory_mib
        healthy = self.healthy(seat)
        for gpu in healthy:
            row[gpu] -= amount
            if not 0 <= row[gpu] <= self.capacity.item(node, gpu):
                raise InternalError(f"GPU {gpu} of {self.nodes[node].name} has {row[gpu]} left")
        on = self.nodes[node]
        if not (0 <= cpu <= on.cpu_milli and 0 <= memory <= on.memory_mib):
            raise InternalError(f"{self.nodes[node].name} has {cpu} CPU, {memory} MiB left")
        if shape.is_apart:
            self._change_memory(shape, seat, sign)
        used = amount * len(healthy)
        self.free_cpu[node] = cpu
        self.free_memory[node] = memory
        if used:
            self.left[node] = row
            row.sort()
            self.ordered[node] = row
            self.left_total[node] -= used
            self.used_milli += used
        before = self._free[node]
        if before is not None:
            left = tuple(row) if used else before.left
            self._free[node] = FreeAmounts(cpu, memory, left, before.left_total - used)

    def _change_memory(self, shape: Shape, seat: Seat, sign: int) -> None:
        if self._over is None:
            self._over = np.zeros_like(self.left)
            self.counts_memory = True
        goes_along = seat.gpu_milli * int(self.gpu_memory[seat.node])
        over = shape.gpu_memory_mib * WHOLE_GPU - goes_along
        self._over[seat.node, list(seat.gpus)] += sign * over
        self._apart += sign
        if not self._apart:
            self._over, self.counts_memory = None, False

    def fragments_of(self, shapes: Iterable[tuple[Shape, float]]) -> float:
        """GPU thousandths that are free but of no use to a task, by how often each shape comes.

        `shapes` with weights that add up to one. The published measure (Weng et al., USENIX ATC
        '23): for a shape that a node cannot take, all that is free there; else what lies on GPUs
        with less left than it needs of one. CPU-only shapes leave everything unused.
        """
        total = 0.0
        for shape, weight in shapes:
            if not shape.gpus:
                total += weight * float(self.left_total.sum())
                continue
            fits = self.has_room(shape)
            too_small = np.where(self.enough(shape), 0, self.left)
            total += weight * float(np.where(fits, too_small.sum(axis=1), self.left_total).sum())
        return total
