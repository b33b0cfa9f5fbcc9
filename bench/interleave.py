"""How long short work waits beside a program that never stops, where both do not fit.

One program keeps the GPU busy; another one does 5 ms of work about each half second. Each needs
almost all of the memory, so each time all that does not fit has to move. What counts is how much
longer than its 5 ms the work takes, as the program sees it. The bar is twice the time of that move
at the rate of the link. The baseline is the peer's rule: a lock that a busy program keeps for 30 s,
of which work that comes at any time waits for half on average.

Measured without hashes (`MOIETY_CLEAN=off`): simgpu computes them with the processor, which takes
as long as the link does; a card reads 70 times as fast as its link. With hashes it is in the note.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from bench.figure import Figure
from bench.handoff import Bench, capacity_bytes, percentile
from moiety.trace.recording import Recording

LINK_BYTES_PER_S = 1_500_000_000
GPU = f"A100-80:memory=72MiB,link={LINK_BYTES_PER_S // 1_000_000}MB/s,residue=2MiB"
PART = 0.96
WORK_MS, PAUSE_MS = 5, 500
SECONDS = 30
SECONDS_HASHING = 15
LEARNED = 6
"""So many of its first times do not count: the agent learns from them."""
PEERS_WAIT_MS = 15_000.0


def waits(size: int, seconds: int, clean: str) -> tuple[list[float], Recording]:
    """How long each time took beyond its work, in ms, and the agent's timeline."""
    hog = f"bytes={size} kernel=1000 row=16 least=100000000 seconds={seconds + 2}"
    short = f"bytes={size} kernel=1000 row={WORK_MS} sleep={PAUSE_MS}000 calls=1 seconds={seconds}"
    with tempfile.TemporaryDirectory(prefix="mty") as folder:
        bench = Bench(Path(folder), GPU)
        bench.env["MOIETY_CLEAN"] = clean
        said, recording = bench.run([([], hog), ([], short)])
    waits_ms = [(end_s - begin_s) * 1e3 - WORK_MS for begin_s, end_s in said[1].calls]
    return waits_ms[LEARNED:], recording


def measure() -> list[Figure]:
    """The median of the waits."""
    capacity = capacity_bytes(GPU)
    size = int(capacity * PART) // 8 * 8
    move_ms = (2 * size - capacity) / LINK_BYTES_PER_S * 1e3
    waits_ms, recording = waits(size, SECONDS, "off")
    hashing_ms, _ = waits(size, SECONDS_HASHING, "on")
    held_s = sum(s.end_s - s.begin_s for s in recording.spans if s.kind == "held")
    turns = sum(s.kind == "held" for s in recording.spans)
    return [
        Figure(
            "interleave_wait_p50_ms",
            statistics.median(waits_ms),
            "ms",
            2 * move_ms,
            "lower",
            f"simgpu ({GPU})",
            len(waits_ms),
            PEERS_WAIT_MS,
            f"p90 {percentile(waits_ms, 0.9):.0f} ms; the move takes {move_ms:.0f} ms; {turns} "
            f"turns, {held_s:.1f} s with a lease; with hashes by the processor "
            f"{statistics.median(hashing_ms):.0f} ms; baseline: the peer's rule (30 s)",
        )
    ]
