"""Memory that somebody else has just given back: is it there at once, and is it clean?"""

from __future__ import annotations

import ctypes
import time
from collections import Counter
from typing import Any

from tests.gpu.card.driver import MIB, CudaError, Driver
from tests.gpu.card.links import uniform
from tests.gpu.card.peer import Peer, serve
from tests.gpu.card.run import Run, label

PATTERN = 0x5A
WAIT_S = 5.0


def measure(run: Run) -> None:
    """What a fresh chunk holds, and how soon a peer's memory is free again, three ways."""
    size = run.sizes(64, 2, of=run.card_bytes // 8)[0]
    count = max(2, min(run.card_bytes // size // 2, 4 if run.quick else 64))
    with run.part("own"):
        run.note(f"own_pattern_{label(size)}", own(run, size, count))
    for way in ("release", "exit", "kill"):
        with run.part(way):
            run.note(f"after_{way}", after(run, way, size, count))
    with run.part("times"):
        run.note(f"create_{label(size)}", times(run, size, count))


def contents(driver: Driver, at: int, size: int) -> Counter[str]:
    """What one chunk holds: `zeros`, the `pattern`, or else how much of a sample was which."""
    image = ctypes.create_string_buffer(size)
    driver.call("cuMemcpyDtoH_v2", image, at, size)
    value = uniform(ctypes.addressof(image), size)
    if value is not None:
        return Counter({{0: "zeros", PATTERN: "pattern"}.get(value, "other"): 1})
    sample = Counter(image.raw[:: size // 4096 + 1])
    most = sample.most_common(1)[0][0]
    return Counter({f"mixed, mostly {'pattern' if most == PATTERN else most}": 1})


def own(run: Run, size: int, count: int) -> dict[str, int]:
    """This process's own pattern, after the chunks were released and others created."""
    driver = run.driver
    with driver.chunks(size, count) as (base, _):
        driver.call("cuMemsetD8_v2", base, PATTERN, size * count)
    seen: Counter[str] = Counter()
    with driver.chunks(size, count) as (base, _):
        for i in range(count):
            seen += contents(driver, base + i * size, size)
    return dict(seen)


def after(run: Run, way: str, size: int, count: int) -> dict[str, Any]:
    """Another process fills as many chunks with a pattern and goes; then ours are created."""
    driver = run.driver
    free_before, _ = driver.memory()
    with Peer("pattern") as peer:
        peer.ask(f"take {size} {count}")
        taken = free_before - driver.memory()[0]
        began = time.perf_counter()
        if way == "release":
            peer.ask("release")
        elif way == "exit":
            peer.tell("exit")
        else:
            peer.kill()
        told_s = time.perf_counter() - began
        given, polls = 0, 0
        while given < size * count and time.perf_counter() - began < WAIT_S:
            given = driver.memory()[0] - (free_before - taken)
            polls += 1
        free_s = time.perf_counter() - began
        began = time.perf_counter()
        error, seen = "", Counter[str]()
        try:
            with driver.chunks(size, count) as (base, _):
                create_s = time.perf_counter() - began
                for i in range(count):
                    seen += contents(driver, base + i * size, size)
        except CudaError as failure:
            create_s, error = time.perf_counter() - began, str(failure)
        return {
            "mib": size * count // MIB,
            "told_ms": round(told_s * 1000, 3),
            "free_again_ms": round(free_s * 1000, 3) if given >= size * count else None,
            "looks": polls,
            "created_ms": round(create_s * 1000, 3),
            "error": error,
            "chunks_hold": dict(seen),
        }


def times(run: Run, size: int, count: int) -> dict[str, float]:
    """Is creating dearer when the memory was written before (it is scrubbed)? Median of each."""
    driver = run.driver
    found = {}
    for name, write in (("after_nothing", False), ("after_writing", True)):
        with driver.chunks(size, count) as (base, _):
            if write:
                driver.call("cuMemsetD8_v2", base, PATTERN, size * count)
                driver.sync()
        began = time.perf_counter()
        with driver.chunks(size, count):
            found[f"{name}_ms"] = round((time.perf_counter() - began) * 1000 / count, 4)
    return found


def pattern_peer() -> None:
    """Takes chunks and writes the pattern; gives them back, or ends."""
    driver = Driver()
    driver.start()
    held: list[Any] = []

    def step(what: str) -> None:
        if what.startswith("take"):
            size, count = (int(word) for word in what.split()[1:])
            held.append(driver.chunks(size, count))
            base, _ = held[0].__enter__()
            driver.call("cuMemsetD8_v2", base, PATTERN, size * count)
            driver.sync()
        elif what == "release":
            held.pop().__exit__(None, None, None)

    serve(step)
