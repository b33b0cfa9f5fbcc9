"""A graph that was recorded once, replayed after its memory went away and came back elsewhere."""

from __future__ import annotations

import ctypes
import time
from typing import Any

from tests.gpu.card.cycle import Tenant
from tests.gpu.card.driver import MIB
from tests.gpu.card.run import Run, label
from tests.gpu.card.timing import spread

EVERY = 512
"""words between those that the graph's kernel changes"""
COUNT = 4


def measure(run: Run) -> None:
    """By chunk size."""
    for size in run.sizes(2, 64, of=run.card_bytes // COUNT // 2):
        with run.part(label(size)):
            run.note(f"graph_{label(size)}", replays(run, size))


def replays(run: Run, size: int) -> dict[str, Any]:
    """Replay, take all memory away, map other memory at the same addresses, replay again."""
    driver = run.driver
    touch, stream = driver.kernels()["touch_u64"], driver.stream()
    rounds = 3 if run.quick else 20
    with driver.pinned(size * COUNT) as host:
        tenant = Tenant(driver, size, COUNT, host, 5)
        tenant.fill()
        words = size * COUNT // 8
        driver.call("cuMemsetD8_v2", tenant.base, 0, size * COUNT)
        driver.sync()
        driver.call("cuStreamBeginCapture_v2", stream, 2)
        driver.launch(touch, (tenant.base, words, EVERY), stream, blocks=64, threads=128)
        driver.launch(touch, (tenant.base, words, EVERY), stream, blocks=64, threads=128)
        graph = driver.get_last("cuStreamEndCapture", stream)
        ready = driver.get("cuGraphInstantiateWithFlags", graph, 0)
        before = [timed(run, ready, stream) for _ in range(rounds)]
        first, later = [], []
        for _ in range(rounds):
            move(run, tenant)
            first.append(timed(run, ready, stream))
            later.append(timed(run, ready, stream))
        tenant_words = (ctypes.c_uint64 * (size // 8))()
        wrong = 0
        for i in range(COUNT):
            driver.call("cuMemcpyDtoH_v2", tenant_words, tenant.at(i), size)
            changed = tenant_words[::EVERY]
            wrong += sum(word != 2 * 3 * rounds for word in changed)
            wrong += sum(tenant_words[1::EVERY])
        driver.call("cuGraphExecDestroy", ready)
        driver.call("cuGraphDestroy", graph)
        tenant.end()
    return {
        "replays": 3 * rounds,
        "words_wrong": wrong,
        "before": spread(before),
        "first_after": spread(first),
        "second_after": spread(later),
    }


def timed(run: Run, ready: int, stream: int) -> float:
    """Nanoseconds from launch to end."""
    began = time.perf_counter_ns()
    run.driver.call("cuGraphLaunch", ready, stream)
    run.driver.sync(stream)
    return time.perf_counter_ns() - began


def move(run: Run, tenant: Tenant) -> None:
    """Out and in, with something else made in between so that other memory is found."""
    for i in range(tenant.count):
        tenant.begin_out(i)
    run.driver.sync(tenant.stream)
    for i in range(tenant.count):
        tenant.unmap(i)
    with run.driver.device_memory(min(tenant.size, 64 * MIB)):
        for i in range(tenant.count):
            tenant.begin_in(i)
        run.driver.sync(tenant.stream)
