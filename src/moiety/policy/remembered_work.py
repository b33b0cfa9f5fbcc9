"""One piece of work that the engine remembers."""

from __future__ import annotations

from dataclasses import dataclass

from moiety.policy.model.cluster import WHOLE_GPU

Likeness = tuple[str, str, int, int]
"""The queue, the user, and the size of work that is taken to be alike."""


@dataclass(slots=True)
class RememberedWork:
    """Work that is remembered; a row of the estimator belongs to it."""

    name: str
    likeness: Likeness
    submitted_s: float
    row: int = -1
    attained_s: float = 0.0
    since_s: float | None = None
    """When its work went on; None: it does not run."""
    is_over: bool = False
    is_unknown: bool = False
    """Whether it was over before it ran."""
    epoch: int = 0
    """How often it began and stopped."""

    @property
    def gpus(self) -> float:
        """The GPUs by which its worth is divided."""
        return max(self.likeness[2], 1) / WHOLE_GPU

    def attained(self, now_s: float) -> float:
        """Seconds of work by now."""
        return self.attained_s + (0.0 if self.since_s is None else max(now_s - self.since_s, 0.0))
