"""The request of one container, in any dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from moiety.kube.model import names, quantity, share_config
from moiety.model.errors import InvalidValue, MoietyError
from moiety.model.share import NOTHING_ASKED, Share

Pod = Mapping[str, Any]
MIB: Final = 1 << 20
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
SPELLINGS: Final = ("moiety", "nvshare", "kubeshare", "hami", "kai", "metagpu")
OURS: Final = ("moiety",)
"""The dialects that are read without an opt-in: other systems' words mean nothing at first."""


class RequestRefused(InvalidValue):
    """The reason why a pod is not admitted, in one sentence for its user."""

    def __init__(self, problem: str, hint: str = "docs/kubernetes-dialects.md") -> None:
        super().__init__(problem, hint)


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """A number of GPUs, and the same share of each."""

    share: Share = NOTHING_ASKED
    gpus: int = 1
    models: tuple[str, ...] = ()
    """Parts of product names, one of which the GPU's name must contain; empty: any GPU."""
    memory_part: Fraction | None = None
    """The part of the GPU's memory that is request and limit, if the dialect gives no bytes."""

    def __str__(self) -> str:
        parts = [f"{self.gpus} GPUs, each: {self.share}" if self.gpus > 1 else str(self.share)]
        if self.memory_part is not None:
            parts.append(f"{float(self.memory_part * 100):g} % of its memory")
        if self.models:
            parts.append(f"of model {' or '.join(self.models)}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """The request of one container, and where it was written."""

    container: str
    gpu_request: GpuRequest
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WebhookConfig:
    """The webhook's settings about dialects, from the cluster's ConfigMap."""

    spellings: tuple[str, ...] = OURS
    whole_gpus: bool = False
    """True: where HAMi's dialect is read, share also pods that say only `nvidia.com/gpu`."""
    metagpu_resources: Mapping[str, str] = field(default_factory=lambda: {"cnvrg.io/metagpu": ""})
    """Names of MetaGPU's resources, each with a model or an empty text."""
    metagpu_units: int = 100
    """MetaGPU's units of a GPU."""
    units: tuple[str, ...] = (names.GPU,)
    """Moiety's resources that nodes have: the webhook checks them and leaves them as they are."""
    schedulers: tuple[str, ...] = ()
    """Schedulers that are gone: pods with a share wait for the usual one instead."""
    sizes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Sizes by name: annotations without their prefix."""


def notes(pod: Pod) -> Mapping[str, str]:
    """A pod's annotations; empty if it has none."""
    return (pod.get("metadata") or {}).get("annotations") or {}


def labels(pod: Pod) -> Mapping[str, str]:
    """A pod's labels; empty if it has none."""
    return (pod.get("metadata") or {}).get("labels") or {}


def resources(container: Mapping[str, Any]) -> dict[str, str]:
    """The amount of each resource that a container asks for.

    Raises RequestRefused if request and limit differ.
    """
    own = container.get("resources") or {}
    requests, limits = own.get("requests") or {}, own.get("limits") or {}
    found = {str(key): str(value) for key, value in {**requests, **limits}.items()}
    for key in requests.keys() & limits.keys():
        if "/" in key and str(requests[key]) != str(limits[key]):
            raise RequestRefused(
                f"container {container['name']}: {key} has request {requests[key]} and limit "
                f"{limits[key]}, which have to be the same"
            )
    return found


def default_container(pod: Pod) -> str:
    """The container of an annotation that names none: the default one, else the first.

    Raises RequestRefused if the default container is none of the pod's.
    """
    regular = [each["name"] for each in (pod.get("spec") or {}).get("containers") or []]
    if not regular:
        raise RequestRefused("the pod has no container")
    named = notes(pod).get(DEFAULT_CONTAINER)
    if named is None:
        return str(regular[0])
    if named not in regular:
        raise RequestRefused(
            f"{DEFAULT_CONTAINER} names {named!r}, and the pod has no such container"
        )
    return named


def count(key: str, text: str) -> int:
    """The whole number under a key; raises RequestRefused."""
    try:
        return quantity.parse_count(text)
    except quantity.InvalidQuantity as error:
        raise RequestRefused(f"{key}: {error.what}") from None


def number(key: str, text: str) -> Fraction:
    """The number under a key; raises RequestRefused."""
    try:
        return quantity.parse(text)
    except quantity.InvalidQuantity as error:
        raise RequestRefused(f"{key}: {error.what}") from None


def part(key: str, text: str) -> float:
    """The part of a GPU under a key; raises RequestRefused."""
    try:
        return share_config.parse_part(text, key)
    except share_config.InvalidShareConfig as error:
        raise RequestRefused(error.what) from None


def memory(key: str, text: str) -> int:
    """The bytes under a key; raises RequestRefused."""
    try:
        return share_config.parse_memory(text, key)
    except share_config.InvalidShareConfig as error:
        raise RequestRefused(error.what) from None


def share(where: str, **fields: Any) -> Share:
    """A share; raises RequestRefused, which names where it was written."""
    try:
        return Share(**fields)
    except MoietyError as error:
        raise RequestRefused(f"{where}: {error.what}") from None
