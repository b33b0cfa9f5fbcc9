"""Victims for a piece that has room on named GPUs only: ending any other would be of no use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import Ints
from moiety.policy.preempt.freed_room import FreedRoom
from moiety.policy.preempt.victims import Victims, VictimUnit
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart

Gpus = frozenset[tuple[str, int]]


def in_the_way(state: ClusterState, piece: GangPart, victims: Victims) -> Victims:
    """The victims that have something where a piece may be: all, unless it names its GPUs."""
    named = [each.company.gpus for each in piece.workload.subgroups]
    gpus: Gpus = frozenset().union(*(each for each in named if each is not None))
    return victims if None in named else _ConfinedVictims(state, victims, gpus)


class _ConfinedVictims(Victims):
    """A view of other victims, made for one trial."""

    def __init__(self, state: ClusterState, whole: Victims, gpus: Gpus) -> None:
        self._state = state
        self._whole = whole
        self._gpus = gpus
        self._nodes = {node for node, _ in gpus}
        self._here: dict[str, list[VictimUnit]] = {}
        self._freed: dict[str, dict[str, FreedRoom]] = {}
        self.needs: object = None
        self.renewed: set[str] = set()

    @property
    def queues(self) -> Iterable[str]:
        """The queues with units that may be ended."""
        return self._whole.queues

    def of(self, queue: str) -> Sequence[VictimUnit]:
        """The units of a queue that have one of the GPUs, or only processors beside them."""
        if queue not in self._here:
            self._here[queue] = [unit for unit in self._whole.of(queue) if self._is_there(unit)]
        return self._here[queue]

    def emptied(self, pool: str) -> tuple[Ints, Ints, Ints]:
        """What would be free at most if all units ended, also those elsewhere."""
        return self._whole.emptied(pool)

    def slots(self, pool: str, shape: Shape) -> Ints:
        """How many tasks of a shape would have room on each node at most."""
        return self._whole.slots(pool, shape)

    def _is_there(self, unit: VictimUnit) -> bool:
        for task in unit.tasks:
            seated = self._state.seated.get(task)
            if seated is None:
                continue
            pool, (at, gpus, _) = seated.place
            node = self._state.pools.placers[pool].cluster.nodes[at].name
            if any((node, gpu) in self._gpus for gpu in gpus) or (not gpus and node in self._nodes):
                return True
        return False
