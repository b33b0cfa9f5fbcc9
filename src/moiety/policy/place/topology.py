"""The domains of the topology: racks, nodes, and GPUs of a node with fast links between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from moiety.policy.model.cluster import Node
from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import Bools, EmptySlots, Mask
from moiety.policy.place.pools import Masks, Place, Pools

NODE: Final = "node"
NVLINK: Final = "nvlink"
FAST: Final = frozenset({"nvlink", "nvswitch"})


@dataclass(frozen=True, slots=True)
class Area:
    """One domain of a level."""

    level: str
    name: str
    masks: Masks

    def has(self, place: Place) -> bool:
        """Whether a place lies in this domain."""
        mask = self.masks[place.pool]
        if not mask.nodes[place.seat.node]:
            return False
        return mask.gpus is None or bool(mask.gpus[place.seat.node, list(place.seat.gpus)].all())


class Domains:
    """All domains of all levels that workloads ask for.

    A level is a name in the topology of nodes. A domain of the level `node` is one node; a domain
    of the level `nvlink`, where nodes do not name it, is a set of GPUs of one node that NVLink or
    NVSwitch connects.
    """

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._areas: dict[str, list[Area]] = {}

    def areas(self, level: str) -> list[Area]:
        """All domains of a level, by name."""
        found = self._areas.get(level)
        if found is None:
            found = self._areas[level] = self._found(level)
        return found

    def _found(self, level: str) -> list[Area]:
        parts: dict[str, list[tuple[str, int, frozenset[int] | None]]] = {}
        for pool, placer in self._pools.placers.items():
            for at, node in enumerate(placer.cluster.nodes):
                for name, gpus in _of(node, level):
                    parts.setdefault(name, []).append((pool, at, gpus))
        return [Area(level, name, self._masks(parts[name])) for name in sorted(parts)]

    def _masks(self, parts: Iterable[tuple[str, int, frozenset[int] | None]]) -> Masks:
        nodes: dict[str, Bools] = {}
        gpus: dict[str, Bools] = {}
        for pool, placer in self._pools.placers.items():
            nodes[pool] = np.zeros(len(placer.cluster), np.bool_)
        for pool, at, only in parts:
            nodes[pool][at] = True
            if only is not None:
                shape = self._pools.placers[pool].cluster.left.shape
                gpus.setdefault(pool, np.zeros(shape, np.bool_))[at, list(only)] = True
        return {pool: Mask(found, gpus.get(pool)) for pool, found in nodes.items()}

    def slots(self, area: Area, shape: Shape, pools: Iterable[str]) -> int:
        """The most tasks of a shape that have room in a domain."""
        return sum(
            self._pools.placers[pool].cluster.slots_within(shape, area.masks[pool])
            for pool in pools
        )

    def slots_when_empty(self, area: Area, shape: Shape, pools: Iterable[str]) -> EmptySlots:
        """The most tasks of a shape that would have room in a domain if nothing ran there."""
        found = [
            self._pools.placers[pool].cluster.slots_when_empty(shape, area.masks[pool])
            for pool in pools
        ]
        return EmptySlots.total(found)

    def free(self, area: Area) -> int:
        """Thousandths of GPUs that are free on the nodes of a domain."""
        return sum(
            int(self._pools.placers[pool].cluster.left_total[mask.nodes].sum())
            for pool, mask in area.masks.items()
        )


def _of(node: Node, level: str) -> list[tuple[str, frozenset[int] | None]]:
    """The domains of a level that a node is in, and with which of its GPUs (None: all)."""
    for named, value in node.topology:
        if named == level:
            return [(value, None)]
    if level == NODE:
        return [(node.name, None)]
    if level == NVLINK:
        return [(f"{node.name}/{min(part)}", part) for part in _connected(node)]
    return []


def _connected(node: Node) -> list[frozenset[int]]:
    """The GPUs of a node, in sets that fast links connect."""
    peers: dict[int, set[int]] = {gpu.index: set() for gpu in node.gpus}
    for gpu in node.gpus:
        for link in gpu.links:
            if link.kind in FAST and link.peer in peers:
                peers[gpu.index].add(link.peer)
                peers[link.peer].add(gpu.index)
    found = []
    left = set(peers)
    while left:
        part: set[int] = set()
        ahead = [min(left)]
        while ahead:
            at = ahead.pop()
            if at not in part:
                part.add(at)
                ahead += peers[at]
        left -= part
        found.append(frozenset(part))
    return found
