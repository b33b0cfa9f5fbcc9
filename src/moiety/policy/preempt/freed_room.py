"""What the units of a queue would free on the nodes of a pool: kept while units begin and end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from moiety.policy.place.arrays import Ints
from moiety.policy.queue.worth_table import WorkNames

Row = tuple[int, int, int]
"""Of a task: its priority, its node, and its thousandths of GPUs."""


class FreedRoom:
    """A row for each task of the units of a queue that is in one pool, in no order."""

    def __init__(self, nodes: int, rows: Mapping[str, Sequence[Row]]) -> None:
        """`rows` has those of each workload, on `nodes` nodes."""
        self.work = WorkNames(name for name, own in rows.items() for _ in own)
        """The workload of each row."""
        self._rows = dict(rows)
        self._table = _table([row for own in rows.values() for row in own])
        self.in_all: Ints = np.zeros(nodes, np.int64)
        """Thousandths of GPUs on each node if all of them ended."""
        np.add.at(self.in_all, self.nodes, self.gpu_milli)
        self.priority = self._only_priority()
        """The priority of all rows; None: there are several, or no rows."""
        self.stale: set[str] = set()
        """The workloads whose rows may be others now."""

    @property
    def priorities(self) -> Ints:
        """Of each row."""
        found: Ints = self._table[0]
        return found

    @property
    def nodes(self) -> Ints:
        """Of each row."""
        found: Ints = self._table[1]
        return found

    @property
    def gpu_milli(self) -> Ints:
        """Of each row."""
        found: Ints = self._table[2]
        return found

    def renew(self, name: str, rows: Sequence[Row]) -> None:
        """Note the rows of a workload as they are now."""
        before = self._rows.get(name, ())
        if rows == before or not (rows or before):
            return
        if before:
            at = self.work.find(name)
            self.work.remove(at, len(before))
            self._table = np.concatenate(
                [self._table[:, :at], self._table[:, at + len(before) :]], axis=1
            )
            for _, node, milli in before:
                self.in_all[node] -= milli
        if rows:
            self._rows[name] = rows
            self.work.append(name, len(rows))
            self._table = np.concatenate([self._table, _table(rows)], axis=1)
            for _, node, milli in rows:
                self.in_all[node] += milli
        else:
            del self._rows[name]
        self.priority = self._only_priority()

    def _only_priority(self) -> int | None:
        of = self.priorities
        return int(of[0]) if len(of) and bool((of == of[0]).all()) else None


def _table(rows: Sequence[Row]) -> Ints:
    return np.array(rows, np.int64).reshape(-1, 3).T
