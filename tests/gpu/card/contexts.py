"""What a process costs that only has a context: of the card's memory, and of the host's."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

from tests.gpu.card.driver import MIB, Driver, Nvml
from tests.gpu.card.peer import Peer, serve
from tests.gpu.card.run import Run

KINDS = ("primary", "created")


def measure(run: Run) -> None:
    """Each kind of context in a process of its own, seen from outside by NVML."""
    nvml = Nvml()
    for kind in KINDS:
        with run.part(kind):
            run.note(kind, look(nvml, kind))
    with run.part("two_processes"):
        before = settled(nvml)
        with Peer("context") as first, Peer("context") as second:
            first.ask("primary")
            second.ask("primary")
            run.note("two_processes_mib", round((settled(nvml) - before) / MIB, 1))
        run.note("left_behind_mib", round((settled(nvml) - before) / MIB, 1))


def settled(nvml: Nvml) -> int:
    """Used bytes, once they stand still for a moment."""
    used = nvml.memory()["used"]
    for _ in range(50):
        time.sleep(0.02)
        again = nvml.memory()["used"]
        if again == used:
            return used
        used = again
    return used


def look(nvml: Nvml, kind: str) -> dict[str, Any]:
    """Step by step."""
    facts: dict[str, Any] = {}
    before = settled(nvml)
    with Peer("context") as peer:
        for step in ("init", kind, "module", "launch", "streams", "second_module"):
            told = peer.ask(step)
            used = settled(nvml)
            facts[step] = {"card_mib": round((used - before) / MIB, 1), **told}
    return facts


def context_peer() -> None:
    """The process that makes a context, one step for each line that it reads."""
    driver = Driver()
    kept: list[Any] = []

    def step(what: str) -> dict[str, Any]:
        began = time.perf_counter()
        if what == "init":
            driver.call("cuInit", 0)
        elif what == "primary":
            driver.start()
        elif what == "created":
            driver.get("cuCtxCreate_v2", 0, 0)
        elif what in ("module", "second_module"):
            kept.append(driver.kernels())
        elif what == "launch":
            driver.launch(kept[0]["nop"])
            driver.sync()
        elif what == "streams":
            kept.append([driver.stream() for _ in range(32)])
        took_ms = round((time.perf_counter() - began) * 1000, 2)
        return {"took_ms": took_ms, **footprint()}

    serve(step)


def footprint() -> dict[str, Any]:
    """Of this process: resident memory, threads, open files, and NVIDIA's libraries."""
    status = Path("/proc/self/status").read_text()
    resident = re.search(r"VmRSS:\s+(\d+)", status)
    threads = re.search(r"Threads:\s+(\d+)", status)
    maps = Path("/proc/self/maps").read_text()
    names = {os.path.basename(path) for path in re.findall(r"(/\S*lib(?:cuda|nv)\S*)", maps)}
    return {
        "resident_mib": int(resident.group(1)) // 1024 if resident else None,
        "threads": int(threads.group(1)) if threads else None,
        "files": len(os.listdir("/proc/self/fd")),
        "libraries": sorted(names),
    }
