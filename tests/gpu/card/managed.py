"""Managed memory, far less of it than is free: faults, prefetches, advice. The last section.

A program that asks for more managed memory than the card has free can hang the card; so no more
than a sixteenth of what is free is ever asked for here.
"""

from __future__ import annotations

import ctypes
import statistics
import time

from tests.gpu.card.driver import MIB
from tests.gpu.card.run import Run, gb_per_s
from tests.gpu.card.timing import spread

PAGE = 4096
BLOCK = 2 * MIB
HOST, DEVICE = (2, 0), (1, 0)


def measure(run: Run) -> None:
    """One piece of memory, there and back in each way."""
    driver = run.driver
    free, _ = driver.memory()
    size = min((16 if run.quick else 256) * MIB, free // 16) // BLOCK * BLOCK
    run.note("mib", size // MIB)
    touch, stream = driver.kernels()["touch_u64"], driver.stream()
    at = driver.get("cuMemAllocManaged", size, 1)

    def on_card(stride: int) -> float:
        began = time.perf_counter()
        driver.launch(touch, (at, size // 8, stride), stream, blocks=256, threads=128)
        driver.sync(stream)
        return time.perf_counter() - began

    def on_host() -> float:
        began = time.perf_counter()
        ctypes.memset(at, 1, size)
        return time.perf_counter() - began

    try:
        with run.part("faults"):
            run.note("first_touch_by_host_gb_per_s", gb_per_s(size, on_host()))
            faults_s = [on_card(PAGE // 8)]
            there_s = statistics.median(on_card(PAGE // 8) for _ in range(5))
            back_s = on_host()
            faults_s.append(on_card(PAGE // 8))
            faulted = statistics.median(faults_s)
            run.note("fault_in_gb_per_s", gb_per_s(size, faulted))
            run.note("resident_touch_ms", round(there_s * 1000, 4))
            run.note("fault_back_gb_per_s", gb_per_s(size, back_s))
            run.note("fault_us_per_2mib", round((faulted - there_s) / (size / BLOCK) * 1e6, 2))
        with run.part("prefetch"):
            for name, place in (("out", HOST), ("in", DEVICE)):
                took = []
                for _ in range(3):
                    prefetch(run, at, size, DEVICE if place == HOST else HOST, stream)
                    took.append(prefetch(run, at, size, place, stream))
                run.note(f"prefetch_{name}_gb_per_s", gb_per_s(size, statistics.median(took)))
        with run.part("advice"):
            name = "cuMemAdvise" if driver.has("cuMemAdvise") else "cuMemAdvise_v2"
            for advice, number in (("preferred_location", 3), ("accessed_by", 5)):
                rows = [(at + i * BLOCK, BLOCK, number, 0) for i in range(size // BLOCK)]
                run.note(f"advise_{advice}", spread(run.timer.rows(name, rows)))
    finally:
        driver.sync()
        driver.call("cuMemFree_v2", at)


def prefetch(run: Run, at: int, size: int, place: tuple[int, int], stream: int) -> float:
    """Seconds until all of it is there."""
    kind, number = place
    began = time.perf_counter()
    if run.driver.has("cuMemPrefetchAsync"):
        device = -1 if kind == HOST[0] else number
        run.driver.call("cuMemPrefetchAsync", at, size, device, stream)
    else:
        run.driver.call("cuMemPrefetchAsync_v2", at, size, kind | number << 32, 0, stream)
    run.driver.sync(stream)
    return time.perf_counter() - began
