"""Moiety's resources among a container's limits: whole GPUs, or percent of one.

`moiety.dev/gpu: 2` is two whole GPUs and `moiety.dev/gpu-percent: 50` half of one, in each cluster.
A cluster's nodes have one of the two; the webhook translates the other one.
"""

from __future__ import annotations

from typing import Final

from moiety.kube.dialects.moiety import GPUS_MOST
from moiety.kube.dialects.request import (
    ContainerRequest,
    GpuRequest,
    Pod,
    RequestRefused,
    WebhookConfig,
    count,
    resources,
    share,
)
from moiety.kube.model import names
from moiety.kube.model.pod_spec import containers
from moiety.kube.model.quantity import WHOLE

KEYS: Final = (names.GPU, names.PERCENT)


def read(pod: Pod, config: WebhookConfig) -> list[ContainerRequest]:
    """The requests in resources that no node has; raises RequestRefused for what cannot be."""
    found = []
    for container in containers(pod):
        where = f"container {container['name']}"
        said = {k: t for k, t in resources(container).items() if k.startswith(names.PREFIX)}
        numbers = {key: _number(where, key, text, config) for key, text in said.items()}
        asked = [key for key in KEYS if numbers.get(key)]
        if len(asked) > 1:
            raise RequestRefused(f"{where} asks for {' and '.join(asked)}; one of them")
        for key in asked:
            if key not in config.units:
                request = _request(f"{where}: {key}", key, numbers[key])
                found.append(ContainerRequest(container["name"], request, (key,)))
    return found


def part_instead(number: int) -> str:
    """How to write a number that was meant as percent; empty if it is no percentage."""
    if number > WHOLE:
        return ""
    return (
        f"; {number} % of one GPU is {names.PERCENT}: {number} among the limits, or the annotation "
        f'{names.GPU}: "{number / WHOLE:g}"'
    )


def warnings(pod: Pod, config: WebhookConfig) -> list[str]:
    """What to tell authors of manifests for units, which had the name of whole GPUs."""
    if names.GPU in config.units:
        return []
    numbers = [
        int(text)
        for container in containers(pod)
        for key, text in resources(container).items()
        if key == names.GPU and text.isdecimal() and int(text)
    ]
    return [
        f"moiety: {names.GPU}: {number} is {number} whole GPU(s){part_instead(number)}"
        for number in numbers
    ]


def _number(where: str, key: str, text: str, config: WebhookConfig) -> int:
    if key not in (*KEYS, *config.units):
        there = ", ".join(dict.fromkeys((*KEYS, *config.units)))
        raise RequestRefused(f"{where}: no node has a resource {key}; there are {there}")
    number = count(f"{where}: {key}", text)
    if key == names.GPU and number > GPUS_MOST:
        raise RequestRefused(
            f"{where}: {key}: {number} is {number} whole GPUs, and a container may have at most "
            f"{GPUS_MOST}{part_instead(number)}"
        )
    if key == names.PERCENT and number > WHOLE:
        raise RequestRefused(
            f"{where}: {key}: {number} is more than one GPU, which is {WHOLE}; whole GPUs are "
            f"{names.GPU}: 2, and parts of several the annotations {names.GPUS} and {names.GPU}"
        )
    return number


def _request(where: str, key: str, number: int) -> GpuRequest:
    if key == names.GPU:
        return GpuRequest(share(where, gpu=1.0), number)
    return GpuRequest(share(where, gpu=number / WHOLE))
