"""A world in which stops have their price: gangs are killed, or suspended as the node runtime does.

A gang that is killed loses what it did since its last checkpoint. One that is suspended keeps its
work: the memory of its GPUs moves to the memory of its nodes at the speed of the link, and back
when it goes on; on other nodes it crosses the network first. What a node has no memory for is
killed. The world only carries out: the engine says which gangs are suspended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from moiety.sim.runs import GpuPool, RestartCost, Run
from moiety.sim.seats import Nodes, Seats

GIB: Final = 1 << 30


class Stops(StrEnum):
    """What happens to a gang that is stopped."""

    KEEP = "keep"
    """Its work is kept for nothing, and it loses the time of a restart."""
    KILL = "kill"
    """It loses what it did since its last checkpoint."""
    SUSPEND = "suspend"
    """Its memory moves to the host; it is killed where that is full."""


@dataclass(frozen=True, slots=True)
class SuspensionCost:
    """What a suspension moves, and how fast."""

    gpu_bytes: int = 40 * GIB
    """Bytes of each GPU, of gangs that do not say."""
    host_bytes: int = 512 * GIB
    """Memory of each node for gangs that are suspended."""
    link_bytes_per_s: float = 25e9
    """Of each GPU, to and from its host."""
    network_bytes_per_s: float = 10e9
    """Of each node, to other nodes."""


class StoppingPool(GpuPool):
    """Nodes on which a stop kills or suspends."""

    def __init__(
        self, nodes: Nodes, cost: RestartCost, suspension: SuspensionCost | None = None
    ) -> None:
        super().__init__(nodes, cost)
        self._suspension = suspension
        """None: all stopped gangs are killed."""
        self._asleep: dict[int, Seats] = {}
        """Where the memory of suspended gangs is, by their numbers."""
        self._taken: Counter[int] = Counter()
        """Bytes of suspended gangs on each node."""
        self._moved_s: dict[int, float] = {}
        """When the GPUs of a node have been emptied of what was suspended there last."""

    def gpu_bytes(self, run: Run) -> int:
        """As in `GpuPool`."""
        if self._suspension is None:
            return 0
        told = run.gang.gpu_bytes
        return self._suspension.gpu_bytes if told is None else told

    def host_free(self) -> Mapping[int, int]:
        """As in `GpuPool`."""
        if self._suspension is None:
            return {}
        whole = self._suspension.host_bytes
        return {at: whole - self._taken[at] for at, up in enumerate(self.nodes.up) if up}

    def stop(self, run: Run, *, suspends: bool = False) -> None:
        """As in `GpuPool`, but work is lost if it is not suspended."""
        seats, done = run.seats, run.attained(self.now_s)
        super().stop(run)
        if suspends and self._has_room(run, seats):
            self._suspend(run, seats)
        else:
            self._lose(run, done)

    def _has_room(self, run: Run, seats: Seats) -> bool:
        each, free = self.gpu_bytes(run), self.host_free()
        return each > 0 and all(free.get(node, 0) >= count * each for node, count in seats)

    def _suspend(self, run: Run, seats: Seats) -> None:
        assert self._suspension
        each = self.gpu_bytes(run)
        run.suspensions += 1
        self._asleep[run.number] = seats
        until_s = self.now_s + each / self._suspension.link_bytes_per_s
        for node, count in seats:
            self._taken[node] += count * each
            self._moved_s[node] = max(self._moved_s.get(node, 0.0), until_s)

    def _begin(self, run: Run, seats: Seats) -> None:
        super()._begin(run, seats)
        if run.number in self._asleep:
            run.since_s = self.now_s + self._resume_s(run, seats)
        left_s = max((self._moved_s.get(node, 0.0) for node, _ in seats), default=0.0) - self.now_s
        run.since_s += max(left_s, 0.0)

    def _resume_s(self, run: Run, seats: Seats) -> float:
        """Seconds until a suspended gang goes on; its memory leaves the hosts."""
        assert self._suspension
        each = self.gpu_bytes(run)
        slept = dict(self._asleep.pop(run.number))
        for node, count in slept.items():
            self._taken[node] -= count * each
        arrives = [count * each for node, count in seats if slept.get(node) != count]
        network_s = max(arrives, default=0) / self._suspension.network_bytes_per_s
        return network_s + each / self._suspension.link_bytes_per_s

    def fallen(self, node: int) -> None:
        """The memory of a node is gone: what was suspended there begins at its last checkpoint."""
        for number, seats in list(self._asleep.items()):
            if any(at == node for at, _ in seats):
                run = self.waiting[number]
                each = self.gpu_bytes(run)
                for at, count in seats:
                    self._taken[at] -= count * each
                del self._asleep[number]
                self._lose(run, run.attained_s)


def pool_of(
    nodes: Nodes, cost: RestartCost, stops: Stops, suspension: SuspensionCost | None
) -> GpuPool | None:
    """The world in which stops are as they were asked for; None: the usual one."""
    if stops is Stops.KEEP:
        return None
    if stops is Stops.KILL:
        return StoppingPool(nodes, cost)
    return StoppingPool(nodes, cost, suspension or SuspensionCost())
