"""Servers whose weights do not change: what leaves at a hand-off, and how long the hand-off takes.

Two servers that each fill the card, 95 % of it weights, take turns. Bytes copied out are compared
with the chunks that changed, and the time of a hand-off with what has to move at the link's rate.
Two programs that change all of their memory are measured with and without hashing. Times are by
simgpu's clock (`charged=1`): hashing takes what the card's bandwidth gives, copies what the link
gives, and the clock stands still while this machine's processor does either.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from bench.figure import Figure
from bench.swap import COLD, HERE, MIB, gaps, hand_offs
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node, finish
from moiety.testing.waiting import until
from tests.support.native import compile_c

LINK_BYTES_PER_S = 250_000_000
CAPACITY_BYTES = 164 * MIB
GPU = (
    f"A100-80:memory=256MiB,residue=2MiB,link={LINK_BYTES_PER_S // 1_000_000}MB/s,keep=1GiB,"
    "bandwidth=18GB/s,charged=1"
)
"""The card's memory is a hundred times slower than a real one's, as its link is."""
KEPT_BYTES, CHANGED_BYTES = 152 * MIB, 8 * MIB
SECONDS = 30
ROUNDS = 120
SPIN_US = {False: 200, True: 5000}
"""Of a round. Where rounds are counted, one is so long that the processor's time for launches
changes little."""
CLEAN = {True: "on", False: "off"}


def taking_turns(
    folder: Path, kept: int, changed: int, rounds: int, *, clean: bool
) -> tuple[list[str], list[dict[str, int]]]:
    """What two servers printed, and their rows of `ps` when half of their time was over."""
    kernels = Path(str(simgpu_dir())) / "kernels.elf"
    command = [folder / "server", kernels, kept, changed, SECONDS, rounds, SPIN_US[rounds > 0]]
    with Node(folder, GPU) as node:
        node.env["MOIETY_CLEAN"] = CLEAN[clean]
        node.start_agent("--capacity", str(CAPACITY_BYTES), "--quantum", "50ms")
        programs = [node.run(command) for _ in "ab"]
        rows: list[dict[str, int]] = []
        if not rounds:
            rows += until(lambda: after(node, 2), "some turns")
            rows += until(lambda: after(node, 5), "more turns")
        results = [finish(program) for program in programs]
    if any(code for code, _, _ in results):
        raise AssertionError(f"a program failed: {results}")
    return [out for _, out, _ in results], rows


def after(node: Node, times: int) -> list[dict[str, int]]:
    """The rows of both programs once all of each has left so often; before that, none."""
    rows: list[dict[str, int]] = node.json("ps")
    least = times * (KEPT_BYTES + CHANGED_BYTES)
    left = [row["evicted_bytes"] + row["zero_bytes"] >= least for row in rows]
    return rows if left == [True, True] else []


def changed_ratio(rows: list[dict[str, int]]) -> float:
    """Bytes copied out for each byte of the chunks that changed, between the two looks."""
    copied = changed = 0
    for first, last in zip(rows[:2], rows[2:], strict=True):
        out = last["evicted_bytes"] - first["evicted_bytes"]
        left = out + last["zero_bytes"] - first["zero_bytes"]
        copied += out
        changed += CHANGED_BYTES * round(left / (KEPT_BYTES + CHANGED_BYTES))
    return copied / changed


def took_s(texts: list[str]) -> float:
    """The time of the program that took longest."""
    return max(int(text.split("took ")[1]) for text in texts) / 1e9


def measure() -> list[Figure]:
    """Servers with hashing, and programs that change everything with and without."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        flags = (f"-I{HERE.parent / 'native'}", f"{simgpu_dir()}/libcuda.so.1", "-O2")
        compile_c([HERE / "native" / "server.c"], folder / "server", flags=flags)
        texts, rows = taking_turns(folder, KEPT_BYTES, CHANGED_BYTES, 0, clean=True)
        _, plain_rows = taking_turns(folder, KEPT_BYTES, CHANGED_BYTES, 0, clean=False)
        all_changed = (2 * MIB, KEPT_BYTES + CHANGED_BYTES - 2 * MIB, ROUNDS)
        with_s = took_s(taking_turns(folder, *all_changed, clean=True)[0])
        without_s = took_s(taking_turns(folder, *all_changed, clean=False)[0])
    times = hand_offs(*(gaps(text.split("took")[0]) for text in texts))[COLD:-1]
    least_s = (KEPT_BYTES + CHANGED_BYTES) / LINK_BYTES_PER_S
    note = "A100-80 with link=250MB/s and bandwidth=18GB/s, charged time, 160 MiB each"
    return [
        Figure(
            "evict_changed_bytes_ratio", changed_ratio(rows), "", 1.02, "lower", "simgpu",
            len(times), changed_ratio(plain_rows), f"{note}; beside it, MOIETY_CLEAN=off",
        ),
        Figure(
            "swap_clean_time_ratio", statistics.median(times) / least_s, "", 1.15, "lower",
            "simgpu", len(times), None, note,
        ),
        Figure(
            "hash_overhead_ratio", with_s / without_s, "", 1.02, "lower", "simgpu", 1, None,
            f"{note}, all of it changed: {with_s:.1f} s with, {without_s:.1f} s without",
        ),
    ]  # fmt: skip
