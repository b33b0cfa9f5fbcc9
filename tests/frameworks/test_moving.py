"""Two programs with PyTorch take turns on a GPU that cannot hold both, and no byte gets lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moiety.testing.node import Node
from tests.frameworks.conftest import Framework
from tests.frameworks.turns import end_well, wait_for_handoffs, wait_until_ready

GPU = "A100-80:memory=112MiB,link=16GB/s,residue=2MiB"
MIB = 44
"""of tensors, each program's"""
HANDOFFS = 120
"""of each program, at least"""
ALLOCATORS = {
    "native": "",
    "expandable": "expandable_segments:True",
    "async": "backend:cudaMallocAsync",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_tensors_are_right_after_hundreds_of_hand_offs(
    make_node: Callable[[str], Node], torch: Framework, allocator: str
) -> None:
    node = make_node(GPU)
    node.start_agent("--quantum", "10ms")
    shared_bytes = int(node.json("status")["gpus"][0]["capacity_bytes"])
    environment = torch.with_allocator(ALLOCATORS[allocator])
    programs = [node.run(torch.command("moving", MIB, seed), env=environment) for seed in (1, 2)]
    wait_until_ready(programs)
    counts = wait_for_handoffs(node, programs, HANDOFFS)
    rows = node.json("ps")
    assert sum(row["allocated_bytes"] for row in rows) > shared_bytes
    assert not any(row["pinned"] for row in rows)
    end_well(programs)
    print(f"{allocator}: {sum(counts)} hand-offs")
