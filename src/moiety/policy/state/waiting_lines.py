"""All that waits, in lines: work of one queue that has the same rights and needs the same room.

Lines are kept while the state changes, so that what waits is sorted once and not in each pass. They
stand by age. Worth changes with time: where it is known, the first of a line, or its whole order,
is found when it is asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from moiety.policy.model.workloads import Workload
from moiety.policy.queue.queue_usage import GPU_MILLI, Vector
from moiety.policy.queue.worth_table import WorkNames
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import next_piece

SortKey = tuple[int, bool, float, float, str]
"""Priority, needed before extra tasks, worth, age, name: the least is served first."""
Entry = tuple[float, str, Workload]
"""The age and the name of a workload that waits; entries sort by them."""


def sort_key(workload: Workload, worth: Mapping[str, float], *, is_extra: bool) -> SortKey:
    """Where the next piece of a workload stands in its queue."""
    name = workload.name
    return -workload.priority, is_extra, -worth.get(name, 0.0), workload.submitted_s, name


class WaitingLine:
    """Work that waits for equal pieces, and for as much in all; the oldest first."""

    __slots__ = ("_names", "entries", "is_extra", "kind", "lacks")

    def __init__(self, lacks: Vector, *, is_extra: bool, kind: Hashable = None) -> None:
        self.entries: list[Entry] = []
        self.kind = kind
        """What is equal for all of them."""
        self.lacks = lacks
        """What each of them waits for in all."""
        self.is_extra = is_extra
        """Whether they run without the next piece too."""
        self._names: WorkNames | None = None

    def add(self, entry: Entry) -> None:
        """Put a workload in its place."""
        at = bisect_left(self.entries, entry[:2])
        self.entries.insert(at, entry)
        if self._names is not None:
            self._names.insert(at, entry[1])

    def drop(self, entry: Entry) -> None:
        """Take a workload out."""
        at = bisect_left(self.entries, entry[:2])
        del self.entries[at]
        if self._names is not None:
            self._names.remove(at)

    def first(self, worth: Mapping[str, float]) -> Workload:
        """The workload that is served first."""
        if not worth or len(self.entries) == 1:
            return self.entries[0][2]
        return self.entries[int(self._work().worth(worth).argmax())][2]

    def in_order(self, worth: Mapping[str, float]) -> list[Workload]:
        """All in the order of service: by worth, then by age and name."""
        if not worth:
            return [workload for _, _, workload in self.entries]
        order = np.argsort(-self._work().worth(worth), kind="stable").tolist()
        return [self.entries[at][2] for at in order]

    def knows(self, worth: Mapping[str, float]) -> bool:
        """Whether the worth of all of it is known."""
        return self._work().are_in(worth)

    def _work(self) -> WorkNames:
        if self._names is None:
            self._names = WorkNames(name for _, name, _ in self.entries)
        return self._names


class WaitingLines:
    """All work that waits, by queue and kind."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._changed = state.watch()
        self.of: dict[str, dict[Hashable, WaitingLine]] = {}
        """The lines of each queue."""
        self._at: dict[str, tuple[Entry, WaitingLine]] = {}
        """The entry of each workload, and its line."""
        unmet = state.unmet
        for name, workload in state.workloads.items():  # most often, that is their order by age
            if name in unmet:
                line, entry = self._enter(workload)
                line.entries.append(entry)
        for lines in self.of.values():
            for line in lines.values():
                line.entries.sort()

    @classmethod
    def current(cls, state: ClusterState) -> WaitingLines:
        """The lines of a state as it is now."""
        lines = state.lines
        if not isinstance(lines, cls):
            lines = state.lines = cls(state)
            return lines
        for name in lines._changed:
            lines._drop(name)
            if name in state.unmet:
                line, entry = lines._enter(state.workloads[name])
                line.add(entry)
        lines._changed.clear()
        return lines

    def lacking(self) -> dict[str, Vector]:
        """The amounts that each queue waits for in all."""
        total: dict[str, Vector] = {}
        for queue, lines in self.of.items():
            sums = [0, 0, 0, 0]
            for line in lines.values():
                if line.entries[0][2].is_opportunistic:
                    continue
                count = len(line.entries)
                for at, amount in enumerate(line.lacks):
                    sums[at] += count * amount
            if any(sums):
                total[queue] = tuple(sums)
        return total

    def waits_since(self, workload: Workload, at_s: float) -> bool:
        """Whether a workload, or another one of its line, could have begun at a time or before."""
        since = self._state.snapshot.waits_since
        if not since:
            return workload.submitted_s <= at_s
        entries = self._at[workload.name][1].entries
        return any(since.get(name, submitted_s) <= at_s for submitted_s, name, _ in entries)

    def are_known(self, worth: Mapping[str, float]) -> bool:
        """Whether the worth of all that waits is known."""
        return all(line.knows(worth) for lines in self.of.values() for line in lines.values())

    def _lacks(self, workload: Workload) -> Vector:
        state, name = self._state, workload.name
        return state.amounts_of(
            (subgroup.shape, subgroup.tasks - state.running[name, subgroup.name])
            for subgroup in workload.subgroups
        )

    def _enter(self, workload: Workload) -> tuple[WaitingLine, Entry]:
        """Note the line of a workload, which still has to get into it."""
        name, state = workload.name, self._state
        if state.tasks_of.get(name):  # what it lacks is its own
            piece = next_piece(state, workload)
            assert piece
            kind: Hashable = name
            is_extra = piece.is_extra
        elif len(workload.subgroups) == 1 and not state.companies:
            [only] = workload.subgroups
            kind = (
                workload.priority,
                workload.is_preemptible,
                workload.is_opportunistic,
                workload.pools,
                only.name,
                only.shape,
                only.tasks,
                only.tasks_min,
                workload.domain,
                only.domain,
            )
            is_extra = not only.tasks_min
        else:
            kind = (
                workload.priority,
                workload.is_preemptible,
                workload.is_opportunistic,
                workload.pools,
                workload.domain,
                workload.subgroups,
            )
            is_extra = not any(each.tasks_min for each in workload.subgroups)
        entry = workload.submitted_s, name, workload
        lines = self.of.setdefault(workload.queue, {})
        line = lines.get(kind)
        if line is None:
            lacks = self._lacks(workload)
            line = lines[kind] = WaitingLine(lacks, is_extra=is_extra, kind=kind)
        self._at[name] = entry, line
        return line, entry

    def _drop(self, name: str) -> None:
        found = self._at.pop(name, None)
        if found is None:
            return
        entry, line = found
        lines = self.of[entry[2].queue]
        line.drop(entry)
        if not line.entries:
            del lines[line.kind]


class SmallestTasks(NamedTuple):
    """The least that any waiting task asks for, in each respect; 0: none asks for any."""

    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    cpu_without_gpu: int = 0
    """The least CPU among tasks without GPUs."""
    memory_without_gpu: int = 0


def smallest_tasks(state: ClusterState) -> SmallestTasks:
    """The least that tasks ask for which wait and are not opportunistic."""
    shapes = {
        subgroup.shape
        for lines in WaitingLines.current(state).of.values()
        for line in lines.values()
        if not line.entries[0][2].is_opportunistic
        for subgroup in line.entries[0][2].subgroups
    }
    without = [shape for shape in shapes if not shape.gpus]

    def least(amounts: Iterable[int]) -> int:
        return min((each for each in amounts if each), default=0)

    return SmallestTasks(
        least(state.amounts_of(((shape, 1),))[GPU_MILLI] for shape in shapes),
        least(shape.cpu_milli for shape in shapes),
        least(shape.memory_mib for shape in shapes),
        least(shape.cpu_milli for shape in without),
        least(shape.memory_mib for shape in without),
    )
