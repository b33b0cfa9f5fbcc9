"""Moiety's dialect: annotations `moiety.dev/gpu: "0.5"`, `moiety.dev/memory: 20Gi` and the like.

A pod may name one of the cluster's sizes (`moiety.dev/template: small`); its own annotations
override those of the size.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from moiety.kube.dialects.request import (
    ContainerRequest,
    GpuRequest,
    Pod,
    RequestRefused,
    WebhookConfig,
    count,
    default_container,
    memory,
    notes,
    part,
    share,
)
from moiety.kube.model import names
from moiety.kube.model.pod_spec import containers
from moiety.model.errors import InvalidValue
from moiety.model.share import parse_mode, parse_priority

AMOUNTS: Final = (names.GPU, names.MEMORY)
IN_SIZES: Final = tuple(
    key.removeprefix(names.PREFIX)
    for key in names.ASKS
    if key not in (names.TEMPLATE, names.CONTAINER)
)
KNOWN: Final = (*names.ASKS, names.RESIZE, *names.OURS)
GPUS_MOST: Final = 16


def read(pod: Pod, config: WebhookConfig) -> list[ContainerRequest]:
    """The requests of a pod in moiety's annotations; raises RequestRefused."""
    said = {key: text for key, text in notes(pod).items() if key.startswith(names.PREFIX)}
    for key in said:
        if key not in KNOWN:
            near = difflib.get_close_matches(key, names.ASKS, n=1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(names.ASKS)}"
            raise RequestRefused(f"there is no annotation {key}; {meant}")
    asked = {key: text for key, text in said.items() if key in names.ASKS}
    if not asked:
        return []
    gpu_request = _gpu_request(asked, config)
    return [
        ContainerRequest(name, gpu_request, tuple(asked))
        for name in _who(pod, asked.get(names.CONTAINER))
    ]


def _gpu_request(asked: Mapping[str, str], config: WebhookConfig) -> GpuRequest:
    values = dict(asked)
    if size := values.pop(names.TEMPLATE, None):
        values = size_of(size, config) | values
    values.pop(names.CONTAINER, None)
    if not any(key in values for key in AMOUNTS):
        raise RequestRefused(
            f"{', '.join(values)} says how, and nothing says how much; add {names.GPU} (a part of "
            f"a GPU, 0.5) or {names.MEMORY} (20Gi)"
        )
    return gpu_request_of(values)


def gpu_request_of(values: Mapping[str, str]) -> GpuRequest:
    """The request in moiety's annotations; raises RequestRefused."""
    fields: dict[str, Any] = {}
    if text := values.get(names.GPU):
        fields["gpu"] = part(names.GPU, text)
    if text := values.get(names.GPU_LIMIT):
        fields["gpu_limit"] = part(names.GPU_LIMIT, text)
    if text := values.get(names.MEMORY):
        fields["memory_bytes"] = memory(names.MEMORY, text)
    if text := values.get(names.MEMORY_LIMIT):
        fields["memory_limit_bytes"] = memory(names.MEMORY_LIMIT, text)
    if text := values.get(names.LATENCY):
        if text not in ("true", "false"):
            raise RequestRefused(f'{names.LATENCY}: {text!r} is neither "true" nor "false"')
        fields["latency"] = text == "true"
    try:
        if text := values.get(names.PRIORITY):
            fields["priority"] = parse_priority(text)
        if text := values.get(names.MODE):
            fields["mode"] = parse_mode(text)
    except InvalidValue as error:
        raise RequestRefused(f"{error.what}; {error.hint}") from None
    for key, text in values.items():
        if not text.strip():
            raise RequestRefused(f"{key} is empty")
    gpus = count(names.GPUS, values[names.GPUS]) if names.GPUS in values else 1
    if not 1 <= gpus <= GPUS_MOST:
        raise RequestRefused(f"{names.GPUS}: {gpus} is not from 1 to {GPUS_MOST}")
    models = tuple(each.strip() for each in values.get(names.MODEL, "").split(",") if each.strip())
    return GpuRequest(share(", ".join(values), **fields), gpus, models)


def size_of(name: str, config: WebhookConfig) -> dict[str, str]:
    """One of the cluster's sizes, as annotations; raises RequestRefused."""
    if name not in config.sizes:
        known = ", ".join(sorted(config.sizes)) or "none: the cluster has no sizes"
        raise RequestRefused(f"{names.TEMPLATE}: there is no size {name!r}; there are {known}")
    return {f"{names.PREFIX}{key}": text for key, text in config.sizes[name].items()}


def _who(pod: Pod, named: str | None) -> list[str]:
    if named is None:
        return [default_container(pod)]
    there = [each["name"] for each in containers(pod)]
    found = list(dict.fromkeys(each.strip() for each in named.split(",") if each.strip()))
    for each in found:
        if each not in there:
            raise RequestRefused(
                f"{names.CONTAINER} names {each!r}, and the pod has {', '.join(there)}"
            )
    if not found:
        raise RequestRefused(f"{names.CONTAINER} is empty")
    return found
