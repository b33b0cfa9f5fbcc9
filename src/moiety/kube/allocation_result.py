"""The allocation of a claim: its GPUs, their parts, and the conditions. Pure.

A claim names requests; the scheduler chose devices for each, and wrote how much of them the claim
consumes. Each request is a share of its own, of all devices that were chosen for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moiety.kube.client import Object
from moiety.kube.model import quantity, share_config
from moiety.kube.model.pod_spec import containers
from moiety.kube.model.quantity import WHOLE
from moiety.kube.resource_slices import COMPUTE, MEMORY
from moiety.model.errors import MoietyError
from moiety.model.format import format_bytes, format_fraction
from moiety.model.share import NOTHING_ASKED, Share

RESOURCE: Final = "pods"


class Unprepared(MoietyError):
    """Why a claim cannot be given to its pod: a sentence that the pod's events show."""

    def __init__(self, what: str, hint: str = "kubectl describe resourceclaim") -> None:
        super().__init__(what, hint)


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One device that was chosen for a request."""

    request: str
    """The request, with the name of the chosen alternative if there were several: gpu/small."""
    pool: str
    device: str
    share_id: str
    percent: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class AllocatedRequest:
    """The allocation of one request."""

    request: str
    """The request without the alternative, as containers name it."""
    pieces: tuple[AllocatedDevice, ...]
    share: Share


@dataclass(frozen=True, slots=True)
class Consumer:
    """A pod that a claim is reserved for."""

    name: str
    uid: str


def granted(claim: Object, node: str) -> list[AllocatedRequest]:
    """The allocation of each of moiety's requests on this node; raises Unprepared."""
    name = f"claim {claim['metadata'].get('namespace', '')}/{claim['metadata']['name']}"
    allocation = (claim.get("status") or {}).get("allocation")
    if not allocation:
        raise Unprepared(f"{name} is not allocated", "wait for the scheduler")
    devices = allocation.get("devices") or {}
    results = [r for r in devices.get("results") or [] if r.get("driver") == share_config.DRIVER]
    if not results:
        raise Unprepared(f"{name} has no device of {share_config.DRIVER}")
    by_request: dict[str, list[AllocatedDevice]] = {}
    for result in results:
        if result["pool"] != node:
            raise Unprepared(f"{name} was given device {result['pool']}/{result['device']}, and "
                             f"this is node {node}")  # fmt: skip
        if result.get("adminAccess"):
            raise Unprepared(
                f"{name}: admin access to a shared GPU is not a thing: nvidia-smi on the node, and "
                "`moiety top`, see all that is on it"
            )
        piece = _piece(result)
        by_request.setdefault(piece.request.partition("/")[0], []).append(piece)
    found = []
    for request, pieces in by_request.items():
        config = _config(devices.get("config") or [], {piece.request for piece in pieces})
        found.append(AllocatedRequest(request, tuple(pieces), _share(name, pieces, config)))
    return found


def allocated_on(claim: Object, node: str) -> list[AllocatedDevice]:
    """What a claim was given of moiety's devices on a node."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return [
        _piece(each)
        for each in (allocation.get("devices") or {}).get("results") or []
        if (each.get("driver"), each.get("pool")) == (share_config.DRIVER, node)
    ]


def consumers(claim: Object) -> list[Consumer]:
    """The pods that may use a claim."""
    reserved = (claim.get("status") or {}).get("reservedFor") or []
    return [
        Consumer(each["name"], each["uid"])
        for each in reserved
        if each.get("resource") == RESOURCE and not each.get("apiGroup")
    ]


def whole_claims(pod: Object, claim: str) -> list[str]:
    """The containers of a pod that use a claim without naming one of its requests."""
    spec = pod.get("spec") or {}
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or []
    made = {each["name"]: each.get("resourceClaimName") for each in statuses}
    names = {
        each["name"]
        for each in spec.get("resourceClaims") or []
        if claim in (each.get("resourceClaimName"), made.get(each["name"]))
    }
    return [
        container["name"]
        for container in containers(pod)
        for used in (container.get("resources") or {}).get("claims") or []
        if used["name"] in names and not used.get("request")
    ]


def _piece(result: Mapping[str, Any]) -> AllocatedDevice:
    consumed = result.get("consumedCapacity") or {}
    percent = quantity.parse(str(consumed.get(COMPUTE, WHOLE)))
    return AllocatedDevice(
        request=result["request"],
        pool=result["pool"],
        device=result["device"],
        share_id=result.get("shareID") or "",
        percent=int(percent),
        memory_bytes=quantity.parse_bytes(str(consumed.get(MEMORY, 0))),
    )


def _config(entries: Sequence[Mapping[str, Any]], requests: set[str]) -> Share:
    """The share of the parameters: a claim's override a class', later ones override earlier."""
    order = {"FromClass": 0, "FromClaim": 1}
    found = NOTHING_ASKED
    for entry in sorted(entries, key=lambda each: order.get(each.get("source", ""), 1)):
        opaque = entry.get("opaque") or {}
        if opaque.get("driver") != share_config.DRIVER:
            continue
        named = set(entry.get("requests") or [])
        mains = {request.partition("/")[0] for request in requests}
        if named and not named & (requests | mains):
            continue
        try:
            found = share_config.decode(opaque.get("parameters") or {})
        except MoietyError as error:
            raise Unprepared(f"the claim's parameters: {error.what}", error.hint) from None
    return found


def _share(name: str, pieces: Sequence[AllocatedDevice], config: Share) -> Share:
    percent = min(piece.percent for piece in pieces)
    memory_bytes = min(piece.memory_bytes for piece in pieces)
    gpu = config.gpu
    if gpu is None and percent:
        gpu = percent / WHOLE
    if (gpu or 0.0) * WHOLE > percent + 1e-6:
        raise Unprepared(
            f"{name}: its parameters ask for {format_fraction(gpu or 0.0)} of the GPU, and it "
            f"consumes {percent} % of one",
            "the same in capacity.requests.compute (percent) as in gpu.request",
        )
    if config.memory_bytes > memory_bytes:
        raise Unprepared(
            f"{name}: its parameters ask for {format_bytes(config.memory_bytes)} that stay on the "
            f"GPU, and it consumes {format_bytes(memory_bytes)}",
            "the same in capacity.requests.memory as in memory.request",
        )
    limit = config.gpu_limit
    return _made(
        name,
        config,
        gpu=gpu,
        gpu_limit=max(limit, gpu or 0.0),
        memory_bytes=config.memory_bytes or memory_bytes,
    )


def _made(name: str, config: Share, **changes: Any) -> Share:
    try:
        return dataclasses.replace(config, **changes)
    except MoietyError as error:
        raise Unprepared(f"{name}: {error.what}", error.hint) from None
