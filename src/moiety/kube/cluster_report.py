"""Rows about GPUs and the pods that share them, from the API server's objects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from moiety.kube import cluster_gpus
from moiety.kube.model import names, quantity, share_config
from moiety.kube.model.pod_spec import ENDED, containers
from moiety.kube.model.quantity import WHOLE
from moiety.kube.model.share_config import DRIVER
from moiety.kube.node_units import NodeUnits
from moiety.kube.resource_slices import COMPUTE
from moiety.model.errors import MoietyError
from moiety.model.share import Share

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HeldPart:
    """The part of one GPU that a claim has."""

    node: str
    device: str
    request: str
    percent: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class ClusterGpuRow:
    """One GPU of the cluster."""

    node: str
    device: str
    model: str
    memory_bytes: int
    percent: int = 0
    """Percent of its time that claims consume, and that shares have beyond that."""
    promised_bytes: int = 0
    pods: int = 0
    trouble: str = ""

    @property
    def free_percent(self) -> int:
        """Percent of its time that can still be promised."""
        return max(0, WHOLE - self.percent)

    @property
    def free_bytes(self) -> int:
        """Bytes of its memory that can still be promised."""
        return max(0, self.memory_bytes - self.promised_bytes)


@dataclass(frozen=True, slots=True)
class PodRow:
    """One pod with a share."""

    namespace: str
    name: str
    uid: str
    phase: str
    node: str
    gpus: tuple[str, ...]
    """GPUs by their node's names; empty: none yet, or units."""
    asked: Mapping[str, str]
    """Requests by container."""
    claims: tuple[str, ...] = ()
    """UIDs of its claims."""
    received: float | None = None
    """The recent part of its GPUs' time; None: not known."""
    allocated_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """All objects from which the rows are made."""

    slices: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    processes: Sequence[Object] = field(default_factory=tuple)
    """Rows of `moiety ps -o json` of all nodes that answered."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """By node, why its agent did not answer."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """What this user's rights leave out (pods, claims, gpus, units, received), in sentences."""
    units: Sequence[NodeUnits] = ()
    """What nodes offer as units, in a cluster without slices."""


def held(claim: Object) -> list[HeldPart]:
    """The parts of moiety's GPUs that a claim has."""
    devices = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
    found = []
    for each in devices.get("results") or []:
        if each.get("driver") != DRIVER:
            continue
        consumed = each.get("consumedCapacity") or {}
        percent = int(quantity.parse(str(consumed.get("compute", WHOLE))))
        memory = quantity.parse_bytes(str(consumed.get("memory", 0)))
        found.append(HeldPart(each["pool"], each["device"], each["request"], percent, memory))
    return found


def gpus(seen: ClusterObjects) -> list[ClusterGpuRow]:
    """Every GPU, with its promised time and memory."""
    promised: dict[tuple[str, str], list[HeldPart]] = {}
    for claim in seen.claims:
        for one in held(claim):
            promised.setdefault((one.node, one.device), []).append(one)
    found = []
    for each in seen.slices:
        spec = each.get("spec") or {}
        if spec.get("driver") != DRIVER:
            continue
        node = (spec.get("pool") or {}).get("name", "")
        for device in spec.get("devices") or []:
            taken = promised.get((node, device["name"]), [])
            size = cluster_gpus.memory_bytes(device) or 0
            grown_bytes = size - (cluster_gpus.offered_bytes(device) or 0)
            found.append(
                ClusterGpuRow(
                    node,
                    device["name"],
                    ((device.get("attributes") or {}).get("productName") or {}).get("string", ""),
                    size,
                    _grown_percent(device) + sum(h.percent for h in taken),
                    grown_bytes + sum(h.memory_bytes for h in taken),
                    len(taken),
                    ", ".join(t["key"] for t in device.get("taints") or []),
                )
            )
    return sorted(found, key=lambda row: (row.node, row.device))


def pods(seen: ClusterObjects) -> list[PodRow]:
    """Every pod that has or waits for a share, and has not ended."""
    claims = {_key(claim): claim for claim in seen.claims}
    found = []
    for pod in seen.pods:
        row = pod_row(pod, claims, seen.processes)
        if row is not None and row.phase not in ENDED:
            found.append(row)
    return sorted(found, key=lambda row: (row.namespace, row.name))


def pod_row(
    pod: Object, claims: Mapping[tuple[str, str], Object], processes: Iterable[Object] = ()
) -> PodRow | None:
    """One pod; None if it has no share and asks for none."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    namespace = metadata.get("namespace", "default")
    own = [claims[key] for key in claim_keys(pod) if key in claims]
    ours = [claim for claim in own if held(claim) or _wants(claim)]
    asked = understood(pod)
    units = units_of(pod)
    if not ours and not asked and not units:
        return None
    gpus_of = tuple(dict.fromkeys(each.device for claim in ours for each in held(claim)))
    said = {name: str(share) for name, share in asked.items()}
    for name, number in units.items():
        said.setdefault(name, number)
    for claim in ours if not said else ():
        said[claim["metadata"]["name"]] = _claimed(claim)
    if wish := (metadata.get("annotations") or {}).get(names.RESIZE, "").strip():
        said = {name: f"{text}; resize to {wish}" for name, text in said.items()}
    uids = tuple(str(claim["metadata"].get("uid", "")) for claim in ours)
    rows = [each for each in processes if _is_of(each, str(metadata.get("uid", "")), uids)]
    return PodRow(
        namespace,
        metadata["name"],
        str(metadata.get("uid", "")),
        status.get("phase", "Pending"),
        (pod.get("spec") or {}).get("nodeName", ""),
        gpus_of,
        said,
        uids,
        sum(float(each.get("received") or 0) for each in rows) if rows else None,
        sum(int(each.get("allocated_bytes") or 0) for each in rows) if rows else None,
    )


def understood(pod: Object) -> dict[str, Share]:
    """The request of each container as the webhook read it; empty if the webhook did not see it."""
    text = (pod["metadata"].get("annotations") or {}).get(names.ASKED)
    if not text:
        return {}
    try:
        documents = msgspec.json.decode(text)
        return {name: share_config.decode(each) for name, each in documents.items()}
    except (msgspec.DecodeError, MoietyError, AttributeError):
        return {}


def units_of(pod: Object) -> dict[str, str]:
    """The units of moiety's resources that each container asks for: `50 of moiety.dev/gpu`."""
    found = {}
    for each in containers(pod):
        limits = (each.get("resources") or {}).get("limits") or {}
        for key, number in limits.items():
            if key.startswith(names.PREFIX):
                found[each["name"]] = f"{number} of {key}"
    return found


def claim_keys(pod: Object) -> list[tuple[str, str]]:
    """Namespace and name of each claim of a pod that is known by name already."""
    namespace = pod["metadata"].get("namespace", "default")
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    found = [
        each["resourceClaimName"]
        for each in [
            *(spec.get("resourceClaims") or []),
            *(status.get("resourceClaimStatuses") or []),
        ]
        if each.get("resourceClaimName")
    ]
    extended = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    return [(namespace, name) for name in dict.fromkeys([*found, *([extended] * bool(extended))])]


def requests(claim: Object) -> list[Object]:
    """A claim's requests of moiety's class: exact requests, and the first of alternatives."""
    found = []
    for each in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or []:
        exact: Object = each.get("exactly") or next(iter(each.get("firstAvailable") or []), {})
        if exact.get("deviceClassName") == DRIVER:
            found.append(exact)
    return found


def wants(request: Object) -> tuple[int, int]:
    """Percent of a GPU's time and bytes of its memory that a request consumes."""
    asked = (request.get("capacity") or {}).get("requests") or {}
    percent = int(quantity.parse(str(asked.get("compute", WHOLE))))
    return percent, quantity.parse_bytes(str(asked.get("memory", 0)))


def _wants(claim: Object) -> bool:
    return bool(requests(claim))


def _claimed(claim: Object) -> str:
    parts = []
    for request in requests(claim):
        percent, memory = wants(request)
        parts.append(f"{percent} %" + (f", {quantity.format_bytes(memory)}" if memory else ""))
    return "; ".join(parts) or "-"


def _grown_percent(device: Object) -> int:
    """The time of a GPU that shares have beyond what their claims consume."""
    value = ((device.get("capacity") or {}).get(COMPUTE) or {}).get("value", str(WHOLE))
    return WHOLE - int(quantity.parse(str(value)))


def _is_of(process: Object, uid: str, claims: Sequence[str]) -> bool:
    pod = str(process.get("pod") or "").replace("_", "-")
    workload = str(process.get("workload") or "")
    return pod == uid or any(uid and workload.startswith(f"k8s-{uid}") for uid in claims)


def _key(found: Object) -> tuple[str, str]:
    return found["metadata"].get("namespace", "default"), found["metadata"]["name"]
