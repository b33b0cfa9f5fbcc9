"""Two programs with PyTorch take turns on a GPU that cannot hold both, and no byte gets lost."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from moiety.testing.node import Node, finish
from tests.frameworks.conftest import Torch

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

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def handoffs(node: Node) -> dict[int, int]:
    """Of each tenant, by its process."""
    return {row["pid"]: row["handoffs"] for row in node.json("ps")}


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_tensors_are_right_after_hundreds_of_hand_offs(
    make_node: Callable[[str], Node], torch: Torch, allocator: str
) -> None:
    node = make_node(GPU)
    node.start_agent("--quantum", "10ms")
    shared_bytes = int(node.json("status")["gpus"][0]["capacity_bytes"])
    environment = torch.with_allocator(ALLOCATORS[allocator])
    programs = [node.run(torch.command("moving", MIB, seed), env=environment) for seed in (1, 2)]
    for program in programs:
        assert program.stdout
        assert program.stdout.readline() == "ready\n", program.communicate()[1]
    assert sum(row["allocated_bytes"] for row in node.json("ps")) > shared_bytes

    def enough() -> bool:
        counts = handoffs(node)
        ended = [p.communicate()[1] for p in programs if p.poll() is not None]
        assert not ended, ended
        return len(counts) == 2 and min(counts.values()) >= HANDOFFS

    while not enough():
        time.sleep(1)  # a command is a process, which would take the time of those it asks about
    counts = handoffs(node)
    for program in programs:
        program.send_signal(signal.SIGUSR1)
    for program in programs:
        code, out, err = finish(program)
        assert (code, out) == (0, "0 words wrong\n"), err
    print(f"{allocator}: {sum(counts.values())} hand-offs")
