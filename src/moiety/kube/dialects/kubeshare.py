"""KubeShare's dialect: labels (or annotations) `sharedgpu/gpu_request`, `gpu_limit`, `gpu_mem` ...

`gpu_mem` is in bytes, and both request and limit, because KubeShare never gave memory twice. A
limit above 1 means whole GPUs, and then request and limit are the same whole number. Priority 0 is
its opportunistic class, which is low in moiety; 1 to 100 are normal.
"""

from __future__ import annotations

from typing import Any, Final

from moiety.kube.dialects.request import (
    ContainerRequest,
    GpuRequest,
    Pod,
    RequestRefused,
    WebhookConfig,
    count,
    default_container,
    labels,
    notes,
    number,
    share,
)
from moiety.model.share import Priority

PREFIX: Final = "sharedgpu/"
REQUEST, LIMIT = "sharedgpu/gpu_request", "sharedgpu/gpu_limit"
MEMORY, MODEL = "sharedgpu/gpu_mem", "sharedgpu/gpu_model"
PRIORITY: Final = "sharedgpu/priority"
GROUP: Final = ("sharedgpu/group_name", "sharedgpu/group_headcount", "sharedgpu/group_threshold")
RESULTS: Final = ("sharedgpu/gpu_uuid", "sharedgpu/gpu_manager_port", "sharedgpu/cell_id")
KNOWN: Final = (REQUEST, LIMIT, MEMORY, MODEL, PRIORITY, *GROUP, *RESULTS)


def read(pod: Pod, _config: WebhookConfig) -> list[ContainerRequest]:
    """The requests of a pod in KubeShare's words; raises RequestRefused."""
    said: dict[str, str] = {}
    for where in (labels(pod), notes(pod)):
        for key, text in where.items():
            if not key.startswith(PREFIX):
                continue
            if key not in KNOWN:
                raise RequestRefused(f"KubeShare has no {key}; it has {', '.join(KNOWN[:5])}")
            if said.setdefault(key, text) != text:
                raise RequestRefused(
                    f"{key} is {said[key]!r} as a label and {text!r} as an annotation"
                )
    asked = {key: text for key, text in said.items() if key not in RESULTS}
    if not asked:
        return []
    if count(GROUP[1], asked.get(GROUP[1], "1")) > 1:
        raise RequestRefused(
            f"{GROUP[1]}: groups of pods that start together are not scheduled here; without the "
            f"{GROUP[0]} labels each pod is placed by itself"
        )
    if LIMIT not in asked:
        raise RequestRefused(f"{LIMIT} is missing, which KubeShare wants beside {', '.join(asked)}")
    return [ContainerRequest(default_container(pod), _gpu_request(asked), tuple(asked))]


def _gpu_request(asked: dict[str, str]) -> GpuRequest:
    limit = number(LIMIT, asked[LIMIT])
    request = number(REQUEST, asked[REQUEST]) if REQUEST in asked else limit * 0
    models = (asked[MODEL],) if asked.get(MODEL) else ()
    if limit <= 0 or request < 0 or request > limit:
        raise RequestRefused(
            f"{REQUEST} {asked.get(REQUEST, '0')} and {LIMIT} {asked[LIMIT]}: the limit has to be "
            "above 0, and the request at most the limit"
        )
    fields: dict[str, Any] = {}
    gpus = 1
    if limit > 1:
        if limit.denominator != 1 or request not in (0, limit):
            raise RequestRefused(
                f"{LIMIT}: {asked[LIMIT]} is more than one GPU, and then request and limit are the "
                "same whole number"
            )
        gpus = int(limit)
        fields["gpu"] = 1.0
    else:
        fields["gpu_limit"] = float(limit)
        if request:
            fields["gpu"] = float(request)
    if text := asked.get(MEMORY):
        kept = count(MEMORY, text)
        if kept:
            fields |= {"memory_bytes": kept, "memory_limit_bytes": kept}
    if text := asked.get(PRIORITY):
        level = count(PRIORITY, text)
        if level > 100:
            raise RequestRefused(f"{PRIORITY}: {level} is not from 0 to 100")
        fields["priority"] = Priority.NORMAL if level else Priority.LOW
    return GpuRequest(share(", ".join(asked), **fields), gpus, models)
