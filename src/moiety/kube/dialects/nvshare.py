"""nvshare's dialect: `nvshare.com/gpu: 1` among a container's limits.

In nvshare, ten such pods share a GPU, each with all of its memory, in turns. In moiety, such a pod
gets a tenth of the GPU's time guaranteed, all of it when no other pod wants it, and all of the
memory.
"""

from __future__ import annotations

from typing import Final

from moiety.kube.dialects.request import (
    ContainerRequest,
    GpuRequest,
    Pod,
    RequestRefused,
    WebhookConfig,
    count,
    resources,
)
from moiety.kube.model.pod_spec import containers
from moiety.model.share import Share

PREFIX: Final = "nvshare.com/"
RESOURCE: Final = "nvshare.com/gpu"
GPU_REQUEST: Final = GpuRequest(Share(gpu=0.1))


def read(pod: Pod, _config: WebhookConfig) -> list[ContainerRequest]:
    """The requests of a pod in nvshare's words; raises RequestRefused."""
    found = []
    for container in containers(pod):
        name = container["name"]
        for key, text in resources(container).items():
            if not key.startswith(PREFIX):
                continue
            if key != RESOURCE:
                raise RequestRefused(
                    f"container {name}: nvshare has no resource {key}, only {RESOURCE}"
                )
            number = count(f"container {name}: {key}", text)
            if number > 1:
                raise RequestRefused(
                    f"container {name}: {key}: {number} is more than the 1 that a container could "
                    "have with nvshare; several GPUs are annotations moiety.dev/gpus and "
                    "moiety.dev/gpu"
                )
            if number:
                found.append(ContainerRequest(name, GPU_REQUEST, (key,)))
    return found
