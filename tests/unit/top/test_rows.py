"""Bars that add up, and rates between two looks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.agent.control.rows import GpuRow, ProcessRow
from moiety.devices.telemetry import Telemetry
from moiety.model.share import Share
from moiety.top.rows import (
    ORDERS,
    TITLES,
    bar,
    cells,
    gpu_name,
    gpu_words,
    ordered,
    plain_bar,
    why,
)
from moiety.top.sample import Look, Rates

MIB = 1 << 20


def gpu_row(**changed: Any) -> GpuRow:
    given: dict[str, Any] = {
        "gpu": 0,
        "uuid": "GPU-0",
        "name": "Paper GPU",
        "total_bytes": 120 * MIB,
        "used_bytes": 0,
        "capacity_bytes": 100 * MIB,
        "resident_bytes": 60 * MIB,
        "allocated_bytes": 60 * MIB,
        "residue_bytes": 0,
        "free_bytes": 40 * MIB,
        "utilisation": 0.25,
        "holders": [1],
        "waiting": [2],
    }
    return GpuRow(**(given | changed))


def row(tenant: int = 1, **changed: Any) -> ProcessRow:
    given: dict[str, Any] = {
        "tenant": tenant,
        "pid": 4700 + tenant,
        "program": "train",
        "workload": "w",
        "gpu": 0,
        "state": "holding",
        "allocated_bytes": 60 * MIB,
        "resident_bytes": 60 * MIB,
        "residue_bytes": 0,
        "limit_bytes": None,
        "handoffs": 3,
        "held_s": 1.0,
        "waited_s": 2.0,
        "waiting_s": None,
        "reason": "",
        "pinned": "",
    }
    return ProcessRow(**(given | changed))


def test_a_bar_shows_whose_memory_is_where() -> None:
    rows = [row(2, resident_bytes=10 * MIB), row(1, resident_bytes=50 * MIB), row(3, gpu=1)]
    assert bar(gpu_row(), rows, 10) == [(1, 5), (2, 1), (0, 4)]
    assert plain_bar(bar(gpu_row(), rows, 10)) == "111112...."


@given(
    st.lists(st.integers(0, 200 * MIB), max_size=12),
    st.integers(1, 80),
)
def test_a_bar_is_as_wide_as_it_should_be(resident: list[int], width: int) -> None:
    rows = [row(n, resident_bytes=amount) for n, amount in enumerate(resident, start=1)]
    drawn = bar(gpu_row(), rows, width)
    assert sum(size for _, size in drawn) == width
    assert all(size > 0 for _, size in drawn)
    assert len(plain_bar(drawn)) == width


def test_a_gpu_says_what_the_bar_cannot() -> None:
    assert gpu_words(gpu_row()) == "60 MiB of 100 MiB, 25% busy, 1 waiting"
    assert gpu_words(gpu_row(utilisation=None, waiting=[])) == "60 MiB of 100 MiB"
    assert gpu_words(gpu_row(), 30) == "60 MiB of 100 MiB, 1 waiting"
    assert gpu_words(gpu_row(), 5) == "60 MiB of 100 MiB, 1 waiting", "that is always there"
    assert gpu_words(gpu_row(lost="GPU 0 has fallen off the bus (XID 79)")) == "lost"


def test_a_name_is_as_wide_for_each_gpu() -> None:
    gpu = gpu_row(gpu=3, name="NVIDIA GeForce RTX 4090 Laptop GPU")
    for width in (80, 150):
        assert len(gpu_name(gpu, width)) == len(gpu_name(gpu_row(), width))
    assert gpu_name(gpu, 80).startswith("GPU 3 GeForce RTX")
    hot = gpu_row(
        sensors=Telemetry(temperature_c=91, power_w=62.4), slowed_by=["hardware thermal slowdown"]
    )
    assert "25% busy, 91 C, 62 W, slowed by hardware thermal slowdown, 1" in gpu_words(hot)
    short = "60 MiB of 100 MiB, 25% busy, slowed by hardware thermal slowdown, 1 waiting"
    assert gpu_words(hot, len(short)) == short


def test_a_rate_needs_two_looks_at_the_same_process() -> None:
    rates = Rates()
    rates.take(Look(1.0, rows=[row(1), row(2, evicted_bytes=5 * MIB)]))
    assert rates.of(row(1)) is None
    moved = row(1, evicted_bytes=4 * MIB, restored_bytes=2 * MIB)
    other = row(2, pid=9, evicted_bytes=99 * MIB)
    rates.take(Look(3.0, rows=[moved, other]))
    assert rates.of(moved) == pytest.approx(3 * MIB)
    assert rates.of(other) is None, "another process, to which a new agent gave the same number"


def test_cells_stand_under_their_titles() -> None:
    waiting = row(2, state="waiting", reason="tenant 1 holds the GPU", waiting_s=1.26, gpu=None)
    shown = dict(zip(TITLES, cells(waiting, Rates()), strict=True))
    assert shown["GPU"] == shown["MOVED/S"] == "-"
    assert shown["WAITED"] == "2 s"
    assert shown["SHARE"] == "-"
    assert shown["WHY"] == "tenant 1 holds the GPU (for 1.3 s)"
    shown = dict(
        zip(TITLES, cells(row(share=Share(0.3, 0.5), received=0.284), Rates()), strict=True)
    )
    assert (shown["SHARE"], shown["RECEIVED"]) == ("30 %, <= 50 %", "28 %")
    assert why(row(pinned="cuMemAllocAsync")) == "cannot leave the GPU (cuMemAllocAsync)"


@pytest.mark.parametrize(
    ("order", "first"),
    [("tenant", 1), ("resident", 2), ("moved", 3), ("hand-offs", 2), ("waited", 3)],
)
def test_whoever_has_most_stands_first(order: str, first: int) -> None:
    rates = Rates()
    rows = [row(1), row(2, resident_bytes=99 * MIB, handoffs=9), row(3, waited_s=9.0)]
    rates.take(Look(1.0, rows=rows))
    rates.take(Look(2.0, rows=[*rows[:2], row(3, evicted_bytes=1)]))
    assert order in ORDERS
    assert ordered(rows, order, rates)[0].tenant == first
