"""What tenants that are gone leave in the agent: ten thousand of them, one after the other.

Each tenant is a process of its own in a workload of its own, as `tests.support.churn` has it: it
is refused things, takes turns with others, some of it is moved out, and it goes in one of several
ways. The agent is a real one on a real socket, on simgpu; after each 250, when nothing of them is
under way any more, it collects its garbage and says what it has (`tests.support.memory_probe`).

The figures are slopes from the first thousand to the last, fitted by least squares, in bytes a
tenant: of the memory that the kernel counts (VmRSS), and of the bytes that are in use in it, as
Python's and the C library's allocators count them. Memory comes in pages, of which now more and now
fewer are touched; so each slope has an error, and the figure is 0 where 0 is within two of them.
The note has slope, error and what there was at both ends. The first thousand fill what is bounded:
the events, the last names, and the sentences of the timeline, whose records take no more at all.
"""

from __future__ import annotations

import math
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from bench.figure import Figure
from moiety.agent.system.paths import Directory
from moiety.testing.node import Node, signals_held
from tests.support.children import with_checkout
from tests.support.churn import ASKS, TOGETHER, Crowd
from tests.support.memory_probe import VARIABLE, Weight
from tests.support.native import native_dir

GPU: Final = "A100-80:memory=64MiB,residue=1MiB,link=2GB/s"
OPTIONS: Final = ("--turn-min", "2ms", "--turn-factor", "0", "--linger", "0", "--idle-exit", "0")
TENANTS: Final = 10_000
FIRST: Final = 1000
"""So many fill what is bounded."""
STEP: Final = 250
PASSING: Final = "moiety.agent.core.client.Client"
"""For some seconds after a process is gone, its gang is looked after."""


class Scales:
    """An agent that tenants come to, and that is weighed now and then."""

    def __init__(self, folder: Path, native: Path, *options: str, asks: int = ASKS) -> None:
        """`options` of the agent, besides OPTIONS; `asks`: what each tenant asks for in vain."""
        self._asks = asks
        self._options = (*OPTIONS, *options)
        self._node = Node(folder, GPU, native=native)
        self._weight = folder / "weight.json"
        self._crowd: Crowd | None = None
        self.directory = Directory(self._node.directory)

    def __enter__(self) -> Self:
        log = (self._node.folder / "agent.log").open("w")
        with log, signals_held():
            self._agent = subprocess.Popen(
                [sys.executable, "-m", "tests.support.memory_probe", *self._options],
                env=with_checkout({**self._node.env, VARIABLE: str(self._weight)}),
                stdout=log,
                stderr=log,
                text=True,
            )
            self._node.started.append(self._agent)
        self._node.until(lambda: self._node.is_ready(self._agent), "the agent is ready")
        self._crowd = Crowd(self.directory, asks=self._asks)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._node.__exit__(kind, error, trace)

    def pass_by(self, tenants: int) -> None:
        """So many come and go."""
        assert self._crowd is not None
        self._crowd.pass_by(tenants)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for it; AssertionError if it never comes."""
        self._node.until(condition, what)

    def weigh(self) -> Weight:
        """What the agent has now."""
        self._weight.unlink(missing_ok=True)
        self._agent.send_signal(signal.SIGUSR1)
        self._node.until(self._weight.exists, "the agent says what it has")
        return msgspec.json.decode(self._weight.read_bytes(), type=Weight)

    def weigh_at_rest(self) -> Weight:
        """What it has once nothing is under way any more."""
        self.until(lambda: PASSING not in self.weigh().objects, "nothing is under way any more")
        return self.weigh()


def measure() -> list[Figure]:
    """Ten thousand tenants."""
    native = native_dir()
    if native is None:
        raise FileNotFoundError("the native libraries are not built")
    with tempfile.TemporaryDirectory(prefix="mty") as name, Scales(Path(name), native) as scales:
        weights: dict[int, Weight] = {}
        for tenants in range(STEP, TENANTS + 1, STEP):
            scales.pass_by(STEP)
            weights[tenants] = scales.weigh_at_rest()
            print(told(tenants, weights[tenants]), flush=True)
    return figures(weights)


def told(tenants: int, weight: Weight) -> str:
    """One weighing, in words."""
    mebibytes = weight.resident_bytes / (1 << 20)
    return f"{tenants} tenants: {mebibytes:.2f} MiB resident, {weight.live_bytes} B in use"


def figures(weights: dict[int, Weight]) -> list[Figure]:
    """The slopes over weighings, by how many tenants had come and gone before each."""
    found = []
    for name, what in (
        ("agent_growth_bytes_per_tenant", "resident_bytes"),
        ("agent_growth_live_bytes_per_tenant", "live_bytes"),
    ):
        amounts = {
            tenants: float(getattr(weight, what))
            for tenants, weight in weights.items()
            if tenants >= FIRST
        }
        slope, error = fitted(amounts)
        first, last = min(amounts), max(amounts)
        note = (
            f"{slope:+.1f} B, standard error {error:.1f} B, over {len(amounts)} weighings from "
            f"{first} to {last} tenants, {TOGETHER} at a time; {amounts[first] / 1024:.0f} KiB "
            f"after {first}, {amounts[last] / 1024:.0f} KiB after {last}; {GPU}"
        )
        value = 0.0 if abs(slope) <= 2 * error else round(slope, 1)
        found.append(Figure(name, value, "B", 0, "lower", "simgpu", len(amounts), None, note))
    return found


def fitted(amounts: dict[int, float]) -> tuple[float, float]:
    """The slope of a line through amounts, fitted by least squares, and its standard error."""
    line = statistics.linear_regression(list(amounts), list(amounts.values()))
    left = sum((y - line.intercept - line.slope * x) ** 2 for x, y in amounts.items())
    spread = sum((x - statistics.fmean(amounts)) ** 2 for x in amounts)
    return line.slope, math.sqrt(left / max(1, len(amounts) - 2) / spread)
