"""Past runs, and the run times of workloads that follow from them where none is declared.

An estimate comes from past work with the same owner, name and size in GPUs, if some of it has
ended; else from work of the same owner and size; else from work of the same owner and name. The
owner is the user together with the queue. A name counts without its serial part: `sweep-7` and
`sweep-12` are `sweep`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from moiety.policy.estimate.remaining_time import RuntimeDistribution, Runtimes
from moiety.policy.estimate.runtime_estimator import HazardRates, RuntimeEstimator
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Workload

TIERS: Final = 3
SERIAL: Final = "0123456789-_.:/# "
"""Characters of the serial part at the end of a name."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """Work that has run, or still runs."""

    name: str
    user: str
    queue: str
    gpu_milli: int
    """Thousandths of GPUs in all."""
    submitted_s: float
    run_s: float
    """Run time so far, or until it ended."""
    is_over: bool = True
    gpu_memory_mib: int = 0
    """MiB in all of tasks that asked for GPUs by memory alone."""


class RuntimeHistory:
    """A history that estimates the run times of workloads. The order of `ran` does not matter.

    Work that still runs makes the estimates for similar work longer: see `RuntimeEstimator`.
    """

    def __init__(self, ran: Iterable[PastRun]) -> None:
        self._histories = tuple(RuntimeEstimator() for _ in range(TIERS))
        self._known: dict[tuple[Hashable, ...], HazardRates | None] = {}
        for each in sorted(ran, key=lambda one: (one.submitted_s, one.name, one.run_s)):
            size = each.gpu_milli, each.gpu_memory_mib
            likes = _likes(each.queue, each.user, each.name, size)
            for history, like in zip(self._histories, likes, strict=True):
                row = history.came(like, each.submitted_s)
                if each.is_over:
                    history.ended(row, each.run_s)
                else:
                    history.ran(row, each.run_s)

    def distribution(self, workload: Workload) -> HazardRates | None:
        """The distribution for a workload that begins; None: no similar work has ended."""
        likes = _likes(workload.queue, workload.user, workload.name, size_of(workload))
        if likes not in self._known:
            tiers = zip(self._histories, likes, strict=True)
            found = (history.typical(like) for history, like in tiers)
            self._known[likes] = next((one for one in found if one is not None), None)
        return self._known[likes]


def runtimes(past: RuntimeHistory, declared: Runtimes) -> Runtimes:
    """The declared run time of a workload; where none was declared, the one from the history."""

    def ask(workload: Workload) -> float | RuntimeDistribution | None:
        known = declared(workload)
        return past.distribution(workload) if known is None else known

    return ask


def still_running(snapshot: Snapshot) -> list[PastRun]:
    """The running work of a snapshot, with how long it has run."""
    since: dict[str, float] = {}
    for each in snapshot.running:
        name = each.task.workload
        since[name] = min(since.get(name, each.since_s), each.since_s)
    found = []
    for workload in snapshot.workloads:
        if workload.name in since:
            milli, memory = size_of(workload)
            run_s = max(snapshot.now_s - since[workload.name], 0.0)
            found.append(
                PastRun(
                    workload.name,
                    workload.user,
                    workload.queue,
                    milli,
                    workload.submitted_s,
                    run_s,
                    is_over=False,
                    gpu_memory_mib=memory,
                )
            )
    return found


def size_of(workload: Workload) -> tuple[int, int]:
    """Thousandths of GPUs in all; and MiB in all of tasks that ask for GPUs by memory alone."""
    milli = memory = 0
    for subgroup in workload.subgroups:
        shape = subgroup.shape
        milli += subgroup.tasks * shape.total_milli
        if not shape.gpu_milli:
            memory += subgroup.tasks * shape.gpus * shape.gpu_memory_mib
    return milli, memory


def _likes(queue: str, user: str, name: str, size: tuple[int, int]) -> tuple[Hashable, ...]:
    stem = name.rstrip(SERIAL) or name
    return (queue, user, stem, size), (queue, user, size), (queue, user, stem)
