"""What free GPUs are good for, remembered by what is left of each: the default rule's sums for few.

Between two decisions few nodes change, and arrays are slow for few numbers. How useful a node is
depends on its model, on what is left of its GPUs and on its free CPUs. Of the first two there are a
few thousand combinations in all that a cluster goes through, so what follows from them is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Left = tuple[int, ...]
"""what is left of a node's GPUs, in thousandths, the fullest first"""

ROWS_MIN: Final = 64
ROWS_MAX: Final = 1 << 14
"""combinations that are kept; with 30 typical shapes half a KiB each"""


class Usefulness:
    """The same as `LeastFragmentation` has it for many nodes at once, for few.

    U kinds of GPU use, M typical shapes: `tallies`, [1001, 2U]; `gpus_needed`, [U]; `kind`,
    `cpu_needed` and `fed_by_cpu`, [M]; `weight`, [models, M]. `fed_part` is what depends on CPUs.
    """

    def __init__(
        self,
        tallies: Floats,
        gpus_needed: Floats,
        kind: npt.NDArray[np.intp],
        cpu_needed: Floats,
        fed_by_cpu: Floats,
        weight: Floats,
        fed_part: float,
    ) -> None:
        self._tallies = tallies
        self._gpus_needed = gpus_needed
        self._kind = kind
        self._cpu_needed = cpu_needed
        self._weight = weight
        self._fed_by_cpu = fed_by_cpu * weight
        self._fed_part = fed_part
        self._row_of: dict[tuple[int, Left], int] = {}
        self._rows: Floats = np.empty((ROWS_MIN, 2, len(kind)))
        """[combinations, 2, M]: what each shape could use, and could per thousandth of a CPU, each
        times how often the shape comes"""

    def of(self, nodes: Sequence[tuple[int, Left]], cpus: Sequence[int]) -> list[float]:
        """Thousandths of GPUs, for nodes of these models with so much left, and so many CPUs."""
        if len(self._row_of) + len(nodes) > ROWS_MAX:
            self._row_of.clear()
        found = self._row_of.get
        rows = [row if (row := found(node)) is not None else self._new(node) for node in nodes]
        both = self._rows.take(rows, 0)
        useful, by_cpu = both[:, 0], both[:, 1]
        cpu = np.array(cpus, float)[:, None]
        by_cpu *= cpu
        np.minimum(by_cpu, useful * self._fed_part, out=by_cpu)
        useful *= 1 - self._fed_part
        useful += by_cpu
        useful *= cpu >= self._cpu_needed
        total: list[float] = np.add.reduce(useful, 1).tolist()
        return total

    def _new(self, node: tuple[int, Left]) -> int:
        model, left = node
        row = len(self._row_of)
        if row == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._row_of[node] = row
        tally = self._tallies.take(left, 0).sum(0)
        kinds = len(self._gpus_needed)
        usable = tally[kinds:] * (tally[:kinds] >= self._gpus_needed)
        self._rows[row, 0] = usable.take(self._kind)
        self._rows[row, 0] *= self._weight[model]
        self._rows[row, 1] = self._fed_by_cpu[model]
        return row
