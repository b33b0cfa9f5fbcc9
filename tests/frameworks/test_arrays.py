"""CuPy, Numba and JAX take turns on a GPU that is too small for two: what copies, no kernels."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moiety.testing.node import Node
from tests.frameworks.conftest import Framework
from tests.frameworks.turns import end_well, wait_for_handoffs, wait_until_ready

GPU = "A100-80:memory=112MiB,link=16GB/s,residue=2MiB"
MIB = 44
"""of CuPy's arrays"""
NUMBA_MIB = 60
JAX_MIB = 24
"""of arrays, in the three quarters of the GPU that it takes at once"""
HANDOFFS = 60
"""of each program, at least"""

MakeNode = Callable[[str], Node]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def share(node: Node, *programs: tuple[Framework, list[str]]) -> None:
    """Run them until there were enough hand-offs, and see that each was right and none pinned."""
    node.start_agent("--quantum", "10ms")
    shared_bytes = int(node.json("status")["gpus"][0]["capacity_bytes"])
    started = [node.run(command, env=framework.env) for framework, command in programs]
    wait_until_ready(started)
    counts = wait_for_handoffs(node, started, HANDOFFS)
    rows = node.json("ps")
    assert sum(row["allocated_bytes"] for row in rows) > shared_bytes
    assert all(row["evicted_bytes"] > 0 for row in rows)
    assert not any(row["pinned"] for row in rows)
    end_well(started)
    print(f"{sum(counts)} hand-offs")


@pytest.mark.parametrize("pool", ["cupys", "async"])
def test_arrays_of_cupy_are_right_after_many_hand_offs(
    make_node: MakeNode, cupy: Framework, pool: str
) -> None:
    commands = [cupy.command("cupy_arrays", MIB, seed, pool) for seed in (1, 2)]
    share(make_node(GPU), *((cupy, command) for command in commands))


def test_arrays_of_numba_are_right_after_many_hand_offs(
    make_node: MakeNode, numba: Framework
) -> None:
    command = numba.command("numba_arrays", NUMBA_MIB)
    share(make_node(GPU), (numba, command), (numba, command))


def test_arrays_of_jax_are_right_after_many_hand_offs(make_node: MakeNode, jax: Framework) -> None:
    command = jax.command("jax_arrays", JAX_MIB)
    share(make_node(GPU), (jax, command), (jax, command))
