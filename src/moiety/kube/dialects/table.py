"""The meaning of each dialect, by example: the table of docs/kubernetes-dialects.md.

The code reads each example to get the meaning of its row; the page has the text of `markdown`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moiety.kube.dialects import resolve
from moiety.kube.dialects.request import SPELLINGS, RequestRefused, WebhookConfig

CONFIG: Final = WebhookConfig(
    spellings=SPELLINGS,
    units=(),
    sizes={"small": {"gpu": "0.25", "memory": "10Gi"}},
    metagpu_resources={"cnvrg.io/metagpu": "", "cnvrg.io/metagpu-a100": "A100"},
)
"""The settings with which the examples are read: all that can be said is."""


@dataclass(frozen=True, slots=True)
class Example:
    """One example: the limits, annotations and labels of a pod."""

    system: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)

    @property
    def pod(self) -> dict[str, Any]:
        """A pod of one container with this request."""
        container = {"name": "main", "image": "train", "resources": {"limits": {**self.limits}}}
        metadata = {"name": "train", "labels": {**self.labels}}
        metadata["annotations"] = {**self.annotations}
        return {"metadata": metadata, "spec": {"containers": [container]}}

    @property
    def written(self) -> Iterator[str]:
        """The lines of a manifest."""
        for key, text in {**self.annotations, **self.labels}.items():
            yield f'{key}: "{text}"'
        for key, text in self.limits.items():
            yield f"{key}: {text}"

    @property
    def means(self) -> str:
        """The request that the code reads, or its refusal."""
        try:
            pod_request = resolve.read(self.pod, CONFIG)
        except RequestRefused as no:
            return f"refused: {no.what}"
        return "left alone" if pod_request is None else str(pod_request.by_container["main"])


def _notes(system: str, said: Mapping[str, str]) -> Example:
    return Example(system, annotations=said)


def _limits(system: str, said: Mapping[str, str]) -> Example:
    return Example(system, limits=said)


def _labels(system: str, said: Mapping[str, str]) -> Example:
    return Example(system, labels=said)


ROWS: Final = (
    _notes("moiety", {"moiety.dev/gpu": "0.5"}),
    _notes("moiety", {"moiety.dev/gpu": "0.5", "moiety.dev/gpu-limit": "0.5"}),
    _notes("moiety", {"moiety.dev/memory": "20Gi"}),
    _notes("moiety", {"moiety.dev/gpu": "0.5", "moiety.dev/memory": "20Gi"}),
    _notes("moiety", {"moiety.dev/gpu": "0.5", "moiety.dev/memory-limit": "40Gi"}),
    _notes("moiety", {"moiety.dev/gpu": "0.3", "moiety.dev/priority": "high"}),
    _notes("moiety", {"moiety.dev/gpu": "0.2", "moiety.dev/latency": "true"}),
    _notes("moiety", {"moiety.dev/gpu": "1", "moiety.dev/gpus": "2"}),
    _notes("moiety", {"moiety.dev/gpu": "0.5", "moiety.dev/model": "A100,H100"}),
    _notes("moiety", {"moiety.dev/template": "small"}),
    _notes("moiety", {"moiety.dev/template": "small", "moiety.dev/memory": "12Gi"}),
    _notes("moiety", {"moiety.dev/gpu": "1.7"}),
    _notes("moiety", {"moiety.dev/memory": "20GiB"}),
    _notes("moiety", {"moiety.dev/priority": "high"}),
    _notes("moiety", {"moiety.dev/template": "huge"}),
    _limits("moiety", {"moiety.dev/gpu": "2"}),
    _limits("moiety", {"moiety.dev/gpu-percent": "50"}),
    _limits("moiety", {"moiety.dev/gpu": "50"}),
    _limits("moiety", {"moiety.dev/gpu-percent": "150"}),
    _limits("moiety", {"moiety.dev/gpux": "50"}),
    _limits("nvshare", {"nvshare.com/gpu": "1"}),
    _limits("nvshare", {"nvshare.com/gpu": "2"}),
    _labels("KubeShare", {"sharedgpu/gpu_request": "0.3", "sharedgpu/gpu_limit": "0.8"}),
    _labels(
        "KubeShare",
        {
            "sharedgpu/gpu_limit": "0.5",
            "sharedgpu/gpu_mem": "1073741824",
            "sharedgpu/priority": "0",
        },
    ),
    _labels(
        "KubeShare",
        {
            "sharedgpu/gpu_request": "2",
            "sharedgpu/gpu_limit": "2",
            "sharedgpu/gpu_model": "Tesla-V100",
        },
    ),
    _labels(
        "KubeShare",
        {
            "sharedgpu/gpu_limit": "1",
            "sharedgpu/group_name": "a",
            "sharedgpu/group_headcount": "4",
        },
    ),
    _limits("HAMi", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}),
    _limits(
        "HAMi",
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
    ),
    _limits("HAMi", {"nvidia.com/gpu": "2", "nvidia.com/gpumem-percentage": "50"}),
    _limits(
        "HAMi", {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "50", "nvidia.com/priority": "1"}
    ),
    _limits("HAMi", {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "150"}),
    _limits("HAMi", {"nvidia.com/gpu": "1"}),
    _notes("Run:ai, KAI", {"gpu-fraction": "0.5"}),
    _notes("Run:ai, KAI", {"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}),
    _notes("Run:ai, KAI", {"gpu-memory": "2000"}),
    _notes("Run:ai, KAI", {"gpu-fraction": "0.5", "gpu-memory": "2000"}),
    _limits("MetaGPU", {"cnvrg.io/metagpu": "30"}),
    _limits("MetaGPU", {"cnvrg.io/metagpu": "200"}),
    _limits("MetaGPU", {"cnvrg.io/metagpu-a100": "50"}),
    _limits("MetaGPU", {"cnvrg.io/metagpu": "150"}),
)


def markdown() -> str:
    """The table, with a line for each row."""
    lines = ["| system | a pod says | moiety understands |", "|---|---|---|"]
    for row in ROWS:
        said = "<br>".join(f"`{each}`" for each in row.written)
        lines.append(f"| {row.system} | {said} | {row.means} |")
    return "\n".join(lines)
