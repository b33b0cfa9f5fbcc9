"""Programs that map their memory themselves: it moves like all other, and behaves as without us."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish
from tests.integration.verified import assert_right_once_stopped

MIB = 1 << 20
GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
QUICK = ("--quantum", "3ms", "--idle-min", "2ms", "--idle-free", "1ms")
FOREVER = "1000000"

MakeNode = Callable[[str], Node]


def handoffs(node: Node) -> int:
    return sum(row["handoffs"] for row in node.json("ps"))


@pytest.mark.slow
@pytest.mark.parametrize("clean", ["on", "off"])
def test_memory_mapped_in_every_way_is_right_after_hundreds_of_hand_offs(
    make_node: MakeNode, build: Callable[[str], Path], programs: Path, kernels: Path, clean: str
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    poison = {"MOIETY_SIMGPU_POISON": "1"}
    running = [
        node.run([build("vmm_turns"), kernels, FOREVER, "5"], "--clean", clean, env=poison),
        node.run([programs / "worker", kernels, str(60 * MIB), FOREVER, "0", "0", "7"]),
    ]
    node.until(lambda: handoffs(node) >= 200, "200 leases were granted")
    (mapped,) = (row for row in node.json("ps") if row["program"] == "vmm_turns")
    assert not mapped["pinned"]
    assert mapped["pinned_bytes"] == 2 * MIB, "what it exported"
    uncopied = mapped["zero_bytes"] if clean == "on" else 0
    assert mapped["evicted_bytes"] + uncopied > 50 * 20 * MIB
    assert_right_once_stopped(*running)


def test_the_next_agent_is_told_how_much_is_pinned(
    make_node: MakeNode, build: Callable[[str], Path], kernels: Path
) -> None:
    node = make_node(GPU)
    agent = node.start_agent(*QUICK)
    process = node.run([build("vmm_turns"), kernels, FOREVER, "5"])

    def is_known() -> bool:
        return any(row["pinned_bytes"] == 2 * MIB for row in node.json("ps"))

    node.until(is_known, "it has exported memory, once and for all")
    agent.kill()
    agent.wait()
    node.start_agent(*QUICK)
    node.until(is_known, "the new agent counts it, too")
    assert_right_once_stopped(process)


@pytest.mark.slow
def test_a_handle_that_is_larger_than_a_segment_of_the_arena_leaves_at_once(
    make_node: MakeNode, build: Callable[[str], Path], programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK, "--arena", "512MiB")
    running = [
        node.run([build("large_handle"), kernels, "40", "5"]),
        node.run([programs / "worker", kernels, str(60 * MIB), FOREVER, "0", "0", "7"]),
    ]
    node.until(lambda: handoffs(node) >= 40, "40 leases were granted")
    ready_bytes = node.json("status")["arena_ready_bytes"]
    assert ready_bytes <= 256 * MIB, "not all of the arena was asked for in vain"
    assert_right_once_stopped(*running)


def test_mistakes_are_answered_as_without_us(
    make_node: MakeNode, build: Callable[[str], Path]
) -> None:
    program = build("vmm_errors")
    node = make_node(GPU)
    node.start_agent()
    alone = finish(node.run_alone([program]))
    shared = finish(node.run([program]))
    assert alone[0] == 0, alone[2]
    assert alone[1].count("\n") > 100
    assert shared[1].splitlines() == alone[1].splitlines()
    node.until(lambda: not node.json("ps"), "the program has left")
