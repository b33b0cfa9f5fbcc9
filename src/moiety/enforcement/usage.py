"""What was seen of one process on one GPU, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from moiety.enforcement.policy import Offence, Who
from moiety.model.format import format_bytes

BUSY_LEAST: Final = 0.05
"""less work than this may be what moving its own memory takes"""


@dataclass(frozen=True, slots=True)
class Use:
    """One process on one GPU at one look."""

    who: Who
    gpu: int
    used_bytes: int | None
    """as NVML counts, its context included; None: it does not tell"""
    busy: float | None = None
    """part of the time since the last look in which its work ran; None: NVML does not tell"""
    tenant: int | None = None
    """its number, if it shares GPUs"""
    limit_bytes: int | None = None
    """the most that it may have there; None: what NVML counts says nothing about that"""
    beside_bytes: int = 0
    """what its context may take beside that"""
    leaseless: bool = False
    """it had no lease since before the last look, and moved nothing"""

    @property
    def figures(self) -> str:
        """How much it uses, in words."""
        words = []
        if self.used_bytes is not None:
            words.append(format_bytes(self.used_bytes))
        if self.busy is not None:
            words.append(f"{self.busy:.0%} busy")
        return ", ".join(words) or "how much is not known"


def offences(use: Use) -> Iterator[tuple[Offence, str]]:
    """What is wrong, each with a sentence that goes on from the process' name."""
    if use.tenant is None:
        yield Offence.UNREGISTERED, f"uses GPU {use.gpu} without moiety ({use.figures})"
        return
    if use.limit_bytes is not None and use.used_bytes is not None:
        most = use.limit_bytes + use.beside_bytes
        if use.used_bytes > most:
            yield (
                Offence.LIMIT,
                f"has {format_bytes(use.used_bytes)} on GPU {use.gpu} as the driver counts; "
                f"it may have {format_bytes(use.limit_bytes)}, and "
                f"{format_bytes(use.beside_bytes)} for its context",
            )
    if use.leaseless and use.busy is not None and use.busy >= BUSY_LEAST:
        yield (
            Offence.LEASE,
            f"works on GPU {use.gpu} without a lease ({use.busy:.0%} of the time)",
        )
