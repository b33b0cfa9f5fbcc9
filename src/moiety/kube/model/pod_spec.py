"""The parts of a pod that several readers need. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

ENDED: Final = ("Succeeded", "Failed")
"""The phases of a pod whose containers will not run again."""


def containers(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every container that can ask for a share, init containers first."""
    spec = pod.get("spec") or {}
    yield from spec.get("initContainers") or []
    yield from spec.get("containers") or []


def at_once(
    pod: Mapping[str, Any], amounts: Callable[[Mapping[str, Any]], Mapping[str, int]]
) -> dict[str, int]:
    """The most of each amount that the containers of a pod have at one time.

    As the scheduler counts it: an init container that ends has its amounts beside the sidecars
    before it, and the other containers have theirs after that. `amounts` are those of a container.
    """
    spec = pod.get("spec") or {}
    beside: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in spec.get("initContainers") or []:
        now = _sum(beside, amounts(container))
        if container.get("restartPolicy") == "Always":
            beside = now
        most = {key: max(most.get(key, 0), now.get(key, 0)) for key in most | now}
    for container in spec.get("containers") or []:
        beside = _sum(beside, amounts(container))
    return {key: max(most.get(key, 0), beside.get(key, 0)) for key in most | beside}


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in {**one, **other}}
