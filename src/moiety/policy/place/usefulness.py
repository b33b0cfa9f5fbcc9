"""The usefulness of free GPUs, kept by what is left of each: the default rule's sums for few nodes.

Between two decisions few nodes change, and arrays are slow for few numbers. How useful a node is
depends on its model, on what is left of its GPUs and on its free CPUs. A cluster goes through a few
thousand combinations of the first two in all, so the sums that follow from them are kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

Left = tuple[int, ...]
"""What is left of a node's GPUs, in thousandths, the fullest first."""
State = tuple[int, Left, int]
"""The state of a node: its model, what is left of its GPUs, its free thousandths of CPUs."""
Types = list[tuple[int, float, float]]
"""Typical shapes that use GPUs alike, the fewest CPUs first: the CPUs, how often the shape comes,
and how much of GPUs each thousandth of a CPU feeds."""
Kind = tuple[int, int, Types]
"""A kind of GPU use: thousandths of each GPU, the number of GPUs, and the shapes of that kind."""

ENDLESS: Final = 1e12
KEPT_MAX: Final = 1 << 16
"""The most states whose sum is kept; a quarter as many without CPUs, each a few hundred bytes."""


class Usefulness:
    """The same as `LeastFragmentation` has it for many nodes at once.

    `weights`: by how much of each GPU, how many GPUs, and CPUs a typical shape needs, how often it
    comes on each model, all of it together being `total`. `fed_part` of what a shape could use
    depends on CPUs.
    """

    def __init__(
        self,
        weights: Mapping[tuple[int, int, int], Sequence[int]],
        models: int,
        total: int,
        fed_part: float,
    ) -> None:
        self._kinds: list[list[Kind]] = [[] for _ in range(models)]
        """The kinds of GPU use for each model."""
        for model, kinds in enumerate(self._kinds):
            types: dict[tuple[int, int], list[tuple[int, float, float]]] = {}
            for (milli, gpus, cpu), counts in sorted(weights.items()):
                fed = fed_part * milli * gpus / cpu if cpu else ENDLESS
                if counts[model]:
                    own = cpu, counts[model] / max(total, 1), fed
                    types.setdefault((milli, gpus), []).append(own)
            kinds += [(milli, gpus, found) for (milli, gpus), found in types.items()]
        self._fed_part = fed_part
        self._known: dict[State, float] = {}
        self._rows: dict[tuple[int, Left], list[tuple[int, Types]]] = {}
        """For each kind of GPU use that has room, how much of the GPUs it could use."""

    def of(self, state: State) -> float:
        """Thousandths of GPUs."""
        found = self._known.get(state)
        if found is not None:
            return found
        model, left, cpu = state
        row = self._rows.get((model, left))
        if row is None:
            row = self._row(model, left)
        useful, fed_part = 0.0, self._fed_part
        for usable, types in row:
            at_most = fed_part * usable
            anyway = usable - at_most
            for cpu_needed, weight, by_cpu in types:
                if cpu_needed > cpu:
                    break
                fed = by_cpu * cpu
                most = fed if fed < at_most else at_most  # noqa: FURB136  # a call costs more here
                useful += weight * (anyway + most)
        if len(self._known) >= KEPT_MAX:
            self._known.clear()
        self._known[state] = useful
        return useful

    def _row(self, model: int, left: Left) -> list[tuple[int, Types]]:
        row = []
        count = len(left)
        for milli, gpus, types in self._kinds[model]:
            first = bisect_left(left, milli)
            if count - first >= gpus:
                row.append((sum(left[first:]), types))
        if len(self._rows) >= KEPT_MAX // 4:
            self._rows.clear()
        self._rows[model, left] = row
        return row
