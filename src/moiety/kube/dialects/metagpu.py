"""MetaGPU's dialect: units of `cnvrg.io/metagpu` among a container's limits, usually 100 to a GPU.

A unit is a hundredth of a GPU's memory, as the limit, because MetaGPU enforced it. In moiety it
also guarantees a hundredth of the time. More units than a GPU has are whole GPUs.
"""

from __future__ import annotations

from fractions import Fraction

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
from moiety.kube.model.pod_spec import containers


def read(pod: Pod, config: WebhookConfig) -> list[ContainerRequest]:
    """The requests of a pod in MetaGPU's words; raises RequestRefused."""
    found = []
    for container in containers(pod):
        said = {k: v for k, v in resources(container).items() if k in config.metagpu_resources}
        where = f"container {container['name']}"
        if len(said) > 1:
            raise RequestRefused(f"{where} asks for {' and '.join(said)}; one of them")
        for key, text in said.items():
            units = count(f"{where}: {key}", text)
            if not units:
                continue
            gpus, rest = divmod(units, config.metagpu_units)
            if gpus and rest:
                raise RequestRefused(
                    f"{where}: {key}: {units} is more than the {config.metagpu_units} units of a "
                    "GPU, and then it has to be a multiple of them"
                )
            model = config.metagpu_resources[key]
            models = (model,) if model else ()
            part = Fraction(1 if gpus else Fraction(rest, config.metagpu_units))
            gpu_request = GpuRequest(share(where, gpu=float(part)), gpus or 1, models, part)
            found.append(ContainerRequest(container["name"], gpu_request, (key,)))
    return found
