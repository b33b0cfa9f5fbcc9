"""Two processes on one card at the same time: what becomes of copies, and of the GPU's time."""

from __future__ import annotations

import statistics
import time
from collections import deque
from itertools import pairwise
from typing import Any

from tests.gpu.card.driver import MIB
from tests.gpu.card.peer import Peer, serve
from tests.gpu.card.run import Run

KERNEL_US = 200
DEPTH = 16
"""kernels that wait behind each other, so that the card always has some of ours"""
READY_S = 0.2


def measure(run: Run) -> None:
    """Copies in each combination of directions; then kernels."""
    seconds = 0.3 if run.quick else 2.0
    size = run.host_size(64 * MIB, 0.1)
    with run.part("copies"):
        run.note("copies", copies(run, size, seconds))
    with run.part("slices"):
        run.note("slices", slices(run, seconds))


class Copying:
    """Copies in one direction until the time is over."""

    def __init__(self, run: Run, size: int) -> None:
        self.driver, self.size = run.driver, size
        self.host = self.driver.get("cuMemHostAlloc", size, 1)
        self.device = self.driver.get("cuMemAlloc_v2", size)
        self.stream = self.driver.stream()

    def go(self, way: str, seconds: float) -> float:
        """GB/s."""
        events = deque(self.driver.event() for _ in range(4))
        done, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            event = events.popleft()
            self.driver.call("cuEventSynchronize", event)
            if way == "h2d":
                call, to, of = "cuMemcpyHtoDAsync_v2", self.device, self.host
            else:
                call, to, of = "cuMemcpyDtoHAsync_v2", self.host, self.device
            self.driver.call(call, to, of, self.size, self.stream)
            self.driver.call("cuEventRecord", event, self.stream)
            events.append(event)
            done += self.size
        self.driver.sync(self.stream)
        return round(done / (time.perf_counter() - began) / 1e9, 3)

    def end(self) -> None:
        """Give it back."""
        self.driver.call("cuMemFree_v2", self.device)
        self.driver.call("cuMemFreeHost", self.host)


def copies(run: Run, size: int, seconds: float) -> dict[str, Any]:
    """Rates of this process and of the other one."""
    copying = Copying(run, size)
    found: dict[str, Any] = {}
    with Peer("beside") as peer:
        peer.ask(f"memory {size}")
        for way in ("h2d", "d2h"):
            found[f"{way}_alone_gb_per_s"] = copying.go(way, seconds)
        for ours, theirs in (("h2d", "h2d"), ("d2h", "d2h"), ("h2d", "d2h")):
            peer.tell(f"copy {theirs} {seconds + 2 * READY_S}")
            time.sleep(READY_S)
            own = copying.go(ours, seconds)
            other = peer.hear()["gb_per_s"]
            found[f"{ours}_beside_{theirs}_gb_per_s"] = [own, other]
    copying.end()
    return found


def ends(run: Run, seconds: float) -> list[float]:
    """When each of many kernels in a row was seen to end, in ms."""
    driver = run.driver
    spin, stream = driver.kernels()["spin_us"], driver.stream()
    waiting: deque[int] = deque()
    free = [driver.event() for _ in range(DEPTH)]
    found = []
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        if not free:
            event = waiting.popleft()
            driver.call("cuEventSynchronize", event)
            found.append((time.perf_counter() - began) * 1000)
            free.append(event)
        event = free.pop()
        driver.launch(spin, (KERNEL_US,), stream)
        driver.call("cuEventRecord", event, stream)
        waiting.append(event)
    driver.sync(stream)
    return found


def gaps(found: list[float]) -> dict[str, Any]:
    """What the ends say: pauses much longer than a kernel are the other one's turns."""
    between = [later - earlier for earlier, later in pairwise(found)]
    if not between:
        return {"kernels": 0}
    long = [gap for gap in between if gap > 3 * KERNEL_US / 1000]
    wall = found[-1] - found[0]
    return {
        "kernels": len(found),
        "share": round(len(between) * KERNEL_US / 1000 / wall, 3),
        "median_ms": round(statistics.median(between), 3),
        "longest_ms": round(max(between), 3),
        "pauses": len(long),
        "pause_median_ms": round(statistics.median(long), 3) if long else None,
        "turn_median_ms": round((wall - sum(long)) / (len(long) + 1), 3),
    }


def slices(run: Run, seconds: float) -> dict[str, Any]:
    """How the card divides its time when nobody arbitrates."""
    found: dict[str, Any] = {"alone": gaps(ends(run, seconds))}
    with Peer("beside") as peer:
        peer.ask("context")
        peer.tell(f"spin {seconds + 2 * READY_S}")
        time.sleep(READY_S)
        found["beside_another"] = gaps(ends(run, seconds))
        peer.hear()
        found["beside_an_idle_one"] = gaps(ends(run, seconds))
    return found


def beside_peer() -> None:
    """The other process."""
    run = Run(quick=True, deadline_s=0.0)
    copying: list[Copying] = []

    def step(what: str) -> dict[str, Any] | None:
        word, *rest = what.split()
        if word == "memory":
            copying.append(Copying(run, int(rest[0])))
        elif word == "copy":
            return {"gb_per_s": copying[0].go(rest[0], float(rest[1]))}
        elif word == "spin":
            return gaps(ends(run, float(rest[0])))
        else:
            run.driver.kernels()
        return None

    serve(step)
