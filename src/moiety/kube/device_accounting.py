"""Who has how much of which GPU of this node, by claims and by units together.

There is one book for both ways in, so that nothing is given twice: the scheduler counts claims and
units apart, and where both are offered it can choose the same GPU for one of each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from moiety.kube.checkpoint import CLAIM, UNITS, Assignment, AssignmentStore, Slot
from moiety.kube.resource_slices import WHOLE, NodeGpu
from moiety.model.errors import MoietyError
from moiety.model.format import format_bytes

SLACK: Final = 1e-6


class ServiceMode(StrEnum):
    """By what pods get shares on a node."""

    DRA = "dra"
    """claims (Kubernetes 1.34 and newer)"""
    PLUGIN = "plugin"
    """units of an extended resource"""
    BOTH = "both"

    @property
    def kinds(self) -> frozenset[str]:
        """What is given."""
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
    """What of one GPU is given away."""

    percent: float = 0.0
    memory_bytes: int = 0
    kinds: frozenset[str] = frozenset()
    is_whole: bool = False
    """one share has all of its time"""


class DeviceAccounting:
    """The book of one node; what is in it is in the checkpoint."""

    def __init__(self, checkpoint: AssignmentStore, mode: ServiceMode) -> None:
        """Raises ModeTaken."""
        self.checkpoint = checkpoint
        self.mode = mode
        self.gpus: Mapping[str, NodeGpu] = {}
        """by device; whoever knows keeps this up to date"""
        for kind in sorted({CLAIM, UNITS} - mode.kinds):
            if shares := sorted(g.name for g in checkpoint.assignments.values() if g.kind == kind):
                raise ModeTaken(mode, kind, shares)

    def booked(self, uuid: str, *, without: Collection[str] = ()) -> Booked:
        """What of a GPU is given; `without` are shares that do not count."""
        slots = [
            (slot, assignment.kind)
            for assignment in self.checkpoint.assignments.values()
            if assignment.name not in without
            for slot in assignment.slots
            if slot.uuid == uuid
        ]
        return Booked(
            percent=sum(slot.percent for slot, _ in slots),
            memory_bytes=sum(slot.memory_bytes for slot, _ in slots),
            kinds=frozenset(kind for _, kind in slots),
            is_whole=any(slot.percent > WHOLE - SLACK for slot, _ in slots),
        )

    def refuse(self, wanted: Iterable[Slot], *, instead_of: Collection[str] = ()) -> str:
        """Why these cannot be given beside what is; empty: they can."""
        sums: dict[str, tuple[float, int]] = {}
        for slot in wanted:
            if slot.device not in self.gpus or self.gpus[slot.device].card.uuid != slot.uuid:
                return f"{slot.device} ({slot.uuid}) is not a GPU of this node's agent"
            percent, size = sums.get(slot.device, (0.0, 0))
            sums[slot.device] = percent + slot.percent, size + slot.memory_bytes
        for device, (percent, size) in sums.items():
            gpu = self.gpus[device]
            booked = self.booked(gpu.card.uuid, without=instead_of)
            by = " and ".join(sorted(_WORDS[kind] for kind in booked.kinds)) or "nobody"
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
        """As `refuse`, of whole shares."""
        shares = list(assignments)
        slots = [slot for each in shares for slot in each.slots]
        return self.refuse(slots, instead_of=[each.name for each in shares])

    @property
    def is_empty(self) -> bool:
        """Whether nothing is given."""
        return not self.checkpoint.assignments
