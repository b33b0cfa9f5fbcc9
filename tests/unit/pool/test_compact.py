"""The engine's rows: what it reads is there, and what is equal is there once."""

from __future__ import annotations

import random
from pathlib import Path

from moiety.pool.engine.compact import compact
from moiety.pool.engine.snapshot import workload_of
from tests.support.pool_store import store_in, submitted


def test_what_the_engine_does_not_read_is_left_out(tmp_path: Path) -> None:
    row = submitted(store_in(tmp_path), argv=["train", "x" * 5000], gpus=2, priority=3)
    kept = compact(row)
    assert (kept.command, kept.stdout, kept.stderr) == ("", "", "")
    assert (kept.id, kept.gpus, kept.priority, kept.user) == (row.id, 2, 3, "ann")
    assert workload_of(kept, []) == workload_of(row, [])


def test_equal_texts_and_shapes_are_one_object(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    name = f"sweep-{random.Random(1).random()}"
    one, two = (compact(submitted(store, name=name, memory_bytes=1 << 30)) for _ in range(2))
    assert one.name is two.name
    assert one.cards is two.cards
    assert workload_of(one, []).subgroups is workload_of(two, []).subgroups
    other = compact(submitted(store, memory_bytes=1 << 31))
    assert workload_of(other, []).subgroups != workload_of(one, []).subgroups
