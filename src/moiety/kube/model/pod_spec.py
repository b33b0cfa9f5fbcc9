"""The parts of a pod that several readers need. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

ENDED: Final = ("Succeeded", "Failed")
"""The phases of a pod whose containers will not run again."""


def containers(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every container that can ask for a share, init containers first."""
    spec = pod.get("spec") or {}
    yield from spec.get("initContainers") or []
    yield from spec.get("containers") or []
