"""All that waits, in lines: work of one queue that has the same rights and needs the same room.

Lines are kept while the state changes, so that what waits is sorted once and not in each pass.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Mapping
from operator import itemgetter

from moiety.policy.model.workloads import Workload
from moiety.policy.queue.queue_usage import Vector
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart, next_piece

SortKey = tuple[int, bool, float, float, str]
"""Priority, needed before extra tasks, worth, age, name: the least is served first."""
Entry = tuple[SortKey, Workload]
"""A workload that waits, and where its next piece stands in its queue."""


def sort_key(piece: GangPart, worth: Mapping[str, float]) -> SortKey:
    """Where a piece stands in its queue."""
    return _key(piece.workload, worth, is_extra=piece.is_extra)


def _key(workload: Workload, worth: Mapping[str, float], *, is_extra: bool) -> SortKey:
    name = workload.name
    return -workload.priority, is_extra, -worth.get(name, 0.0), workload.submitted_s, name


class WaitingLines:
    """All work that waits, by queue and kind, the first first."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._changed = state.watch()
        self._worth = state.worth
        self.of: dict[str, dict[Hashable, list[Entry]]] = {}
        """The lines of each queue. Work in a line waits for equal pieces, and for as much in all"""
        self._at: dict[str, tuple[Entry, Hashable]] = {}
        """The entry of each workload, and its line."""
        for name in state.unmet:
            self._add(name)
        for lines in self.of.values():
            for line in lines.values():
                line.sort(key=itemgetter(0))

    @classmethod
    def current(cls, state: ClusterState) -> WaitingLines:
        """The lines of a state as it is now."""
        lines = state.lines
        if not isinstance(lines, cls) or lines._worth is not state.worth:
            if isinstance(lines, cls):
                state.unwatch(lines._changed)
            lines = state.lines = cls(state)
            return lines
        for name in lines._changed:
            lines._drop(name)
            if name in state.unmet:
                lines._add(name, in_order=True)
        lines._changed.clear()
        return lines

    def lacking(self) -> dict[str, Vector]:
        """The amounts that each queue waits for in all."""
        total: dict[str, Vector] = {}
        for queue, lines in self.of.items():
            sums = [0, 0, 0, 0]
            for line in lines.values():
                workload = line[0][1]
                if workload.is_opportunistic:
                    continue
                for at, amount in enumerate(self._lacks(workload)):
                    sums[at] += len(line) * amount
            if any(sums):
                total[queue] = tuple(sums)
        return total

    def _lacks(self, workload: Workload) -> Vector:
        state, name = self._state, workload.name
        return state.amounts_of(
            (subgroup.shape, subgroup.tasks - state.running[name, subgroup.name])
            for subgroup in workload.subgroups
        )

    def _add(self, name: str, *, in_order: bool = False) -> None:
        state = self._state
        workload = state.workloads[name]
        if state.tasks_of.get(name):  # what it lacks is its own
            piece = next_piece(state, workload)
            if piece is None:
                return
            kind: Hashable = name
            is_extra = piece.is_extra
        else:
            kind = self._kind(workload)
            is_extra = not any(each.tasks_min for each in workload.subgroups)
        entry = _key(workload, self._worth, is_extra=is_extra), workload
        self._at[name] = entry, kind
        line = self.of.setdefault(workload.queue, {}).setdefault(kind, [])
        if in_order:
            insort(line, entry, key=itemgetter(0))
        else:
            line.append(entry)

    def _kind(self, workload: Workload) -> Hashable:
        rights = workload.priority, workload.is_preemptible, workload.is_opportunistic
        if len(workload.subgroups) == 1 and not self._state.companies:
            [only] = workload.subgroups
            if workload.domain is None and only.domain is None:
                return (*rights, workload.pools, only.shape, only.tasks, only.tasks_min)
        return *rights, workload.pools, workload.domain, workload.subgroups

    def _drop(self, name: str) -> None:
        found = self._at.pop(name, None)
        if found is None:
            return
        entry, kind = found
        lines = self.of[entry[1].queue]
        line = lines[kind]
        del line[bisect_left(line, entry[0], key=itemgetter(0))]
        if not line:
            del lines[kind]
