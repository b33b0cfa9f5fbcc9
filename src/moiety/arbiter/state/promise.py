"""What was promised in advance: to workloads that use no GPU yet, and to owners of time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Promise:
    """Bytes of one GPU: for the data of such workloads, and for the first context of each."""

    memory_bytes: int = 0
    residue_bytes: int = 0


NOTHING = Promise()


@dataclass(frozen=True, slots=True)
class Guarantees:
    """The parts of each GPU's time that owners and groups of owners are guaranteed."""

    parts: Mapping[str, float] = field(default_factory=dict)
    """By owner."""
    groups: Mapping[str, tuple[float, tuple[str, ...]]] = field(default_factory=dict)
    """By group: its part as a whole, and the owners in it; an owner is in one group at most."""

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.parts or self.groups)

    def has(self, owner: str) -> bool:
        """Whether an owner, or its group, is guaranteed something."""
        return owner in self.parts or self.group_of(owner) is not None

    def of(self, owner: str) -> float:
        """What an owner is guaranteed, or its group as a whole; 0: nothing."""
        name = self.group_of(owner)
        return self.parts.get(owner) or (self.groups[name][0] if name else 0.0)

    def group_of(self, owner: str) -> str | None:
        """The group that an owner is in; None: none."""
        return next((name for name, (_, own) in self.groups.items() if owner in own), None)

    def reserved(self, asked: Mapping[str, float], present: Collection[str] | None = None) -> float:
        """The part of a GPU that is promised if the programs of each owner request `asked`.

        Requests count within what their owner is guaranteed. `present`: only these owners and their
        groups count; None: all, since what an absent owner is guaranteed is kept for it.
        """
        by_owner = {
            owner: max(self.parts.get(owner, 0.0), asked.get(owner, 0.0))
            for owner in {**self.parts, **asked}
            if present is None or owner in present
        }
        whole = sum(by_owner.values())
        for part, owners in self.groups.values():
            if present is None or not set(owners).isdisjoint(present):
                whole += max(0.0, part - sum(by_owner.get(owner, 0.0) for owner in owners))
        return whole
