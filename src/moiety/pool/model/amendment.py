"""What can be changed of a workload after it was submitted."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from moiety.model.errors import BadArgument
from moiety.pool.model.labels import check_labels
from moiety.pool.model.names import NAME
from moiety.pool.model.records import MEMORY_MAX


class Amendment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New values; what is not named stays as it is."""

    gpu: float | UnsetType = UNSET
    """The part of each GPU's time; of work that runs, it has it from now on."""
    memory_bytes: int | UnsetType = UNSET
    """Memory of each GPU that is kept for it; likewise."""
    time_limit_s: float | UnsetType | None = UNSET
    """None: no limit. Only administrators of its project give running work more time."""
    priority: int | UnsetType = UNSET
    """Above 0 it is for administrators of its project."""
    begin_s: float | UnsetType = UNSET
    """Only while it waits."""
    name: str | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    """They are added to those that it has."""

    def check(self) -> None:
        """Raise BadArgument for values that make no sense."""
        if self.name is not UNSET and not NAME.fullmatch(self.name):
            raise BadArgument(f"{self.name[:40]!r} is no name", "letters, digits and _.@:+-")
        limit_s = self.time_limit_s
        if limit_s is not UNSET and limit_s is not None and not 0 < limit_s < 1e9:
            raise BadArgument(f"{limit_s:g} s is no time limit", "2 hours, say")
        if self.gpu is not UNSET and not 0.001 <= self.gpu <= 1:
            raise BadArgument(f"{self.gpu:g} is no part of a GPU", "--gpu 0.5, say")
        if self.memory_bytes is not UNSET and not 0 <= self.memory_bytes <= MEMORY_MAX:
            raise BadArgument(f"{self.memory_bytes} is no memory of a GPU", "--memory 10GiB, say")
        if self.labels is not UNSET:
            check_labels(self.labels)
        if self.priority is not UNSET and abs(self.priority) > 1_000_000:
            raise BadArgument(f"{self.priority} is no priority", "at most 1000000")
        if self.begin_s is not UNSET and not 0 <= self.begin_s < 1e11:
            raise BadArgument(f"{self.begin_s:g} is no time", "seconds since 1970")

    @property
    def is_of_gpus(self) -> bool:
        """Whether the part of its GPUs is to be another."""
        return self.gpu is not UNSET or self.memory_bytes is not UNSET

    @property
    def is_for_waiting(self) -> bool:
        """Whether it can be done only while the workload waits."""
        return self.begin_s is not UNSET

    @property
    def is_for_living(self) -> bool:
        """Whether it can be done only before the workload is over."""
        named = (self.time_limit_s, self.begin_s, self.priority)
        return self.is_of_gpus or any(value is not UNSET for value in named)

    def gives_more_time(self, limit_s: float | None) -> bool:
        """Whether a workload with this time limit may run longer than before."""
        new = self.time_limit_s
        return new is not UNSET and limit_s is not None and (new is None or new > limit_s)


class Requeue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a workload goes back into the queue."""

    hold: bool = False
    """Whether it then waits to be released."""
