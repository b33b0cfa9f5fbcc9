"""The GPUs of a cluster, by which a pod's request can be impossible. Pure.

The ResourceSlices of all nodes give each model's name and its shared memory. While no GPU is known,
no request is impossible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moiety.kube.dialects.request import GpuRequest, RequestRefused
from moiety.kube.model import quantity, share_config
from moiety.kube.resource_slices import MEMORY, MEMORY_BYTES
from moiety.model.format import format_bytes
from moiety.model.share import Mode

_LETTERS: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, order=True)
class GpuKind:
    """GPUs of one model and size."""

    memory_bytes: int
    model: str


@dataclass(frozen=True, slots=True)
class Fleet:
    """Every kind of GPU that some node has."""

    kinds: frozenset[GpuKind] = frozenset()
    nodes: frozenset[tuple[GpuKind, ...]] = frozenset()
    """The GPUs of each node; nodes with the same GPUs are in it once."""

    def sizes(self, gpu_request: GpuRequest) -> list[int]:
        """The memory sizes of the GPUs that fit a request, the smallest first."""
        return sorted({each.memory_bytes for each in self.kinds if fits(gpu_request, each.model)})

    def most(self, gpu_request: GpuRequest) -> int:
        """The most GPUs of one node that fit a request, by model and memory; 0 if none is known."""
        kept = gpu_request.share.memory_bytes
        return max(
            (
                sum(fits(gpu_request, each.model) and each.memory_bytes >= kept for each in node)
                for node in self.nodes
            ),
            default=0,
        )

    def check(self, gpu_request: GpuRequest) -> None:
        """Raises RequestRefused for a request that no GPU of the cluster can satisfy."""
        if not self.kinds:
            if gpu_request.memory_part is not None:
                raise RequestRefused(
                    "no GPU is known to the cluster yet, so a percentage of its memory is no number"
                    " of bytes; moiety.dev/memory says it in bytes"
                )
            return
        sizes = self.sizes(gpu_request)
        if not sizes:
            there = ", ".join(sorted({each.model for each in self.kinds}))
            raise RequestRefused(
                f"no node has a GPU of model {' or '.join(gpu_request.models)}; there are {there}"
            )
        kept = gpu_request.share.memory_bytes
        of_model = " of that model" if gpu_request.models else ""
        if kept > sizes[-1]:
            raise RequestRefused(
                f"{format_bytes(kept)} are to stay on a GPU, and the largest{of_model} has "
                f"{format_bytes(sizes[-1])}"
            )
        limit = gpu_request.share.memory_limit_bytes
        is_managed = gpu_request.share.mode is Mode.MANAGED
        if limit is not None and limit > sizes[-1] and not is_managed:
            raise RequestRefused(
                f"a limit of {format_bytes(limit)} limits nothing: the largest GPU{of_model} has "
                f"{format_bytes(sizes[-1])}; without a limit a program may allocate all that its "
                "GPU has, and with moiety.dev/mode: managed more than that"
            )


def of(slices: Iterable[dict[str, Any]]) -> Fleet:
    """The GPUs of ResourceSlices, without slices of other drivers and unknown content."""
    by_node: dict[str, dict[int, list[GpuKind]]] = {}
    for each in slices:
        spec = each.get("spec") or {}
        if spec.get("driver") != share_config.DRIVER:
            continue
        pool = spec.get("pool") or {}
        generations = by_node.setdefault(str(pool.get("name", "")), {})
        generations.setdefault(int(pool.get("generation") or 0), []).extend(_kinds(spec))
    nodes = [found[max(found)] for found in by_node.values()]
    return Fleet(
        frozenset(kind for found in by_node.values() for kinds in found.values() for kind in kinds),
        frozenset(tuple(sorted(node)) for node in nodes if node),
    )


def _kinds(spec: Mapping[str, Any]) -> Iterator[GpuKind]:
    """The GPUs of one slice, without those whose memory is unknown."""
    for device in spec.get("devices") or []:
        name = ((device.get("attributes") or {}).get("productName") or {}).get("string", "")
        if (size := memory_bytes(device)) is not None:
            yield GpuKind(size, name)


def memory_bytes(device: Mapping[str, Any]) -> int | None:
    """The shared memory of a device, however much of it is given; None: it is unknown.

    A node of an earlier version says only the capacity, which is less by what shares grew.
    """
    size = ((device.get("attributes") or {}).get(MEMORY_BYTES) or {}).get("int")
    return size if isinstance(size, int) else offered_bytes(device)


def offered_bytes(device: Mapping[str, Any]) -> int | None:
    """The memory of a device that claims can consume in sum; None: it is unknown."""
    memory = ((device.get("capacity") or {}).get(MEMORY) or {}).get("value", "")
    try:
        return quantity.parse_bytes(str(memory))
    except quantity.InvalidQuantity:
        return None


def fits(gpu_request: GpuRequest, model: str) -> bool:
    """Whether a request accepts a GPU of this model."""
    return not gpu_request.models or any(plain(each) in plain(model) for each in gpu_request.models)


def plain(model: str) -> str:
    """A model's name without case, spaces and dashes, which people write differently."""
    return _LETTERS.sub("", model.lower())


def models(gpu_request: GpuRequest, fleet: Fleet) -> list[str]:
    """The product names that a request accepts, in the nodes' form."""
    return sorted({each.model for each in fleet.kinds if fits(gpu_request, each.model)})
