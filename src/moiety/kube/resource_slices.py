"""A node's GPUs as the scheduler sees them: the ResourceSlices of one pool.

Each GPU is a device that may be allocated many times. Claims consume its `compute`, in whole
percent of its time, and its `memory`, in bytes that stay on it while others run. (Percent, because
schedulers round requests up to whole numbers: a fraction would become a whole GPU.)
"""

from __future__ import annotations

import copy
import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moiety.devices.gpu_models import Card
from moiety.kube.client import NODES, SLICES, ApiClient, Object
from moiety.kube.model.quantity import WHOLE
from moiety.kube.model.share_config import DRIVER

COMPUTE: Final = "compute"
MEMORY: Final = "memory"
MEMORY_BYTES: Final = "memoryBytes"
"""The attribute with all of a GPU's shared memory; the capacity is less by what shares grew."""
SLACK: Final = 1e-6
DEVICES_MOST: Final = 64
"""The most devices in one slice if devices have taints."""
TEXT_MOST: Final = 64
TAKEN: Final = "gpu.moiety.dev/taken"
ALL: Final = "whole"
UNHEALTHY: Final = "gpu.moiety.dev/unhealthy"
ADMITTED: Final = "gpu.moiety.dev/admitted"
REFUSED: Final = "gpu.moiety.dev/refused"
"""Conditions of a claim's device that the scheduler waits for before it binds a pod."""
_VERSION: Final = re.compile(r"[0-9]+(?:\.[0-9]+){0,2}")


@dataclass(frozen=True, slots=True)
class NodeGpu:
    """One GPU that this node's agent shares out."""

    card: Card
    capacity_bytes: int
    """The shared part of its memory."""
    trouble: str = ""
    """Why no pod should get it; empty: it is healthy."""
    taken: str = ""
    """"units": pods have units of it; "whole": one pod has all of it; empty: free."""
    grown_percent: float = 0.0
    """Percent of its time that shares have beyond what their claims consume."""
    grown_bytes: int = 0
    """Likewise of its memory."""
    is_checked: bool = False
    """Whether the scheduler asks the node about each claim before it binds a pod."""

    @property
    def device(self) -> str:
        """Its name in the pool."""
        return f"gpu-{self.card.index}"


def device(gpu: NodeGpu) -> Object:
    """One device of a slice."""
    left = max(0, WHOLE - math.ceil(gpu.grown_percent - SLACK))
    # The API server wants one step and the maximum to be within the capacity.
    bounds = ({"max": str(WHOLE)} if left == WHOLE else {}) | ({"step": "1"} if left else {})
    found: Object = {
        "name": gpu.device,
        "allowMultipleAllocations": True,
        "attributes": attributes(gpu.card) | {MEMORY_BYTES: {"int": gpu.capacity_bytes}},
        "capacity": {
            COMPUTE: {
                "value": str(left),
                "requestPolicy": {
                    "default": str(WHOLE),
                    "validRange": {"min": "0", **bounds},
                },
            },
            MEMORY: {
                "value": str(max(0, gpu.capacity_bytes - gpu.grown_bytes)),
                "requestPolicy": {"default": "0", "validRange": {"min": "0"}},
            },
        },
    }
    if gpu.is_checked:
        found |= {"bindingConditions": [ADMITTED], "bindingFailureConditions": [REFUSED]}
    if gpu.trouble:
        found["taints"] = [{"key": UNHEALTHY, "value": "true", "effect": "NoSchedule"}]
    elif gpu.taken:
        found["taints"] = [{"key": TAKEN, "value": gpu.taken, "effect": "NoSchedule"}]
    return found


def attributes(card: Card) -> Object:
    """The attributes under the names of NVIDIA's driver; unknown ones are left out."""
    texts = {
        "type": "gpu",
        "uuid": card.uuid,
        "productName": card.name,
        "brand": card.brand,
        "architecture": card.architecture,
        "pcieBusID": card.bus_id,
        "resource.kubernetes.io/pciBusID": card.bus_id,
        "resource.kubernetes.io/pcieRoot": card.pcie_root,
    }
    versions = {
        "driverVersion": version(card.driver),
        "cudaDriverVersion": version(_dotted(card.cuda)),
        "cudaComputeCapability": version(_dotted(card.capability)),
    }
    numbers = {"index": card.index, "minor": card.minor, "numaNode": card.numa_node}
    found: Object = {name: {"string": text[:TEXT_MOST]} for name, text in texts.items() if text}
    found |= {name: {"version": text} for name, text in versions.items() if text}
    found |= {name: {"int": number} for name, number in numbers.items() if number is not None}
    return found


def version(text: str) -> str:
    """A version of three numbers without leading zeros (semver.org); empty if there is none."""
    match = _VERSION.match(text)
    if not match:
        return ""
    parts = [*(str(int(part)) for part in match[0].split(".")), "0", "0"]
    return ".".join(parts[:3])


def _dotted(pair: tuple[int, int] | None) -> str:
    return f"{pair[0]}.{pair[1]}" if pair else ""


def slices(node: str, gpus: Iterable[NodeGpu], owner: Object | None = None) -> list[Object]:
    """The slices of a node's pool, of generation 0; they are deleted with `owner`, the Node."""
    devices = [device(gpu) for gpu in sorted(gpus, key=lambda each: each.card.index)]
    parts = [devices[i : i + DEVICES_MOST] for i in range(0, len(devices), DEVICES_MOST)] or [[]]
    found = []
    for number, part in enumerate(parts):
        metadata: Object = {"name": slice_name(node, number)}
        if owner:
            metadata["ownerReferences"] = [
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ]
        spec: Object = {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 0, "resourceSliceCount": len(parts)},
            "devices": part,
        }
        found.append({"metadata": metadata, "spec": spec})
    return found


def slice_name(node: str, number: int) -> str:
    """A unique name of a node's slice, with the node's name in it."""
    digest = hashlib.sha256(node.encode()).hexdigest()[:8]
    return f"{node[:200].rstrip('.-')}-{DRIVER}-{digest}-{number}"


async def publish(client: ApiClient, node: str, gpus: Sequence[NodeGpu]) -> bool:
    """Bring the pool to the state of the GPUs; True if something changed. Raises ApiError.

    All slices of a pool are of one generation, and a scheduler takes the newest complete
    generation: if anything differs, all slices are written with a new one.
    """
    owner = await client.get(NODES, node)
    wanted = slices(node, gpus, owner)
    selector = f"spec.nodeName={node},spec.driver={DRIVER}"
    there, _ = await client.list(SLICES, field_selector=selector)
    if _same(wanted, there):
        return False
    known = {each["metadata"]["name"]: each for each in there}
    newest = max((each["spec"]["pool"]["generation"] for each in there), default=0)
    for each in wanted:
        each["spec"]["pool"]["generation"] = newest + 1
        before = known.pop(each["metadata"]["name"], None)
        if before is None:
            await client.create(SLICES, each)
        else:
            metadata = {**each["metadata"]}
            metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
            await client.update(SLICES, {**each, "metadata": metadata})
    for name in known:  # slices that are no longer needed
        await client.delete(SLICES, name)
    return True


async def keeps_conditions(client: ApiClient, node: str) -> bool:
    """Whether the cluster keeps the binding conditions of a node's devices. Raises ApiError."""
    selector = f"spec.nodeName={node},spec.driver={DRIVER}"
    there, _ = await client.list(SLICES, field_selector=selector)
    devices = [each for part in there for each in part["spec"].get("devices") or []]
    return all(each.get("bindingConditions") for each in devices)


async def withdraw(client: ApiClient, node: str) -> None:
    """Take the pool away: nothing more is allocated from it. Raises ApiError."""
    selector = f"spec.nodeName={node},spec.driver={DRIVER}"
    there, _ = await client.list(SLICES, field_selector=selector)
    for each in there:
        await client.delete(SLICES, each["metadata"]["name"])


def _same(wanted: Sequence[Object], there: Sequence[Object]) -> bool:
    """Whether the slices that exist equal the wanted ones, apart from the generation."""
    if len({each["spec"]["pool"]["generation"] for each in there}) > 1:
        return False
    return _comparable(wanted) == _comparable(there)


def _comparable(found: Sequence[Object]) -> dict[str, Any]:
    specs = {}
    for each in found:
        spec = copy.deepcopy(each["spec"])
        spec["pool"]["generation"] = 0
        for entry in spec.get("devices") or []:
            for taint in entry.get("taints") or []:
                taint.pop("timeAdded", None)  # the server's own
        spec["devices"] = spec.get("devices") or []
        owners = each["metadata"].get("ownerReferences") or []
        specs[each["metadata"]["name"]] = (spec, [owner.get("uid") for owner in owners])
    return specs
