"""How fast memory changes places: two programs that do not fit together, from the end of the last
kernel of the one to the first launch of the other.

The least possible is what has to move, at the link's rate, both ways at once. The link of the
simulated card is slow enough that this machine's own copying hardly counts, and the deficits are to
it what some GiB are to a real one. The baseline is what the driver's own copies of as many bytes
take, both ways at once, in pieces of the same size and with nothing else to do.

The programs run without hashes (`MOIETY_CLEAN=off`), so that all that has to leave is copied:
simgpu computes hashes with the processor, at about the rate of this link, and a card 1,000 times
faster. What hashes are worth is measured in `serving.py`, in charged time. The smallest deficit is
measured with them, too, and stands in the note.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench.figure import Figure
from moiety.agent.control.client import call
from moiety.agent.control.protocol import Recorded
from moiety.agent.system.paths import Directory
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node, finish
from moiety.trace.recording import Recording
from tests.support.native import compile_c

HERE = Path(__file__).resolve().parent
LINK_BYTES_PER_S = 1_000_000_000
MIB = 1 << 20
CAPACITY_BYTES = 1088 * MIB
GPU = f"A100-80:memory=1360MiB,residue=2MiB,link={LINK_BYTES_PER_S // 1_000_000}MB/s,keep=3GiB"
DEFICITS = (64 * MIB, 256 * MIB, 1024 * MIB)
SECONDS = {64 * MIB: 5, 256 * MIB: 8, 1024 * MIB: 20}
COLD = 2
"""Hand-offs that are left out: host memory is touched for the first time."""


class Moved(NamedTuple):
    """One deficit."""

    deficit_bytes: int
    times_s: list[float]
    bytes: list[int]
    plain_s: float

    @property
    def least_s(self) -> float:
        """What the link alone takes."""
        return self.deficit_bytes / LINK_BYTES_PER_S

    @property
    def time_ratio(self) -> float:
        """Median."""
        return statistics.median(self.times_s) / self.least_s

    @property
    def bytes_ratio(self) -> float:
        """The worst."""
        return max(self.bytes, default=0) / self.deficit_bytes


def gaps(text: str) -> list[tuple[int, int]]:
    """When a program stood, in ns."""
    rows = [line.split() for line in text.splitlines()]
    return [(int(begin), int(end)) for begin, end in rows]


def hand_offs(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> list[float]:
    """From the end of a program's last work to the other's first launch after it, in seconds."""
    found = []
    for mine, others in ((one, other), (other, one)):
        for begin, end in mine:
            nexts = [e for _, e in others if begin < e <= end]
            if nexts:
                found.append((begin, (min(nexts) - begin) / 1e9))
    return [seconds for _, seconds in sorted(found)]


def measure_deficit(folder: Path, deficit: int, clean: str = "off") -> Moved:
    """Both programs on a card that lacks `deficit` for both."""
    each = (CAPACITY_BYTES + deficit) // 2 - 2 * MIB  # and a slab for a word
    kernels = Path(str(simgpu_dir())) / "kernels.elf"
    with Node(folder, GPU) as node:
        node.env["MOIETY_CLEAN"] = clean
        node.start_agent("--capacity", str(CAPACITY_BYTES), "--quantum", "50ms")
        programs = [node.run([folder / "turns", kernels, each, SECONDS[deficit]]) for _ in "ab"]
        results = [finish(program) for program in programs]
        if any(code for code, _, _ in results):
            raise AssertionError(f"a program failed: {results}")
        recording = Recording()
        with call(Directory(node.directory)) as line:
            recording.fetch(lambda request: line.ask(request, Recorded))
        plain = finish(node.run_alone([folder / "plain_swap", deficit]))
        if plain[0]:
            raise AssertionError(f"the copies failed: {plain}")
    evicted = [s for s in recording.spans if s.kind == "evicting"]
    times = hand_offs(*(gaps(out) for _, out, _ in results))
    return Moved(deficit, times[COLD:-1], [s.bytes for s in evicted[COLD:-1]], float(plain[1]))


def measure() -> list[Figure]:
    """The worst of all deficits, with each in the note."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        flags = (f"-I{HERE.parent / 'native'}", f"{simgpu_dir()}/libcuda.so.1", "-O2")
        for program in ("turns", "plain_swap"):
            compile_c([HERE / "native" / f"{program}.c"], folder / program, flags=flags)
        moved = [measure_deficit(folder, deficit) for deficit in DEFICITS]
        hashing = measure_deficit(folder, DEFICITS[0], "on")
    worst = max(moved, key=lambda m: m.time_ratio)
    each = ", ".join(
        f"{m.deficit_bytes // MIB} MiB {m.time_ratio:.3f} (copies {m.plain_s / m.least_s:.3f})"
        for m in moved
    )
    samples = sum(len(m.times_s) for m in moved)
    return [
        Figure(
            "swap_time_ratio",
            worst.time_ratio,
            "",
            1.15,
            "lower",
            "simgpu",
            samples,
            worst.plain_s / worst.least_s,
            f"A100-80 with link=1GB/s: {each}; with hashes by the processor "
            f"{DEFICITS[0] // MIB} MiB {hashing.time_ratio:.3f}",
        ),
        Figure(
            "swap_bytes_ratio",
            max(m.bytes_ratio for m in moved),
            "",
            1.0,
            "lower",
            "simgpu",
            sum(len(m.bytes) for m in moved),
            1.0,
            "the worst hand-off; " + ", ".join(f"{m.deficit_bytes // MIB} MiB" for m in moved),
        ),
    ]
