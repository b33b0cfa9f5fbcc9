"""How near a hand-off comes to what the machine allows.

The floor is four bare messages between sleeping C programs that decide nothing: the waiting one
asks, the holder is asked, it answers, and the waiting one goes on. Hand-off and floor are measured
by turns, so that both see the same load; the figure is the median of the ratios of these pairs.
Without queued work the holder sleeps between single kernels, as the programs of the floor do; with
it (`busy`) the holder keeps 20 us kernels queued. Both are measured as the agent is by default,
with the native thread that carries out what the arbiter has armed, and without it (`python`,
[agent] fast-handoff = false). The notes say what became of the messages that can change a lease:
`fired` and `asked` were carried out or let pass by the thread, the others were left to Python.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from bench.figure import Figure
from bench.handoff import GPU, HERE, PAUSE_S, Bench, handoffs
from tests.support.native import compile_c

PAIRS = 10
SECONDS, HOLDS_S = 3, 10
"""How long the waiting program and the holder run: the holder still does when the other starts."""
EXCHANGES = 250
HOLDERS = (
    ("", "kernel=20 sleep=4000", 1.3),
    ("_busy", "kernel=20 row=2048", 1.6),
)
AGENTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ()),
    ("_python", ("--fast-handoff=false",)),
)


def floor_us(program: Path) -> float:
    """The median of the four messages."""
    command = [str(program), f"pause={PAUSE_S * 1e6:.0f}", f"times={EXCHANGES}"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return statistics.median(map(float, said.stdout.split()))


def handoff_us(folder: Path, holder: str, options: tuple[str, ...], counts: Counter[str]) -> float:
    """The median of the hand-offs from such a holder to a program that sleeps.

    `counts` says what became of the messages that can change a lease (`ReaderCounts`).
    """
    waiter = f"kernel=20 sleep={PAUSE_S * 1e6:.0f} seconds={SECONDS}"
    holds = f"{holder} least=1000000 seconds={HOLDS_S}"
    bench = Bench(folder, GPU)
    said, recording = bench.run(
        [(["--gpu", "0.6"], holds), (["--gpu", "0.3", "--latency"], waiter)], *options
    )
    counts.update(bench.counts)
    return statistics.median(each.whole_us for each in handoffs(said[1], recording))


def measure() -> list[Figure]:
    """Both kinds of holders, with both kinds of agents."""
    figures = []
    with tempfile.TemporaryDirectory(prefix="mty") as place:
        folder = Path(place)
        exchange = compile_c(
            [HERE / "native" / "exchange.c"],
            folder / "exchange",
            flags=(f"-I{HERE.parent / 'native'}",),
        )
        for kind, holder, bar in HOLDERS:
            rows: list[tuple[float, list[float]]] = []
            counts: dict[str, Counter[str]] = {name: Counter() for name, _ in AGENTS}
            for number in range(PAIRS):
                order = AGENTS[:: -1 if number % 2 else 1]
                least_us = floor_us(exchange)
                found = {
                    name: handoff_us(folder, holder, options, counts[name])
                    for name, options in order
                }
                rows.append((least_us, [found[name] for name, _ in AGENTS]))
            for at, (agent, _) in enumerate(AGENTS):
                name = f"handoff{agent}{kind}_over_floor_ratio"
                pairs = [(least, whole[at]) for least, whole in rows]
                figures.append(_figure(name, bar, pairs, counts[agent]))
    return figures


def _figure(
    name: str, bar: float, pairs: list[tuple[float, float]], counts: Counter[str]
) -> Figure:
    """The median of the ratios of some pairs of floor and hand-off, in microseconds."""
    ratios = sorted(whole_us / least_us for least_us, whole_us in pairs)
    return Figure(
        name,
        statistics.median(ratios),
        "",
        bar,
        "lower",
        "simgpu",
        len(pairs),
        1.0,
        f"{ratios[0]:.1f} to {ratios[-1]:.1f}; hand-off "
        f"{statistics.median(whole_us for _, whole_us in pairs):.0f} us, four messages "
        f"{statistics.median(least_us for least_us, _ in pairs):.0f} us"
        + "".join(f", {name} {count}" for name, count in counts.items()),
    )
