"""What single calls cost: launches, events, streams, graphs, and what the shim itself calls."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable

from tests.gpu.card.driver import DISABLE_TIMING, MIB, NON_BLOCKING, NOT_READY
from tests.gpu.card.run import Run
from tests.gpu.card.timing import launch_row, spread

BATCH = 200
"""launches at once: fewer than the driver queues"""
BLOCKING = 1
MARKS = ((1, 1), (1, 4), (8, 4), (32, 4), (64, 2), (64, 8))
"""(launches between marks, marks outstanding)"""


def measure(run: Run) -> None:
    """All of them, on a stream of their own."""
    for part in (launches, bounded, events, streams, contexts, waking, graphs, words):
        with run.part(part.__name__):
            part(run)


def repeated(samples: int, before: Callable[[], None], one: Callable[[], float]) -> list[float]:
    """Measurements that need something done first."""
    times = []
    for _ in range(samples):
        before()
        times.append(one())
    return times


def launches(run: Run) -> None:
    """An empty kernel: the call, launch to end, and the GPU's own time for one of many."""
    driver, timer = run.driver, run.timer
    nop, stream = driver.kernels()["nop"], driver.stream()
    row, kept = launch_row(nop, stream)
    batches = 3 if run.quick else 50

    def batch() -> float:
        return statistics.median(timer.rows("cuLaunchKernel", [row] * BATCH))

    batch()
    ns = repeated(batches, lambda: driver.sync(stream), batch)
    run.note("launch", spread(ns))
    single: list[float] = []
    for _ in range(batches):
        single += timer.rows("cuLaunchKernel", [row] * BATCH)
        driver.sync(stream)
    run.note("launch_each", spread(single))

    def round_trip() -> float:
        began = time.perf_counter_ns()
        driver.launch(nop, stream=stream)
        driver.sync(stream)
        return time.perf_counter_ns() - began

    run.note("launch_to_end", spread([round_trip() for _ in range(batches * 4)]))
    first, last = driver.event(timed=True), driver.event(timed=True)
    driver.call("cuEventRecord", first, stream)
    timer.rows("cuLaunchKernel", [row] * (BATCH * 5), 1)
    driver.call("cuEventRecord", last, stream)
    driver.sync(stream)
    run.note("kernel_ns", round(driver.elapsed_ms(first, last) * 1e6 / (BATCH * 5)))
    del kept


def bounded(run: Run) -> None:
    """An event after each so many launches, and a wait for the oldest."""
    driver, timer = run.driver, run.timer
    stream = driver.stream()
    row, kept = launch_row(driver.kernels()["nop"], stream)
    count = 2_000 if run.quick else 20_000
    found = {}
    for every, depth in ((1, 0), *MARKS):
        events = [driver.event() for _ in range(depth)]
        ns = [timer.bounded(row, stream, events, every, count) for _ in range(3)]
        known = [n for n in ns if n is not None]
        name = f"every_{every}_depth_{depth}_ns" if depth else "without_marks_ns"
        found[name] = round(statistics.median(known)) if known else None
    run.note("bounded_launch", found)
    del kept


def events(run: Run) -> None:
    """Create, record, ask, wait."""
    driver, timer = run.driver, run.timer
    stream, event = driver.stream(), driver.event()
    out = ctypes.c_uint64()
    at = ctypes.addressof(out)
    made = (ctypes.c_uint64 * 100)()
    where = ctypes.addressof(made)
    create = timer.rows("cuEventCreate", [(where + 8 * i, DISABLE_TIMING) for i in range(100)])
    run.note("event_create", spread(create))
    run.note("event_destroy", spread(timer.rows("cuEventDestroy_v2", [(e,) for e in made])))
    driver.call("cuEventRecord", event, stream)
    driver.sync(stream)
    run.note("event_query_done", spread(timer.same("cuEventQuery", event)))
    run.note("event_synchronize_done", spread(timer.same("cuEventSynchronize", event)))
    record = repeated(
        3 if run.quick else 30,
        lambda: driver.sync(stream),
        lambda: statistics.median(timer.same("cuEventRecord", event, stream, samples=20, inner=5)),
    )
    run.note("event_record", spread(record))
    run.note("stream_wait_event", spread(timer.same("cuStreamWaitEvent", stream, event, 0)))
    driver.sync(stream)
    timed = driver.event(timed=True)
    run.note("event_record_timed", spread(timer.same("cuEventRecord", timed, stream, inner=5)))
    run.note("memory_info", spread(timer.same("cuMemGetInfo_v2", at, at)))
    driver.sync()


def streams(run: Run) -> None:
    """Create, ask, wait when there is nothing to wait for."""
    timer = run.timer
    made = (ctypes.c_uint64 * 20)()
    where = ctypes.addressof(made)
    create = timer.rows("cuStreamCreate", [(where + 8 * i, NON_BLOCKING) for i in range(20)])
    run.note("stream_create", spread(create))
    stream, out = made[0], ctypes.c_uint64()
    run.note("stream_query_idle", spread(timer.same("cuStreamQuery", stream)))
    run.note("stream_synchronize_idle", spread(timer.same("cuStreamSynchronize", stream)))
    capturing = timer.same("cuStreamIsCapturing", stream, ctypes.addressof(out))
    run.note("stream_is_capturing", spread(capturing))
    run.note("stream_destroy", spread(timer.rows("cuStreamDestroy_v2", [(s,) for s in made])))


def contexts(run: Run) -> None:
    """What the gate's closing does when nothing runs."""
    driver, timer = run.driver, run.timer
    context, out = driver.get("cuCtxGetCurrent"), ctypes.c_uint64()
    at = ctypes.addressof(out)
    run.note("context_synchronize_idle", spread(timer.same("cuCtxSynchronize")))
    run.note("context_get_current", spread(timer.same("cuCtxGetCurrent", at)))
    run.note("context_push", spread(timer.rows("cuCtxPushCurrent_v2", [(context,)] * 50)))
    run.note("context_pop", spread(timer.rows("cuCtxPopCurrent_v2", [(at,)] * 50)))
    mode = ctypes.c_int(2)  # relaxed
    where = ctypes.addressof(mode)
    run.note(
        "capture_mode", spread(timer.rows("cuThreadExchangeStreamCaptureMode", [(where,)] * 50))
    )
    with driver.device_memory(2 * MIB) as memory:
        asked = timer.same("cuPointerGetAttribute", at, 2, memory)
        run.note("pointer_attribute", spread(asked))


def waking(run: Run) -> None:
    """How late a wait ends after 200 us of work, and what it burns of the CPU meanwhile."""
    driver = run.driver
    spin, stream = driver.kernels()["spin_us"], driver.stream()
    ways = {
        "event": driver.event(),
        "event_blocking": driver.get("cuEventCreate", DISABLE_TIMING | BLOCKING),
        "stream": 0,
        "polled": driver.event(),
    }
    for name, event in ways.items():
        late, burnt = [], []
        for _ in range(5 if run.quick else 100):
            began, cpu = time.perf_counter_ns(), time.thread_time_ns()
            driver.launch(spin, (200,), stream)
            if event:
                driver.call("cuEventRecord", event, stream)
            if name == "stream":
                driver.sync(stream)
            elif name == "polled":
                while driver.code("cuEventQuery", event) == NOT_READY:
                    time.sleep(20e-6)
            else:
                driver.call("cuEventSynchronize", event)
            late.append(time.perf_counter_ns() - began - 200_000)
            burnt.append(time.thread_time_ns() - cpu)
        run.note(f"late_{name}", {**spread(late), "cpu_us": statistics.median(burnt) / 1000})


def graphs(run: Run) -> None:
    """Recorded graphs of 1, 10 and 100 empty kernels, one after the other."""
    driver, timer = run.driver, run.timer
    nop, stream = driver.kernels()["nop"], driver.stream()
    for nodes in (1, 10) if run.quick else (1, 10, 100):
        driver.call("cuStreamBeginCapture_v2", stream, 2)
        for _ in range(nodes):
            driver.launch(nop, stream=stream)
        graph = driver.get_last("cuStreamEndCapture", stream)
        began = time.perf_counter_ns()
        ready = driver.get("cuGraphInstantiateWithFlags", graph, 0)
        run.note(f"graph_instantiate_{nodes}_us", (time.perf_counter_ns() - began) / 1000)
        driver.call("cuGraphLaunch", ready, stream)
        driver.sync(stream)
        ns: list[float] = []
        for _ in range(3 if run.quick else 20):
            ns += timer.rows("cuGraphLaunch", [(ready, stream)] * 10)
            driver.sync(stream)
        run.note(f"graph_launch_{nodes}", spread(ns))
        began = time.perf_counter_ns()
        timer.rows("cuGraphLaunch", [(ready, stream)] * 20)
        driver.sync(stream)
        each = (time.perf_counter_ns() - began) / 20 / nodes
        run.note(f"graph_kernel_of_{nodes}_ns", round(each))
        driver.call("cuGraphExecDestroy", ready)
        driver.call("cuGraphDestroy", graph)


def words(run: Run) -> None:
    """Marks that the GPU writes into host memory: an alternative to events."""
    driver, timer = run.driver, run.timer
    stream = driver.stream()
    with driver.pinned(4096) as host:
        where = driver.get("cuMemHostGetDevicePointer_v2", host, 0)
        name = "cuStreamWriteValue32_v2"
        run.note("stream_write_value", spread(timer.same(name, stream, where, 1, 0, inner=5)))
        driver.sync(stream)
        word = ctypes.c_uint32.from_address(host)
        late = []
        for value in range(2, 22):
            began = time.perf_counter_ns()
            driver.call(name, stream, where, value, 0)
            while word.value != value and time.perf_counter_ns() - began < 1_000_000_000:
                pass
            late.append(time.perf_counter_ns() - began)
        run.note("stream_write_value_seen", spread(late))
