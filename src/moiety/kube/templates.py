"""A GPU request in the API: a ResourceClaimTemplate (by claims), or units of a resource. Pure.

A template's name is a hash of its content: pods with equal requests use the same template, it never
changes, and a process that finds the name need not read the content.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import Any, Final

import msgspec

from moiety.kube import cluster_gpus
from moiety.kube.cluster_gpus import Fleet
from moiety.kube.dialects.request import GpuRequest, RequestRefused
from moiety.kube.model import names, quantity, share_config
from moiety.kube.model.quantity import WHOLE
from moiety.kube.resource_slices import MEMORY_BYTES
from moiety.model.errors import MoietyError
from moiety.model.share import Share

REQUEST: Final = "gpu"
NAME_PREFIX: Final = "moiety-"
SIZES_MOST: Final = 8
"""The most alternatives of a request."""
UUID: Final = f"{share_config.DRIVER}/uuid"
LABELS: Final = {names.MANAGED_BY: "moiety"}


def percent(share: Share) -> int:
    """The part of a GPU's time that a share consumes, in whole percent, rounded up."""
    return 0 if share.gpu is None else math.ceil(round(share.gpu * WHOLE, 6))


def template(gpu_request: GpuRequest, cluster: Fleet) -> dict[str, Any]:
    """The ResourceClaimTemplate of a request, without a namespace. Raises RequestRefused."""
    cluster.check(gpu_request)
    spec = _spec(gpu_request, cluster)
    digest = hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()[:12]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": f"{NAME_PREFIX}{digest}", "labels": LABELS},
        "spec": {"metadata": {"labels": LABELS}, "spec": spec},
    }


def shares(gpu_request: GpuRequest, cluster: Fleet) -> list[tuple[int, Share]]:
    """The share of a request on GPUs of each size that fits it: (bytes of the GPU, share)."""
    if gpu_request.memory_part is None:
        return [(0, gpu_request.share)]
    return [(size, _of_size(gpu_request, size)) for size in cluster.sizes(gpu_request)[:SIZES_MOST]]


def units(gpu_request: GpuRequest, memory_bytes: int = 0) -> int:
    """How many units a request is: a unit is one percent of a GPU. Raises RequestRefused.

    `memory_bytes` is the memory of a GPU of this cluster: 0 if the settings do not give it.
    """
    share = gpu_request.share
    part = share.gpu or 0.0
    if gpu_request.memory_part is not None:
        part = max(part, float(gpu_request.memory_part))
    elif share.memory_bytes:
        if memory_bytes:
            part = max(part, share.memory_bytes / memory_bytes)
        elif not part:
            raise RequestRefused(
                "this cluster gives GPUs in units, and the pod says only how much memory; "
                f"{names.GPU} says how large a part of a GPU that is (or gpu-memory in the "
                "settings of the cluster, how much memory a GPU has)"
            )
    if part > 1:
        raise RequestRefused(f"{gpu_request}: more memory than a GPU of this cluster has")
    if gpu_request.models:
        raise RequestRefused(
            "this cluster gives GPUs in units, which do not say of which model; a resource of that "
            "model among the container's limits does"
        )
    number = max(1, math.ceil(round(part * WHOLE, 6))) * gpu_request.gpus
    if -(-number // WHOLE) != gpu_request.gpus:
        raise RequestRefused(
            f"this cluster gives GPUs in units, and {number} units are a share of "
            f"{-(-number // WHOLE)} GPU(s), never of {gpu_request.gpus}"
        )
    return number


def _of_size(gpu_request: GpuRequest, size: int) -> Share:
    """The share on a GPU with `size` bytes, for a request of a part of its memory."""
    assert gpu_request.memory_part is not None
    kept = int(size * gpu_request.memory_part)
    try:
        return dataclasses.replace(gpu_request.share, memory_bytes=kept, memory_limit_bytes=kept)
    except MoietyError as error:
        raise RequestRefused(error.what) from None


def _spec(gpu_request: GpuRequest, cluster: Fleet) -> dict[str, Any]:
    found = shares(gpu_request, cluster)
    request: dict[str, Any] = {"name": REQUEST}
    if len(found) == 1:
        request["exactly"] = _exactly(gpu_request, found[0][1], cluster)
        configs = [_config(REQUEST, found[0][1])]
    else:
        request["firstAvailable"] = [
            {"name": f"size-{number}", **_exactly(gpu_request, share, cluster, size)}
            for number, (size, share) in enumerate(found)
        ]
        configs = [
            _config(f"{REQUEST}/size-{number}", share) for number, (_, share) in enumerate(found)
        ]
    devices: dict[str, Any] = {"requests": [request], "config": configs}
    if gpu_request.gpus > 1:  # else one shared device could count several times
        devices["constraints"] = [{"requests": [REQUEST], "distinctAttribute": UUID}]
    return {"devices": devices}


def _exactly(
    gpu_request: GpuRequest, share: Share, cluster: Fleet, size: int = 0
) -> dict[str, Any]:
    selectors = []
    if gpu_request.models:
        known = cluster_gpus.models(gpu_request, cluster)
        selectors.append(_cel_models(known) if known else _cel_words(gpu_request.models))
    if size:
        selectors.append(_cel_size(size))
    found: dict[str, Any] = {
        "deviceClassName": share_config.DRIVER,
        "allocationMode": "ExactCount",
        "count": gpu_request.gpus,
        "capacity": {
            "requests": {
                "compute": str(percent(share)),
                "memory": quantity.format_bytes(share.memory_bytes),
            }
        },
    }
    if selectors:
        found["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    return found


def _cel_models(known: list[str]) -> str:
    quoted = ", ".join(_quoted(each) for each in known)
    return f'device.attributes["{share_config.DRIVER}"].productName in [{quoted}]'


def _cel_size(size: int) -> str:
    """The condition for a GPU of this size, also on a node of an earlier version."""
    total = f'device.attributes["{share_config.DRIVER}"].{MEMORY_BYTES}'
    capacity = f'device.capacity["{share_config.DRIVER}"].memory'
    return f'has({total}) ? {total} == {size} : {capacity}.compareTo(quantity("{size}")) == 0'


def _cel_words(words: tuple[str, ...]) -> str:
    """The condition while no GPU is known: the product name contains one of the words."""
    name = f'device.attributes["{share_config.DRIVER}"].productName.lowerAscii()'
    return " || ".join(f"{name}.contains({_quoted(each.lower())})" for each in words)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _config(request: str, share: Share) -> dict[str, Any]:
    parameters = share_config.encode(share)
    return {
        "requests": [request],
        "opaque": {"driver": share_config.DRIVER, "parameters": parameters},
    }
