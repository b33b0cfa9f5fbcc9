"""What claims and pods are promised, one share for each GPU, to add up a namespace. Pure.

An allocated claim counts with what it consumes, another one with what it asks for. A pod with units
counts with its units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from moiety.kube.model import names, quantity, share_config
from moiety.kube.model.pod_spec import ENDED, at_once
from moiety.kube.model.quantity import WHOLE
from moiety.kube.model.share_config import DRIVER
from moiety.kube.resource_slices import COMPUTE, MEMORY
from moiety.model.errors import MoietyError
from moiety.model.share import NOTHING_ASKED, Share

COUNT_MOST: Final = 128
"""More devices than a claim can have."""


def is_allocated(claim: Mapping[str, Any]) -> bool:
    """Whether the scheduler has chosen devices for a claim."""
    return bool((claim.get("status") or {}).get("allocation"))


def of_claim(claim: Mapping[str, Any]) -> list[Share]:
    """The promises of a claim; those of other drivers are left out."""
    return of_allocated(claim) if is_allocated(claim) else of_spec(claim.get("spec") or {})


def of_allocated(claim: Mapping[str, Any], request: str = "") -> list[Share]:
    """The promises of an allocated claim; with `request`, of one of its requests."""
    devices = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
    return [
        _share(each.get("consumedCapacity") or {})
        for each in devices.get("results") or []
        if each.get("driver") == DRIVER
        and request in ("", str(each.get("request") or "").partition("/")[0])
    ]


def of_spec(spec: Mapping[str, Any]) -> list[Share]:
    """The promises that the spec of a claim asks for in moiety's own class.

    Of several alternatives the largest counts, as it may be chosen.
    """
    found: list[Share] = []
    for request in (spec.get("devices") or {}).get("requests") or []:
        choices = [request["exactly"]] if request.get("exactly") else request.get("firstAvailable")
        shares = [_of_choice(each) for each in choices or []]
        largest: list[Share] = max(shares, key=_size, default=[])
        found += largest
    return found


def classes_of(spec: Mapping[str, Any]) -> list[Share]:
    """The priorities and latency classes in moiety's parameters of a claim.

    Parameters that cannot be read are left out: they are refused elsewhere.
    """
    found = []
    for config in (spec.get("devices") or {}).get("config") or []:
        opaque = config.get("opaque") or {}
        if opaque.get("driver") == DRIVER:
            try:
                share = share_config.decode(opaque.get("parameters") or {})
            except MoietyError:
                continue
            found.append(Share(priority=share.priority, latency=share.latency))
    return found


def of_pod_units(pod: Mapping[str, Any]) -> list[Share]:
    """The promises of a pod's whole GPUs and units; none of a pod that has ended.

    An init container and the containers after it have the same ones, one after the other. Memory
    counts as the webhook understood the pod. Whole GPUs of the same resource that the scheduler
    gives as a claim do not count here.
    """
    status = pod.get("status") or {}
    if status.get("phase") in ENDED or status.get("extendedResourceClaimStatus"):
        return []
    found = of_units(at_once(pod, _of_limits).get(names.PERCENT, 0))
    return found + _kept(pod) if found else []


def of_pods(pods: Iterable[Mapping[str, Any]], *, without: str = "") -> list[Share]:
    """The promises of the units of pods, beside the pod with the UID `without`."""
    return [
        share for each in pods if each["metadata"]["uid"] != without for share in of_pod_units(each)
    ]


def of_units(count: int) -> list[Share]:
    """The promises of units: whole GPUs, and the rest of one."""
    whole, rest = divmod(max(0, count), WHOLE)
    found = [Share(gpu=1.0)] * min(whole, COUNT_MOST)
    return [*found, Share(gpu=rest / WHOLE)] if rest else found


def _kept(pod: Mapping[str, Any]) -> list[Share]:
    """The memory that containers with units asked to keep."""
    text = ((pod.get("metadata") or {}).get("annotations") or {}).get(names.ASKED)
    try:
        asked = msgspec.json.decode(text, type=dict[str, Any]) if text else {}
        sizes = {name: share_config.decode(each).memory_bytes for name, each in asked.items()}
    except (MoietyError, msgspec.MsgspecError):
        return []
    kept = at_once(pod, lambda each: {names.MEMORY: sizes.get(each["name"], 0)})[names.MEMORY]
    return [Share(memory_bytes=kept)] if kept else []


def _of_choice(choice: Mapping[str, Any]) -> list[Share]:
    if choice.get("deviceClassName") != DRIVER:
        return []
    capacity = (choice.get("capacity") or {}).get("requests") or {}
    count = choice.get("count")
    number = count if isinstance(count, int) and count > 0 else 1
    return [_share(capacity)] * min(number, COUNT_MOST)


def _share(capacity: Mapping[str, Any]) -> Share:
    """A share with the capacities of one device; the usual ones where it does not say them."""
    try:
        part = float(quantity.parse(str(capacity.get(COMPUTE, WHOLE)))) / WHOLE
        size = quantity.parse_bytes(str(capacity.get(MEMORY, 0)))
    except quantity.InvalidQuantity:
        return Share(gpu=1.0)  # the API server admits no such capacity
    if part <= 0:
        return Share(memory_bytes=size) if size else NOTHING_ASKED
    return Share(gpu=min(1.0, part), memory_bytes=size)


def _size(shares: Iterable[Share]) -> tuple[float, int]:
    found = list(shares)
    return sum(each.gpu or 0.0 for each in found), sum(each.memory_bytes for each in found)


def _of_limits(container: Mapping[str, Any]) -> dict[str, int]:
    """The units of a container, as whole GPUs have them as well."""
    limits = (container.get("resources") or {}).get("limits") or {}
    units = 0
    for key, text in limits.items():
        if key.startswith(names.PREFIX):
            try:
                number = quantity.parse_count(str(text))
            except quantity.InvalidQuantity:
                continue  # the API server admits no part of a unit
            units += number * WHOLE if key == names.GPU else number
    return {names.PERCENT: units}
