"""Which GPUs a cluster has, as far as a pod's wish can be impossible. Pure.

From the ResourceSlices of all nodes: each model's name, and how much memory can be shared out of
it. Where nothing is known yet, nothing is said to be impossible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from moiety.kube.dialects.request import Ask, Refused
from moiety.kube.model import quantity, share_config
from moiety.model.format import format_bytes

MEMORY: Final = "memory"
_LETTERS: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """GPUs that are alike."""

    memory_bytes: int
    model: str


@dataclass(frozen=True, slots=True)
class Fleet:
    """Every kind of GPU that some node has."""

    kinds: frozenset[Kind] = frozenset()

    def sizes(self, ask: Ask) -> list[int]:
        """Of the GPUs that an ask could be given: how much memory, the smallest first."""
        return sorted({each.memory_bytes for each in self.kinds if fits(ask, each.model)})

    def check(self, ask: Ask) -> None:
        """Raises Refused for what no GPU of the cluster can give."""
        if not self.kinds:
            if ask.memory_part is not None:
                raise Refused(
                    "no GPU is known to the cluster yet, so a percentage of its memory is no number"
                    " of bytes; moiety.dev/memory says it in bytes"
                )
            return
        sizes = self.sizes(ask)
        if not sizes:
            there = ", ".join(sorted({each.model for each in self.kinds}))
            raise Refused(
                f"no node has a GPU of model {' or '.join(ask.models)}; there are {there}"
            )
        if ask.share.memory_bytes > sizes[-1]:
            raise Refused(
                f"{format_bytes(ask.share.memory_bytes)} are to stay on a GPU, and the largest"
                f"{' of that model' if ask.models else ''} has {format_bytes(sizes[-1])}"
            )
        limit = ask.share.memory_limit_bytes
        if limit is not None and limit > sizes[-1]:
            raise Refused(
                f"a limit of {format_bytes(limit)} limits nothing: the largest GPU"
                f"{' of that model' if ask.models else ''} has {format_bytes(sizes[-1])}; without "
                "a limit a program may allocate all that its GPU has"
            )


def of(slices: Iterable[dict[str, Any]]) -> Fleet:
    """What ResourceSlices say; those of other drivers, and what is not understood, do not count."""
    kinds = set()
    for each in slices:
        spec = each.get("spec") or {}
        if spec.get("driver") != share_config.DRIVER:
            continue
        for device in spec.get("devices") or []:
            name = ((device.get("attributes") or {}).get("productName") or {}).get("string", "")
            memory = ((device.get("capacity") or {}).get(MEMORY) or {}).get("value", "")
            try:
                kinds.add(Kind(quantity.parse_bytes(str(memory)), name))
            except quantity.InvalidQuantity:
                continue
    return Fleet(frozenset(kinds))


def fits(ask: Ask, model: str) -> bool:
    """Whether a GPU of this model is one that is asked for."""
    return not ask.models or any(plain(each) in plain(model) for each in ask.models)


def plain(model: str) -> str:
    """A model's name without what people write differently: case, spaces, dashes."""
    return _LETTERS.sub("", model.lower())


def models(ask: Ask, fleet: Fleet) -> list[str]:
    """The product names that an ask may be given, as the nodes say them."""
    return sorted({each.model for each in fleet.kinds if fits(ask, each.model)})
