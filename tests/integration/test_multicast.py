"""Multicast objects between hand-offs: memory that was away is bound, and right at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Lines, Node, finish

MIB = 1 << 20
GPU = "H100:memory=128MiB,link=8GB/s,residue=2MiB"
QUICK = ("--quantum", "3ms", "--idle-min", "2ms", "--idle-free", "1ms")
FOREVER = "1000000"
POISONED = {"MOIETY_SIMGPU_POISON": "1"}


def rows(node: Node) -> list[dict[str, int]]:
    """The program on each of its GPUs, as `ps` has it."""
    return [one for one in node.json("ps") if one["program"] == "multicast_turns"]


def bytes_of(node: Node, key: str) -> int:
    return sum(one[key] for one in rows(node))


def until_handed_off(node: Node, count: int) -> None:
    def handoffs() -> int:
        return sum(one["handoffs"] for one in node.json("ps"))

    before = handoffs()
    node.until(lambda: handoffs() > before + count, "programs took turns")


@pytest.mark.slow
def test_memory_that_was_away_is_bound_and_right_between_hand_offs(
    make_node: Callable[[str], Node], build: Callable[[str], Path], programs: Path, kernels: Path
) -> None:
    node = make_node("2x" + GPU)
    node.start_agent(*QUICK)
    program = node.run([build("multicast_turns"), kernels], "--gpus", "2", env=POISONED)
    lines = Lines(program.stdout)
    worker = [programs / "worker", kernels, str(50 * MIB), FOREVER, "0", "0"]
    workers = [
        node.run([*worker, str(seed)], env={"CUDA_VISIBLE_DEVICES": str(seed % 2)})
        for seed in range(4)
    ]
    node.until(lambda: bytes_of(node, "evicted_bytes") > 600 * MIB, "its memory left often")
    assert not any(one["pinned"] for one in rows(node))
    for phase in (1, 2):
        program.send_signal(signal.SIGUSR1)
        assert lines.next() == f"phase {phase}\n"
        assert all(one["pinned"] for one in rows(node)), "what others write to stays"
        left_bytes = bytes_of(node, "evicted_bytes")
        until_handed_off(node, 40)
        assert bytes_of(node, "evicted_bytes") == left_bytes
    program.send_signal(signal.SIGUSR1)
    for process in workers:
        process.send_signal(signal.SIGUSR1)
    for process in [program, *workers]:
        code, out, err = finish(process)
        assert (code, out.splitlines()[-1]) == (0, "0 words wrong"), err
