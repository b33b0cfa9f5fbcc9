"""The names that moiety has in a cluster: annotations, labels, resources, objects."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "moiety.dev/"
NAMESPACE: Final = "moiety-system"

GPU: Final = "moiety.dev/gpu"
"""As an annotation: a part of a GPU's time. As a resource: a number of whole GPUs."""
PERCENT: Final = "moiety.dev/gpu-percent"
"""A resource: percent of one GPU's time."""
GPU_LIMIT: Final = "moiety.dev/gpu-limit"
MEMORY: Final = "moiety.dev/memory"
MEMORY_LIMIT: Final = "moiety.dev/memory-limit"
PRIORITY: Final = "moiety.dev/priority"
LATENCY: Final = "moiety.dev/latency"
MODE: Final = "moiety.dev/mode"
TEMPLATE: Final = "moiety.dev/template"
GPUS: Final = "moiety.dev/gpus"
MODEL: Final = "moiety.dev/model"
CONTAINER: Final = "moiety.dev/container"
RESIZE: Final = "moiety.dev/resize"
"""On a running pod: the desired share."""

ASKS: Final = (
    GPU, GPU_LIMIT, MEMORY, MEMORY_LIMIT, PRIORITY, LATENCY, MODE,
    TEMPLATE, GPUS, MODEL, CONTAINER,
)  # fmt: skip
"""Annotations that people write on new pods."""

ASKED: Final = "moiety.dev/asked"
"""The webhook writes it: the request of each container as the webhook read it, as JSON."""
RESIZED: Final = "moiety.dev/resized"
"""Nodes of earlier versions wrote it, so a copy of a pod may have it. Now an Event says so."""
OURS: Final = (ASKED, RESIZED)

SHARED: Final = "moiety.dev/shared"
"""A label on pods that have a share: `claim` or `units`."""
DIALECTS: Final = "moiety.dev/dialects"
"""A label on namespaces: the dialects of other systems that are read there, `hami.kai`."""
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
SIZES: Final = "moiety-sizes"
"""The ConfigMap with the sizes."""
NAMESPACES: Final = "moiety-namespaces"
"""The ConfigMap with what an administrator allows the pods of each namespace."""
SETTINGS: Final = "moiety-webhook"
"""The ConfigMap with the webhook's settings."""
