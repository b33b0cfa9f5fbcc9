"""The shares of each GPU of this node, by claims and by units together.

Claims and units are counted together, so that nothing is given twice: the scheduler counts claims
and units apart, and where both are offered it can choose the same GPU for one of each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from moiety.kube.checkpoint import CLAIM, UNITS, Assignment, AssignmentStore, Slot
from moiety.kube.model.quantity import WHOLE
from moiety.kube.resource_slices import NodeGpu
from moiety.model.errors import MoietyError
from moiety.model.format import format_bytes

SLACK: Final = 1e-6


class ServiceMode(StrEnum):
    """The ways in which pods get shares on a node."""

    DRA = "dra"
    """Claims (Kubernetes 1.34 and newer)"""
    PLUGIN = "plugin"
    """Units of an extended resource."""
    BOTH = "both"

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of shares that this mode gives."""
        return frozenset({CLAIM, UNITS} if self is ServiceMode.BOTH else {_KIND[self]})


_KIND: Final = {ServiceMode.DRA: CLAIM, ServiceMode.PLUGIN: UNITS}
_WORDS: Final = {CLAIM: "claims", UNITS: "units"}


class ModeTaken(MoietyError):
    """Pods have shares in a way that this mode does not serve."""

    def __init__(self, mode: ServiceMode, other: str, shares: list[str]) -> None:
        super().__init__(
            f"--mode {mode} does not serve {_WORDS[other]}, and {len(shares)} share(s) on this "
            f"node are given by them ({', '.join(shares[:3])})",
            "--mode both until these pods have ended (kubectl drain), then this one",
        )


@dataclass(frozen=True, slots=True)
class Booked:
    """The part of one GPU that is given to pods."""

    percent: float = 0.0
    memory_bytes: int = 0
    kinds: frozenset[str] = frozenset()
    is_whole: bool = False
    """True if one share has all of its time."""
    grown_percent: float = 0.0
    """The part that claims have beyond what the scheduler counts for them."""
    grown_bytes: int = 0
    """Likewise of the memory."""


class DeviceAccounting:
    """The given shares of one node, as the checkpoint holds them."""

    def __init__(self, checkpoint: AssignmentStore, mode: ServiceMode) -> None:
        """Raises ModeTaken."""
        self.checkpoint = checkpoint
        self.mode = mode
        self.gpus: Mapping[str, NodeGpu] = {}
        """GPUs by device; the owner of this object keeps them up to date."""
        self.growing: dict[str, Assignment] = {}
        """Shares by name as they will be in a moment: they count so already."""
        for kind in sorted({CLAIM, UNITS} - mode.kinds):
            if shares := sorted(g.name for g in checkpoint.assignments.values() if g.kind == kind):
                raise ModeTaken(mode, kind, shares)

    def booked(self, uuid: str, *, without: Collection[str] = ()) -> Booked:
        """The given part of a GPU; `without` are shares that do not count."""
        slots = [
            (slot, assignment.kind)
            for assignment in {**self.checkpoint.assignments, **self.growing}.values()
            if assignment.name not in without
            for slot in assignment.slots
            if slot.uuid == uuid
        ]
        return Booked(
            percent=sum(slot.percent for slot, _ in slots),
            memory_bytes=sum(slot.memory_bytes for slot, _ in slots),
            kinds=frozenset(kind for _, kind in slots),
            is_whole=any(slot.percent > WHOLE - SLACK for slot, _ in slots),
            grown_percent=sum(_grown(slot.percent, slot.counted_percent) for slot, _ in slots),
            grown_bytes=int(
                sum(_grown(slot.memory_bytes, slot.counted_memory_bytes) for slot, _ in slots)
            ),
        )

    def refuse(self, wanted: Iterable[Slot], *, instead_of: Collection[str] = ()) -> str:
        """Why these slots cannot be given in addition; empty: they can."""
        sums: dict[str, tuple[float, int]] = {}
        for slot in wanted:
            if slot.device not in self.gpus or self.gpus[slot.device].card.uuid != slot.uuid:
                return f"{slot.device} ({slot.uuid}) is not a GPU of this node's agent"
            percent, size = sums.get(slot.device, (0.0, 0))
            sums[slot.device] = percent + slot.percent, size + slot.memory_bytes
        for device, (percent, size) in sums.items():
            gpu = self.gpus[device]
            booked = self.booked(gpu.card.uuid, without=instead_of)
            by = " and ".join(sorted(_WORDS[kind] for kind in booked.kinds)) or "no pod"
            if booked.percent + percent > WHOLE + SLACK:
                return (
                    f"{percent:g} % of {device} are wanted, and {booked.percent:g} % of it are "
                    f"given already, by {by}"
                )
            if booked.is_whole:
                return f"{device} is given whole already, by {by}"
            if size and booked.memory_bytes + size > gpu.capacity_bytes:
                return (
                    f"{format_bytes(size)} of {device} are wanted, and "
                    f"{format_bytes(booked.memory_bytes)} of {format_bytes(gpu.capacity_bytes)} "
                    f"are given already, by {by}"
                )
        return ""

    def check(self, assignments: Iterable[Assignment]) -> str:
        """As `refuse`, for all slots of shares."""
        shares = list(assignments)
        slots = [slot for each in shares for slot in each.slots]
        return self.refuse(slots, instead_of=[each.name for each in shares])

    @property
    def is_empty(self) -> bool:
        """Whether no share is given."""
        return not self.checkpoint.assignments


def _grown(size: float, counted: float | None) -> float:
    """How much larger a size is than what the scheduler counts."""
    return 0.0 if counted is None else max(0.0, size - counted)
