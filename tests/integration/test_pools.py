"""Memory of pools, which leaves and comes back like any other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from moiety.testing.node import Node, finish
from tests.integration.verified import assert_right_once_stopped

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / "tests" / "native" / "programs"
MIB = 1 << 20
QUICK = ("--quantum", "3ms", "--idle-min", "2ms", "--idle-free", "1ms")

MakeNode = Callable[[str], Node]
Build = Callable[[str], Path]


def rows(node: Node) -> Mapping[int, dict[str, Any]]:
    """What `ps` says, by process."""
    return {row["pid"]: row for row in node.json("ps")}


@pytest.mark.parametrize("what", ["pools", "kept"])
def test_all_is_as_the_drivers_own(
    make_node: MakeNode, build: Build, kernels: Path, what: str
) -> None:
    node = make_node("A100-80:memory=400MiB,residue=1MiB")
    node.start_agent()
    program = [build(f"simgpu_{what}")]
    process = node.run(program, "--memory-limit", "250MiB", env={"KERNELS": str(kernels)})
    assert finish(process) == (0, "ok\n", "")


def test_arrays_and_graphs_stay_and_the_rest_leaves(
    make_node: MakeNode, build: Build, kernels: Path
) -> None:
    node = make_node("A100-80:memory=72MiB,link=8GB/s,residue=2MiB")
    node.start_agent(*QUICK)
    running = [
        node.run([build("simgpu_kept"), "hold"], env={"KERNELS": str(kernels)}) for _ in range(2)
    ]

    def many_turns() -> bool:
        known = rows(node)
        assert not any(row["pinned"] for row in known.values())
        return len(known) == 2 and min(row["handoffs"] for row in known.values()) >= 30

    node.until(many_turns, "each had thirty turns")
    assert_right_once_stopped(*running)


def test_pools_leave_and_come_back(make_node: MakeNode, build: Build, kernels: Path) -> None:
    node = make_node("A100-80:memory=96MiB,link=8GB/s,residue=2MiB")
    node.start_agent(*QUICK)
    running = [
        node.run([build("pooled"), kernels, 48 * MIB, seed, pool])
        for seed, pool in enumerate(["default", "kept"])
    ]

    def many_turns() -> bool:
        known = rows(node)
        assert not any(row["pinned"] for row in known.values())
        assert sum(row["resident_bytes"] for row in known.values()) <= 96 * MIB
        return len(known) == 2 and min(row["handoffs"] for row in known.values()) >= 30

    node.until(many_turns, "each had thirty turns")
    assert_right_once_stopped(*running)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pool", "mode"), [("default", "managed"), ("own", "swap"), ("kept", "swap")]
)
def test_hundreds_of_hand_offs_lose_nothing(
    make_node: MakeNode, programs: Path, build: Build, kernels: Path, pool: str, mode: str
) -> None:
    node = make_node("A100-80:memory=120MiB,link=8GB/s,residue=2MiB")
    node.start_agent(*QUICK)
    running = [
        node.run([build("pooled"), kernels, 60 * MIB, 1, pool], "--mode", mode),
        node.run([programs / "worker", kernels, 90 * MIB, 1000000, 0, 0, 1]),
    ]

    def many_turns() -> bool:
        known = rows(node)
        return len(known) == 2 and min(row["handoffs"] for row in known.values()) >= 100

    node.until(many_turns, "each had its turns")
    assert_right_once_stopped(*running)


@pytest.mark.parametrize("how", ["pool", "plain"])
def test_small_pieces_keep_only_their_chunks(
    make_node: MakeNode, build: Build, kernels: Path, how: str
) -> None:
    node = make_node("A100-80:memory=96MiB,link=8GB/s,residue=2MiB")
    node.start_agent(*QUICK)
    process = node.run([build("scattered"), kernels, how])
    assert process.stdout is not None
    allocated = int(process.stdout.readline())
    assert rows(node)[process.pid]["allocated_bytes"] == allocated
    other = node.run([build("pooled"), kernels, 30 * MIB, 1, "kept"])

    def many_turns() -> bool:
        known = rows(node)
        assert known[process.pid]["allocated_bytes"] == allocated
        return len(known) == 2 and min(row["handoffs"] for row in known.values()) >= 10

    node.until(many_turns, "each had ten turns")
    assert_right_once_stopped(process, other)
