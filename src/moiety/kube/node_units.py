"""The units that nodes offer and pods have, by which a pod with units waits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moiety.kube.model import names, quantity
from moiety.kube.model.pod_spec import ENDED, at_once

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeUnits:
    """The units of one resource on one node."""

    node: str
    resource: str
    offered: int
    used: int | None = None
    """Units of the node's pods; None: this user may not see them all."""

    @property
    def free(self) -> int:
        """Units that no pod is known to have."""
        return max(0, self.offered - (self.used or 0))


def node_units(nodes: Iterable[Object], pods: Sequence[Object] | None) -> list[NodeUnits]:
    """The units of each node; `pods` None: what pods have is unknown."""
    found = []
    for node in nodes:
        name = node["metadata"]["name"]
        offered = _counts((node.get("status") or {}).get("allocatable") or {})
        for resource, number in sorted(offered.items()):
            used = None
            if pods is not None:
                used = sum(wanted(pod).get(resource, 0) for pod in pods if _is_on(pod, name))
            found.append(NodeUnits(name, resource, number, used))
    return found


def wanted(pod: Object) -> dict[str, int]:
    """The units of each resource that a pod asks for, as the scheduler counts them."""
    return at_once(pod, _limits)


def room(pod: Object, units: Sequence[NodeUnits]) -> str:
    """Why no node has room for a pod's units, or that one has."""
    for resource, number in sorted(wanted(pod).items()):
        there = [each for each in units if each.resource == resource and each.offered]
        if not there:
            return f"no node offers {resource} (does moiety-node run on one?)"
        largest = max(each.offered for each in there)
        if number > largest:
            return (
                f"{number} of {resource} are wanted, and the largest node has {largest}, so it "
                "would wait for ever"
            )
        best = max(there, key=lambda each: each.free)
        if best.used is None:
            return (
                f"{number} of {resource} are wanted, and the largest of {len(there)} node(s) has "
                f"{largest}; what pods of other namespaces have of them is not yours to see"
            )
        if best.free < number:
            return (
                f"{number} of {resource} are wanted, and of {len(there)} node(s) the roomiest, "
                f"{best.node}, has {best.free} of {best.offered} left"
            )
    return "a node has units left, so something else keeps it: a resource or a taint of the node"


def _is_on(pod: Object, node: str) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return (pod.get("spec") or {}).get("nodeName") == node and phase not in ENDED


def _limits(container: Object) -> dict[str, int]:
    return _counts((container.get("resources") or {}).get("limits") or {})


def _counts(amounts: Mapping[str, Any]) -> dict[str, int]:
    """The amounts of moiety's resources."""
    found = {}
    for key, text in amounts.items():
        if key.startswith(names.PREFIX):
            try:
                found[key] = quantity.parse_count(str(text))
            except quantity.InvalidQuantity:
                continue  # the API server admits no part of a unit
    return found
