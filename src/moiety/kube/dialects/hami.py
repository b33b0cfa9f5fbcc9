"""HAMi's dialect: `nvidia.com/gpu` with `gpumem`, `gpumem-percentage` or `gpucores` beside it.

`gpumem` is in MiB, and both request and limit. `gpucores` is percent of a GPU's time, and both
request and limit (0: no guarantee and no limit). A pod that says only `nvidia.com/gpu` wants whole
GPUs and is left alone, unless the cluster's settings say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from moiety.kube.dialects.request import (
    MIB,
    ContainerRequest,
    GpuRequest,
    Pod,
    RequestRefused,
    WebhookConfig,
    count,
    notes,
    resources,
    share,
)
from moiety.kube.model.pod_spec import containers
from moiety.model.share import Priority

WHOLE: Final = "nvidia.com/gpu"
MEMORY: Final = "nvidia.com/gpumem"
PERCENT: Final = "nvidia.com/gpumem-percentage"
CORES: Final = "nvidia.com/gpucores"
PRIORITY: Final = "nvidia.com/priority"
PARTS: Final = (MEMORY, PERCENT, CORES, PRIORITY)
USE_TYPE: Final = "nvidia.com/use-gputype"
NOT_HERE: Final = (
    "nvidia.com/nouse-gputype", "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid",
)  # fmt: skip


def read(pod: Pod, config: WebhookConfig) -> list[ContainerRequest]:
    """The requests of a pod in HAMi's words; raises RequestRefused."""
    found = []
    for container in containers(pod):
        said = {k: v for k, v in resources(container).items() if k in (WHOLE, *PARTS)}
        if not any(key in said for key in PARTS) and not (config.whole_gpus and WHOLE in said):
            continue
        gpu_request = _gpu_request(f"container {container['name']}", said, notes(pod))
        if gpu_request is not None:
            found.append(ContainerRequest(container["name"], gpu_request, tuple(said)))
    return found


def _gpu_request(
    where: str, said: Mapping[str, str], beside: Mapping[str, str]
) -> GpuRequest | None:
    for key in NOT_HERE:
        if beside.get(key):
            raise RequestRefused(
                f"{key} cannot be kept to by a share; {USE_TYPE}, or a claim with a selector, says "
                "which GPUs may be had"
            )
    numbers = {key: count(f"{where}: {key}", text) for key, text in said.items()}
    gpus = numbers.get(WHOLE, 1)
    if not gpus:
        return None
    if numbers.get(MEMORY) and numbers.get(PERCENT):
        raise RequestRefused(
            f"{where}: {MEMORY} and {PERCENT} both say how much memory; one of them"
        )
    for key in (PERCENT, CORES):
        if numbers.get(key, 0) > 100:
            raise RequestRefused(f"{where}: {key}: {numbers[key]} is more than 100 percent")
    fields: dict[str, Any] = {}
    if kept := numbers.get(MEMORY, 0) * MIB:
        fields |= {"memory_bytes": kept, "memory_limit_bytes": kept}
    if cores := numbers.get(CORES, 0):
        fields |= {"gpu": cores / 100, "gpu_limit": cores / 100}
    if PRIORITY in numbers:
        fields["priority"] = Priority.LOW if numbers[PRIORITY] else Priority.HIGH
    percent = numbers.get(PERCENT, 0)
    if not fields.keys() & {"memory_bytes", "gpu"} and not percent:
        fields["gpu"] = 1.0  # a pod that gives only a number of GPUs wants all of each
    models = tuple(each.strip() for each in beside.get(USE_TYPE, "").split(",") if each.strip())
    part = Fraction(percent, 100) if percent else None
    return GpuRequest(share(where, **fields), gpus, models, part)
