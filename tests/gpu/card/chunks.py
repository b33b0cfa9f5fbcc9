"""Chunks of memory behind reserved addresses: what each call costs, alone and beside other work."""

from __future__ import annotations

import ctypes
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.gpu.card.driver import MIB, NOT_READY, Access, Location, chunk_prop
from tests.gpu.card.peer import Peer, serve
from tests.gpu.card.run import Run, label
from tests.gpu.card.timing import launch_row, spread

RANGE = 64
"""chunks that one call makes accessible at once"""
MOST = 64


def measure(run: Run) -> None:
    """Costs by size, ordinary allocations, exporting; then whether work stalls."""
    room = run.card_bytes
    for size in run.sizes(2, 64, 16, 256, 1024, of=room // 4):
        with run.part(label(size)):
            run.note(f"chunk_{label(size)}", cycle(run, size, min(room // size // 2, MOST)))
    for size in run.sizes(2, 64, 256, of=room // 4):
        with run.part(f"alloc_{label(size)}"):
            run.note(f"alloc_{label(size)}", ordinary(run, size))
    for part in (ranges, exporting, beside_work, launches_meanwhile, kernels_meanwhile):
        with run.part(part.__name__):
            part(run)


def cycle(run: Run, size: int, count: int, handles: int = 1) -> dict[str, Any]:
    """Reserve, create, map, access, unmap, release: each call for each of `count` chunks."""
    driver, timer = run.driver, run.timer
    prop, access = chunk_prop(0, handles), Access(Location(1, 0), 3)
    made = (ctypes.c_uint64 * count)()
    props, rights = ctypes.addressof(prop), ctypes.addressof(access)
    bases = (ctypes.c_uint64 * 8)()
    found = {}
    where = [ctypes.addressof(bases) + 8 * i for i in range(8)]
    span = size * count
    found["reserve"] = timer.rows("cuMemAddressReserve", [(w, span, 0, 0, 0) for w in where])
    base = bases[0]
    at = [base + i * size for i in range(count)]
    rounds: dict[str, list[float]] = {}
    for _ in range(1 if run.quick else 3):
        places = [ctypes.addressof(made) + 8 * i for i in range(count)]
        steps: list[tuple[str, str, list[tuple[int, ...]]]] = [
            ("create", "cuMemCreate", [(p, size, props, 0) for p in places])
        ]
        for name, call, rows in steps:
            rounds.setdefault(name, []).extend(timer.rows(call, rows))
        later: list[tuple[str, str, list[tuple[int, ...]]]] = [
            ("map", "cuMemMap", [(a, size, 0, h, 0) for a, h in zip(at, made, strict=True)]),
            ("access", "cuMemSetAccess", [(a, size, rights, 1) for a in at]),
            ("unmap", "cuMemUnmap", [(a, size) for a in at]),
            ("release", "cuMemRelease", [(h,) for h in made]),
        ]
        for name, call, rows in later:
            rounds.setdefault(name, []).extend(timer.rows(call, rows))
    found |= rounds
    found["address_free"] = timer.rows("cuMemAddressFree", [(b, size * count) for b in bases])
    driver.sync()
    return {name: spread(ns, 2) for name, ns in found.items()} | {"chunks": count}


def ordinary(run: Run, size: int) -> dict[str, Any]:
    """cuMemAlloc and cuMemFree."""
    count = min(run.card_bytes // size // 2, MOST)
    made = (ctypes.c_uint64 * count)()
    where = [ctypes.addressof(made) + 8 * i for i in range(count)]
    alloc = run.timer.rows("cuMemAlloc_v2", [(w, size) for w in where])
    free = run.timer.rows("cuMemFree_v2", [(a,) for a in made])
    return {"alloc": spread(alloc, 2), "free": spread(free, 2)}


def ranges(run: Run) -> None:
    """One cuMemSetAccess and one cuMemUnmap for a contiguous range, against one a chunk."""
    driver, timer = run.driver, run.timer
    for size in run.sizes(2, 64, of=run.card_bytes // RANGE // 2):
        access = Access(Location(1, 0), 3)
        prop, total = chunk_prop(0, 1), size * RANGE
        base = driver.get("cuMemAddressReserve", total, 0, 0, 0)
        handles = [driver.get("cuMemCreate", size, ctypes.byref(prop), 0) for _ in range(RANGE)]
        given, taken = [], []
        for _ in range(3 if run.quick else 10):
            for i, handle in enumerate(handles):
                driver.call("cuMemMap", base + i * size, size, 0, handle, 0)
            row = (base, total, ctypes.addressof(access), 1)
            given += timer.rows("cuMemSetAccess", [row])
            taken += timer.rows("cuMemUnmap", [(base, total)])
        for handle in handles:
            driver.call("cuMemRelease", handle)
        driver.call("cuMemAddressFree", base, total)
        costs = {"access": spread(given), "unmap": spread(taken)}
        run.note(f"range_of_{RANGE}_{label(size)}", costs)


def exporting(run: Run) -> None:
    """A chunk's descriptor out and in again, as between two processes."""
    driver, timer = run.driver, run.timer
    prop, fd, out = chunk_prop(0, 1), ctypes.c_int(), ctypes.c_uint64()
    handle = driver.get("cuMemCreate", 2 * MIB, ctypes.byref(prop), 0)
    row = (ctypes.addressof(fd), handle, 1, 0)
    exported = timer.rows("cuMemExportToShareableHandle", [row])
    imported = timer.rows("cuMemImportFromShareableHandle", [(ctypes.addressof(out), fd.value, 1)])
    run.note("export", {"export": spread(exported), "import": spread(imported)})
    driver.call("cuMemRelease", out.value)
    driver.call("cuMemRelease", handle)


def beside_work(run: Run) -> None:
    """Each call while a kernel of 100 ms runs: does it wait for the kernel?"""
    driver = run.driver
    size = run.sizes(64, 2, of=run.card_bytes // 8)[0]
    spin, stream = driver.kernels()["spin_us"], driver.stream()
    done, prop = driver.event(), chunk_prop(0, 1)
    access = Access(Location(1, 0), 3)
    base = driver.get("cuMemAddressReserve", size, 0, 0, 0)
    handle, pointer, host = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
    steps: list[tuple[str, Callable[[], tuple[Any, ...]]]] = [
        ("cuMemCreate", lambda: (ctypes.byref(handle), size, ctypes.byref(prop), 0)),
        ("cuMemMap", lambda: (base, size, 0, handle.value, 0)),
        ("cuMemSetAccess", lambda: (base, size, ctypes.byref(access), 1)),
        ("cuMemUnmap", lambda: (base, size)),
        ("cuMemRelease", lambda: (handle.value,)),
        ("cuMemAlloc_v2", lambda: (ctypes.byref(pointer), size)),
        ("cuMemFree_v2", lambda: (pointer.value,)),
        ("cuMemHostAlloc", lambda: (ctypes.byref(host), size, 1)),
        ("cuMemFreeHost", lambda: (host.value,)),
    ]
    found = {}
    for name, arguments in steps:
        driver.launch(spin, (100_000,), stream)
        driver.call("cuEventRecord", done, stream)
        time.sleep(0.005)
        began = time.perf_counter_ns()
        driver.call(name, *arguments())
        took = (time.perf_counter_ns() - began) / 1000
        running = driver.code("cuEventQuery", done) == NOT_READY
        found[name] = {"took_us": round(took, 1), "kernel_still_runs": running}
        driver.sync(stream)
    driver.call("cuMemAddressFree", base, size)
    run.note("beside_a_running_kernel", found)


class Churn(threading.Thread):
    """Creates, maps, unmaps and releases chunks until it is stopped; `work` does one round."""

    def __init__(self, run: Run, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.context = run.driver.get("cuCtxGetCurrent")
        self.driver, self.work, self.rounds = run.driver, work, 0
        self.stopping = threading.Event()

    def run(self) -> None:
        """Until stopped."""
        self.driver.call("cuCtxSetCurrent", self.context)
        while not self.stopping.is_set():
            self.work()
            self.rounds += 1

    def stop(self) -> int:
        """How many rounds there were."""
        self.stopping.set()
        self.join(10)
        return self.rounds


def mapping(run: Run, size: int) -> Callable[[], None]:
    """One round: four chunks come and go."""

    def work() -> None:
        with run.driver.chunks(size, 4, sync=False):
            pass

    return work


def registering(run: Run, size: int) -> Callable[[], None]:
    """One round: a piece of host memory is pinned and given back."""

    def work() -> None:
        with run.driver.pinned(size):
            pass

    return work


def launches_meanwhile(run: Run) -> None:
    """Does another thread's mapping or pinning make launches slow?"""
    driver, timer = run.driver, run.timer
    stream = driver.stream()
    row, kept = launch_row(driver.kernels()["nop"], stream)

    def some() -> list[float]:
        ns: list[float] = []
        for _ in range(5 if run.quick else 100):
            ns += timer.rows("cuLaunchKernel", [row] * 200)
            driver.sync(stream)
        return ns

    found: dict[str, Any] = {"alone": spread(some())}
    size = run.sizes(64, 2, of=run.card_bytes // 8)[0]
    for name, work in (("mapping", mapping(run, size)), ("pinning", registering(run, size))):
        churn = Churn(run, work)
        churn.start()
        ns = some()
        found[f"while_{name}"] = {**spread(ns), "rounds": churn.stop()}
    run.note("launches_meanwhile", found)
    del kept


def kernels_meanwhile(run: Run) -> None:
    """Does mapping, here or in another process, make running kernels slow? GPU time of touching."""
    driver = run.driver
    touch, stream = driver.kernels()["touch_u64"], driver.stream()
    size = min(run.card_bytes // 4, 1024 * MIB) // (2 * MIB) * 2 * MIB
    chunk = run.sizes(64, 2, of=run.card_bytes // 8)[0]
    first, last = driver.event(timed=True), driver.event(timed=True)
    with driver.device_memory(size) as memory:

        def some() -> float:
            times = []
            for _ in range(3 if run.quick else 20):
                driver.call("cuEventRecord", first, stream)
                for _ in range(5):
                    driver.launch(touch, (memory, size // 8, 16), stream, blocks=1024, threads=256)
                driver.call("cuEventRecord", last, stream)
                driver.sync(stream)
                times.append(driver.elapsed_ms(first, last))
            return round(statistics.median(times), 3)

        some()
        found: dict[str, Any] = {"alone_ms": some()}
        churn = Churn(run, mapping(run, chunk))
        churn.start()
        found["while_mapping_ms"] = some()
        found["rounds"] = churn.stop()
        with Peer("churn") as peer:
            peer.ask(str(chunk))
            peer.tell("go")
            found["while_another_process_maps_ms"] = some()
        with Peer("churn") as peer:
            peer.ask(str(chunk))
            found["while_another_process_idles_ms"] = some()
    run.note("kernels_meanwhile", found)


def churn_peer() -> None:
    """Another process that maps and unmaps without end, until it is killed."""
    run = Run(quick=True, deadline_s=0.0)
    work: list[Callable[[], None]] = []

    def step(what: str) -> None:
        if what != "go":
            work.append(mapping(run, int(what)))
        while what == "go":
            work[0]()

    serve(step)
