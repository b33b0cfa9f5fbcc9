"""A share as a claim carries it: the opaque parameters of the DRA driver, `kind: ShareConfig`.

People write it into a ResourceClaim(Template) or a DeviceClass, and the webhook writes it:

    apiVersion: resource.moiety.dev/v1alpha1
    kind: ShareConfig
    gpu: {request: 500m, limit: "1"}
    memory: {request: 20Gi, limit: 40Gi}
    priority: normal
    latency: false
    mode: swap

Everything but the first two lines may be left out. Numbers are Kubernetes quantities.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import msgspec

from moiety.kube.model import quantity
from moiety.model.errors import InvalidValue, MoietyError
from moiety.model.share import Mode, Priority, Share, parse_mode, parse_priority

DRIVER: Final = "gpu.moiety.dev"
"""The name of the DRA driver, and of its DeviceClass."""
API_VERSION: Final = "resource.moiety.dev/v1alpha1"
KIND: Final = "ShareConfig"


class InvalidShareConfig(InvalidValue):
    """Parameters of a claim that are no share, in one sentence for their author."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, "docs/kubernetes-reference.md has all that a ShareConfig says")


class AmountBounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The guarantee and the limit, as quantities."""

    request: str | int | float | None = None
    limit: str | int | float | None = None


class ShareConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The document, as written; `share` says what it means."""

    apiVersion: str  # noqa: N815 (the wire's own name)
    kind: str
    gpu: AmountBounds = AmountBounds()
    memory: AmountBounds = AmountBounds()
    priority: str = "normal"
    latency: bool = False
    mode: str = "swap"

    def share(self) -> Share:
        """The share that the document asks for. Raises InvalidShareConfig."""
        if (self.apiVersion, self.kind) != (API_VERSION, KIND):
            raise InvalidShareConfig(
                f"the parameters are {self.apiVersion} {self.kind}, and {DRIVER} knows "
                f"only {API_VERSION} {KIND}"
            )
        try:
            gpu = _part(self.gpu.request, "gpu.request")
            limit = _part(self.gpu.limit, "gpu.limit")
            return Share(
                gpu=gpu,
                gpu_limit=1.0 if limit is None else limit,
                memory_bytes=_bytes(self.memory.request, "memory.request") or 0,
                memory_limit_bytes=_bytes(self.memory.limit, "memory.limit"),
                priority=_named("priority", self.priority, parse_priority),
                latency=self.latency,
                mode=_named("mode", self.mode, parse_mode),
            )
        except InvalidShareConfig:
            raise
        except MoietyError as error:
            raise InvalidShareConfig(f"a ShareConfig cannot say so: {error.what}") from None


def decode(document: bytes | str | Mapping[str, Any]) -> Share:
    """The share that opaque parameters ask for, JSON or read from JSON.

    Raises InvalidShareConfig for an unknown field, a value of the wrong kind, an invalid amount, or
    a request above its limit.
    """
    try:
        if isinstance(document, bytes | str):
            return msgspec.json.decode(document, type=ShareConfig).share()
        return msgspec.convert(document, ShareConfig).share()
    except msgspec.DecodeError as error:
        raise InvalidShareConfig(f"a ShareConfig cannot be read: {error}") from None


def encode(share: Share) -> dict[str, Any]:
    """The document from which `decode` makes this share, without default values."""
    document: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    gpu, memory = {}, {}
    if share.gpu is not None:
        gpu["request"] = quantity.format_number(_exact(share.gpu))
    if share.gpu_limit < 1:
        gpu["limit"] = quantity.format_number(_exact(share.gpu_limit))
    if share.memory_bytes:
        memory["request"] = quantity.format_bytes(share.memory_bytes)
    if share.memory_limit_bytes is not None:
        memory["limit"] = quantity.format_bytes(share.memory_limit_bytes)
    if gpu:
        document["gpu"] = gpu
    if memory:
        document["memory"] = memory
    if share.priority is not Priority.NORMAL:
        document["priority"] = str(share.priority)
    if share.latency:
        document["latency"] = True
    if share.mode is not Mode.SWAP:
        document["mode"] = str(share.mode)
    return document


def parse_part(text: str, name: str) -> float:
    """A part of one GPU, above 0 and at most 1, from a quantity: `0.5`, `500m`.

    `name` is the value's name in the document. Raises InvalidShareConfig.
    """
    try:
        value = quantity.parse(text)
    except quantity.InvalidQuantity as error:
        raise InvalidShareConfig(f"{name}: {error.what}") from None
    if value <= 0:
        raise InvalidShareConfig(f"{name}: {text!r} is no part of a GPU; it must be above 0")
    if value > 1:
        raise InvalidShareConfig(
            f"{name}: {text!r} is more than one GPU; a share is of one GPU, at most 1"
        )
    return float(value)


def parse_memory(text: str, name: str) -> int:
    """Bytes from a quantity: `20Gi`. `name` as for `parse_part`. Raises InvalidShareConfig."""
    try:
        return quantity.parse_bytes(text)
    except quantity.InvalidQuantity as error:
        raise InvalidShareConfig(f"{name}: {error.what}") from None


def _part(value: str | float | None, name: str) -> float | None:
    return None if value is None else parse_part(str(value), name)


def _bytes(value: str | float | None, name: str) -> int | None:
    return None if value is None else parse_memory(str(value), name)


def _named(name: str, text: str, parse: Any) -> Any:
    try:
        return parse(text)
    except InvalidValue as error:
        raise InvalidShareConfig(f"{name}: {error.what}; {error.hint}") from None


def _exact(value: float) -> Fraction:
    """The number as it was written, not the float's exact value: 0.1, not 0.1000000000000000055."""
    return Fraction(str(round(value, 9)))
