"""Joins all dialects of one pod: the request of each container, or the reason of a refusal."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from moiety.kube.dialects import gpu_limits, hami, kai, kubeshare, metagpu, moiety, nvshare
from moiety.kube.dialects.moiety import GPUS_MOST
from moiety.kube.dialects.request import (
    SPELLINGS,
    ContainerRequest,
    GpuRequest,
    Pod,
    RequestRefused,
    WebhookConfig,
    resources,
)
from moiety.kube.model.pod_spec import containers

READERS: Final[Mapping[str, Callable[[Pod, WebhookConfig], list[ContainerRequest]]]] = {
    "moiety": moiety.read,
    "nvshare": nvshare.read,
    "kubeshare": kubeshare.read,
    "hami": hami.read,
    "kai": kai.read,
    "metagpu": metagpu.read,
}
SCHEDULERS: Final = frozenset(
    {"hami-scheduler", "kai-scheduler", "kubeshare-scheduler", "runai-scheduler"}
)
"""Schedulers of systems with a dialect here. A pod that asks for one waits while it is away."""


@dataclass(frozen=True, slots=True)
class PodRequest:
    """The requests of a pod, by container."""

    by_container: Mapping[str, GpuRequest]
    """Requests in the pod's order; equal requests in moiety's annotations have one share."""
    together: frozenset[str] = frozenset()
    """Containers that have one share together."""
    resources: frozenset[str] = frozenset()
    """Resources that expressed the requests, and that no node has."""
    spellings: tuple[str, ...] = ()


def read(pod: Pod, config: WebhookConfig) -> PodRequest | None:
    """The requests of a pod; None if it asks for no share. Raises RequestRefused."""
    limits = gpu_limits.read(pod, config)
    found: dict[str, list[ContainerRequest]] = {}
    for spelling in config.spellings:
        requests = READERS[spelling](pod, config)
        if requests:
            found[spelling] = requests
    _no_units_beside(pod, found)
    if limits:
        found = {"limits": limits}
    if not found:
        return None
    merged: dict[str, ContainerRequest] = {}
    for requests in found.values():
        for request in requests:
            _agree(merged.setdefault(request.container, request), request)
    _same_containers(found)
    for name, request in merged.items():
        if (gpus := request.gpu_request.gpus) > GPUS_MOST:
            raise RequestRefused(
                f"container {name} asks for {gpus} GPUs ({', '.join(request.keys)}), and a "
                f"container may have at most {GPUS_MOST}"
            )
    order = [each["name"] for each in containers(pod)]
    keys = {key for requests in found.values() for request in requests for key in request.keys}
    together = {request.container for request in found.get("moiety", [])}
    return PodRequest(
        {name: merged[name].gpu_request for name in order if name in merged},
        frozenset(together) | _shared_with_init(pod, merged),
        frozenset(key for key in keys if any(key in resources(c) for c in containers(pod))),
        tuple(found),
    )


def _agree(one: ContainerRequest, other: ContainerRequest) -> None:
    if one.gpu_request != other.gpu_request:
        raise RequestRefused(
            f"container {one.container} is asked for twice, and not the same: {', '.join(one.keys)}"
            f" says {one.gpu_request}; {', '.join(other.keys)} says {other.gpu_request}"
        )


def _same_containers(found: Mapping[str, list[ContainerRequest]]) -> None:
    """Refuse two dialects that name different containers of one pod."""
    who = {
        spelling: frozenset(w.container for w in requests) for spelling, requests in found.items()
    }
    if len(set(who.values())) > 1:
        said = "; ".join(f"{name}: {', '.join(sorted(of))}" for name, of in who.items())
        raise RequestRefused(
            f"the pod asks in {len(who)} spellings, for different containers ({said}); one of them"
        )


def unread(pod: Pod, config: WebhookConfig) -> list[str]:
    """The dialects in which a pod asks for a share, and that the settings leave out."""
    every = dataclasses.replace(config, spellings=SPELLINGS)
    return [each for each in SPELLINGS if each not in config.spellings and _asks(each, pod, every)]


def _asks(spelling: str, pod: Pod, config: WebhookConfig) -> bool:
    try:
        return bool(READERS[spelling](pod, config))
    except RequestRefused:
        return True


def _no_units_beside(pod: Pod, found: Mapping[str, list[ContainerRequest]]) -> None:
    """Refuse a resource of GPUs in a pod that asks for a share in another way, too."""
    if not found:
        return
    said = ", ".join(next(iter(found.values()))[0].keys)
    for container in containers(pod):
        asked = resources(container)
        read_here = {
            key
            for requests in found.values()
            for request in requests
            if request.container == container["name"]
            for key in request.keys
        }
        for key in asked:
            whole = key in (hami.WHOLE, *gpu_limits.KEYS) and asked[key] != "0"
            if whole and (key not in read_here or key in gpu_limits.KEYS):
                raise RequestRefused(
                    f"container {container['name']} asks for {key}: {asked[key]}, and the pod for "
                    f"a share as well ({said}); one of them"
                )


def _shared_with_init(pod: Pod, merged: Mapping[str, ContainerRequest]) -> set[str]:
    """Init containers, and later containers with the same request, whose share they use first."""
    spec = pod.get("spec") or {}
    regular = [each["name"] for each in spec.get("containers") or []]
    found: set[str] = set()
    for each in spec.get("initContainers") or []:
        if each["name"] not in merged or each.get("restartPolicy") == "Always":
            continue
        later = [
            n
            for n in regular
            if n in merged and merged[n].gpu_request == merged[each["name"]].gpu_request
        ]
        if later:
            found |= {each["name"], later[0]}
    return found
