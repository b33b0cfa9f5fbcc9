"""Run:ai's and KAI's dialect: `gpu-fraction`, `gpu-memory`, `gpu-fraction-num-devices`.

A fraction is of a GPU's memory, as request and limit, and guarantees the same part of its time,
without a limit. `gpu-memory` is in MiB and guarantees no time.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from moiety.kube.dialects.hami import WHOLE
from moiety.kube.dialects.request import (
    MIB,
    ContainerRequest,
    GpuRequest,
    Pod,
    RequestRefused,
    WebhookConfig,
    count,
    default_container,
    notes,
    number,
    resources,
    share,
)
from moiety.kube.model.pod_spec import containers

FRACTION: Final = "gpu-fraction"
MEMORY: Final = "gpu-memory"
DEVICES: Final = "gpu-fraction-num-devices"
CONTAINER: Final = "gpu-fraction-container-name"
KEYS: Final = (FRACTION, MEMORY, DEVICES, CONTAINER)


def read(pod: Pod, _config: WebhookConfig) -> list[ContainerRequest]:
    """The requests of a pod in Run:ai's or KAI's words; raises RequestRefused."""
    said = {key: text for key, text in notes(pod).items() if key in KEYS}
    if not said:
        return []
    if (FRACTION in said) == (MEMORY in said):
        if FRACTION not in said:
            raise RequestRefused(f"{', '.join(said)} says nothing without {FRACTION} or {MEMORY}")
        raise RequestRefused(f"{FRACTION} and {MEMORY} both say how much memory; one of them")
    for container in containers(pod):
        if WHOLE in resources(container):
            raise RequestRefused(
                f"container {container['name']} asks for whole GPUs ({WHOLE}), and the pod for "
                f"parts ({FRACTION if FRACTION in said else MEMORY})"
            )
    gpus = count(DEVICES, said.get(DEVICES, "1"))
    if not gpus:
        raise RequestRefused(f"{DEVICES}: 0 is no number of GPUs")
    there = [each["name"] for each in containers(pod)]
    name = said.get(CONTAINER) or default_container(pod)
    if name not in there:
        raise RequestRefused(f"{CONTAINER} names {name!r}, and the pod has {', '.join(there)}")
    if FRACTION in said:
        part = number(FRACTION, said[FRACTION])
        if not 0 < part <= 1:
            raise RequestRefused(f"{FRACTION}: {said[FRACTION]!r} is not above 0 and at most 1")
        part = Fraction(part)
        gpu_request = GpuRequest(share(FRACTION, gpu=float(part)), gpus, memory_part=part)
    else:
        kept = count(MEMORY, said[MEMORY]) * MIB
        if not kept:
            raise RequestRefused(f"{MEMORY}: 0 is no memory")
        gpu_request = GpuRequest(share(MEMORY, memory_bytes=kept, memory_limit_bytes=kept), gpus)
    return [ContainerRequest(name, gpu_request, tuple(said))]
