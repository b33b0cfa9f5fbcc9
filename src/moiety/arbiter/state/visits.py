"""Short visits that interrupt a turn: which are under way, and what they owe."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Visit:
    """One visit, from the revoke of the holders until the visitor has drained."""

    began_s: float
    work_s: float
    """The most that it holds."""
    back_s: float
    """How long it takes until the interrupted turn goes on."""
    cost_s: float
    """The time that it was expected to take from the interrupted turn."""
    gpus: frozenset[int]
    """The GPUs that it takes time from."""


@dataclass(slots=True)
class Debt:
    """The time that visits took from the turns of a GPU lately, in seconds at `since_s`."""

    left_s: float = 0.0
    since_s: float = 0.0


@dataclass(slots=True)
class Visits:
    """All visits on a node."""

    under_way: dict[int, Visit] = field(default_factory=dict)
    """By number of the visitor."""
    rests_s: dict[int, float] = field(default_factory=dict)
    """By number: what is left of the turn of a tenant that was interrupted."""
    debts: dict[int, Debt] = field(default_factory=dict)
    """By GPU."""
