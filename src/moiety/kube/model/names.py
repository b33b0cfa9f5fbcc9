"""The names that moiety has in a cluster: annotations, labels, resources, objects."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "moiety.dev/"
NAMESPACE: Final = "moiety-system"

GPU: Final = "moiety.dev/gpu"
"""an annotation: a part of a GPU's time; a resource: units of a GPU (see the two modes)"""
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
"""on a running pod: what its share is to be from now on"""

ASKS: Final = (
    GPU, GPU_LIMIT, MEMORY, MEMORY_LIMIT, PRIORITY, LATENCY, MODE,
    TEMPLATE, GPUS, MODEL, CONTAINER,
)  # fmt: skip
"""annotations that people write on new pods"""

ASKED: Final = "moiety.dev/asked"
"""written by the webhook: what each container was understood to ask for, as JSON"""
RESIZED: Final = "moiety.dev/resized"
"""written by the node: the resize that was done, or why it was not"""
OURS: Final = (ASKED, RESIZED)

SHARED: Final = "moiety.dev/shared"
"""a label on pods that have a share: `claim` or `units`"""
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
SIZES: Final = "moiety-sizes"
"""the ConfigMap with the sizes"""
SETTINGS: Final = "moiety-webhook"
"""the ConfigMap with what the webhook is told"""
