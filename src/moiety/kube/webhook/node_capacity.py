"""Refuses pods that no node of the cluster can hold: they would wait for ever. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from moiety.kube.cluster_gpus import Fleet
from moiety.kube.dialects import gpu_limits
from moiety.kube.dialects.request import (
    GpuRequest,
    Pod,
    RequestRefused,
    WebhookConfig,
    count,
    resources,
)
from moiety.kube.dialects.resolve import PodRequest
from moiety.kube.model import names
from moiety.kube.model.pod_spec import containers
from moiety.kube.model.quantity import WHOLE
from moiety.kube.templates import percent

ANY: Final = GpuRequest()


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """The largest nodes, where ResourceSlices do not say it."""

    offered: Mapping[str, int] = field(default_factory=dict)
    """The largest amount of each of moiety's resources on a node; empty: claims are given."""
    gpus_per_node: int = 0
    """GPUs of the largest node that can be added; 0: only present nodes count."""

    def most_gpus(self, gpu_request: GpuRequest, fleet: Fleet) -> int:
        """The most GPUs of one node that fit a request; 0 if no node is known."""
        offered = self.offered.get(names.PERCENT, 0) // WHOLE
        if not offered and not fleet.nodes:
            return 0
        return max(offered, fleet.most(gpu_request), self.gpus_per_node)


def check(
    pod: Pod,
    pod_request: PodRequest | None,
    config: WebhookConfig,
    fleet: Fleet,
    nodes: NodeCapacity,
) -> None:
    """Raises RequestRefused if no node has what a pod asks for; an unknown cluster has all."""
    for container in containers(pod):
        for key, text in resources(container).items():
            where = f"container {container['name']}: {key}"
            if key in config.units:
                _check_resource(where, key, count(where, text), fleet, nodes)
    if pod_request is None:
        return
    for name, gpu_request in pod_request.by_container.items():
        most = nodes.most_gpus(gpu_request, fleet)
        if most and gpu_request.gpus > most:
            raise RequestRefused(
                f"container {name} asks for {gpu_request.gpus} GPUs of one node, and no node has "
                f"more than {most}{' that fit' if _chooses(gpu_request) else ''}"
                f"{_was_percent(pod, name)}"
            )
    _check_together(pod, pod_request, nodes.most_gpus(ANY, fleet))


def _check_resource(where: str, key: str, number: int, fleet: Fleet, nodes: NodeCapacity) -> None:
    if key == names.GPU:
        most = nodes.most_gpus(ANY, fleet)
        if most and number > most:
            raise RequestRefused(
                f"{where}: {number} is {number} whole GPUs, and no node has more than {most}"
                f"{gpu_limits.part_instead(number)}"
            )
    elif number > (most := nodes.offered.get(key, number)):
        raise RequestRefused(f"{where}: {number} is more than the {most} of the largest node")


def _check_together(pod: Pod, pod_request: PodRequest, most: int) -> None:
    """Refuse a pod whose containers, which run at the same time, want more time than a node has."""
    shared: set[GpuRequest] = set()
    total = 0
    for name in _running(pod):
        gpu_request = pod_request.by_container.get(name)
        if gpu_request is None or gpu_request in shared:
            continue
        if name in pod_request.together:
            shared.add(gpu_request)
        total += percent(gpu_request.share) * gpu_request.gpus
    if most and total > most * WHOLE:
        raise RequestRefused(
            f"its containers ask for {total} % of GPUs together, and no node has more than {most} "
            "GPU(s)"
        )


def _running(pod: Pod) -> list[str]:
    """Containers that run at the same time: all but those that end before the others start."""
    spec = pod.get("spec") or {}
    beside = [
        each for each in spec.get("initContainers") or [] if each.get("restartPolicy") == "Always"
    ]
    return [str(each["name"]) for each in [*beside, *(spec.get("containers") or [])]]


def _chooses(gpu_request: GpuRequest) -> bool:
    return bool(gpu_request.models or gpu_request.share.memory_bytes)


def _was_percent(pod: Pod, name: str) -> str:
    """What to write instead, if a container's limits have a number of whole GPUs."""
    for container in containers(pod):
        number = resources(container).get(names.GPU, "")
        if container["name"] == name and number.isdecimal():
            return gpu_limits.part_instead(int(number))
    return ""
