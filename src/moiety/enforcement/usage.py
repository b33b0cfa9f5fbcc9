"""The use of one GPU by one process at one look, and its offences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from moiety.enforcement.policy import Offence, Who
from moiety.model.format import format_bytes

BUSY_LEAST: Final = 0.05
"""Less work than this may come from transfers of its own memory."""


@dataclass(frozen=True, slots=True)
class Use:
    """One process on one GPU at one look."""

    who: Who
    gpu: int
    used_bytes: int | None
    """Bytes that NVML counts, its context included; None: it does not tell."""
    busy: float | None = None
    """Part of the time since the last look in which its work ran; None: NVML does not tell."""
    tenant: int | None = None
    """The arbiter's tenant, if it shares GPUs."""
    limit_bytes: int | None = None
    """The most that it may have there; None: NVML counts something else."""
    beside_bytes: int = 0
    """Bytes that its context may take beside that."""
    leaseless: bool = False
    """True if it had no lease since before the last look, and moved nothing."""

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
    """The offences, each with a sentence that goes on from the process' name."""
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
