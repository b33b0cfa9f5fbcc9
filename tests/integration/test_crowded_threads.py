"""Threads that allocate and free on a nearly full GPU: no call fails that works without us."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish

GPU = "A100-80:memory=64MiB,residue=1MiB"
THREADS, ROUNDS, SEED = 12, 40, 7


@pytest.mark.parametrize("words", ["l", "lp", "lo", "lpo", "lvso", "plvso"])
def test_an_allocation_finds_what_other_threads_have_freed(
    make_node: Callable[[str], Node], build: Callable[[str], Path], words: str
) -> None:
    node = make_node(GPU)
    node.start_agent()
    command = [build("crowded_threads"), words, THREADS, ROUNDS, SEED]
    alone = finish(node.run_alone(command))
    shared = finish(node.run(command))
    assert (alone[0], alone[1]) == (0, "0\n"), alone[2]
    assert (shared[0], shared[1]) == (0, "0\n"), shared[2]


@pytest.mark.parametrize("words", ["a", "lao", "plvsao"])
def test_memory_that_leaves_a_pool_is_not_given_to_another_thread(
    make_node: Callable[[str], Node], build: Callable[[str], Path], words: str
) -> None:
    """The parts of pools that are in use keep some memory from others, so that some find none."""
    node = make_node(GPU)
    node.start_agent()
    command = [build("crowded_threads"), words, THREADS, 10 * ROUNDS, SEED]
    code, out, err = finish(node.run(command))
    assert code == 0, err
    assert int(out) < THREADS * ROUNDS, err
