"""Programs with several GPUs, and with several contexts on one: all of their memory moves."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish

MIB = 1 << 20
GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
QUICK = ("--quantum", "3ms", "--idle-min", "2ms", "--idle-free", "1ms")
FOREVER = "1000000"
BOTH = ("--gpus", "2")
RIGHT = (0, "0 words wrong\n")

MakeNode = Callable[[str], Node]
Build = Callable[[str], Path]


def evicted_bytes(node: Node, program: str) -> int:
    """What has left of a program that nothing keeps from leaving."""
    rows = [row for row in node.json("ps") if row["program"] == program]
    assert not any(row["pinned"] for row in rows)
    return sum(int(row["evicted_bytes"]) for row in rows)


def assert_all_right(node: Node, running: list[subprocess.Popen[str]]) -> None:
    """Programs that run until they are told so were right, and nothing is left of them."""
    for process in running:
        process.send_signal(signal.SIGUSR1)
    for process in running:
        code, out, err = finish(process)
        assert (code, out) == RIGHT, err

    def is_empty() -> bool:
        keys = ("allocated_bytes", "resident_bytes", "residue_bytes", "used_bytes")
        return not any(gpu[key] for gpu in node.json("status")["gpus"] for key in keys)

    node.until(is_empty, "the ledger is back at zero")


@pytest.mark.slow
def test_memory_that_comes_back_is_open_to_the_other_gpus_again(
    make_node: MakeNode, build: Build, programs: Path, kernels: Path
) -> None:
    node = make_node("2x" + GPU)
    node.start_agent(*QUICK)
    worker = [programs / "worker", kernels, str(60 * MIB), FOREVER, "0", "0"]
    running = [
        node.run(
            [build("peer_turns"), kernels, FOREVER, "moiety"],
            *BOTH,
            env={"MOIETY_SIMGPU_POISON": "1"},
        ),
        node.run([*worker, "7"], env={"CUDA_VISIBLE_DEVICES": "0"}),
        node.run([*worker, "8"], env={"CUDA_VISIBLE_DEVICES": "1"}),
    ]
    node.until(lambda: evicted_bytes(node, "peer_turns") > 600 * MIB, "its memory has left often")
    assert_all_right(node, running)


def test_copies_reach_the_other_gpu_without_access_by_peers(
    make_node: MakeNode, build: Build
) -> None:
    node = make_node("2x" + GPU)
    node.start_agent()
    code, out, err = finish(node.run_alone([build("crossing"), "2"]))
    assert (code, out) == RIGHT, err
    code, out, err = finish(node.run([build("crossing"), "2", "moiety"], *BOTH))
    assert (code, out) == RIGHT, err


@pytest.mark.slow
def test_copies_reach_the_other_gpu_between_hand_offs(
    make_node: MakeNode, build: Build, programs: Path, kernels: Path
) -> None:
    node = make_node("2x" + GPU)
    node.start_agent(*QUICK)
    worker = [programs / "worker", kernels, str(72 * MIB), FOREVER, "0", "0"]
    running = [
        node.run([build("crossing"), "0", "moiety"], *BOTH, env={"MOIETY_SIMGPU_POISON": "1"}),
        node.run([*worker, "7"], env={"CUDA_VISIBLE_DEVICES": "0"}),
        node.run([*worker, "8"], env={"CUDA_VISIBLE_DEVICES": "1"}),
    ]
    node.until(lambda: evicted_bytes(node, "crossing") > 300 * MIB, "its memory has left often")
    assert_all_right(node, running)


@pytest.mark.slow
def test_memory_of_several_contexts_moves_and_goes_with_them(
    make_node: MakeNode, build: Build, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    running = [
        node.run([build("context_turns"), kernels, FOREVER], env={"MOIETY_SIMGPU_POISON": "1"}),
        node.run([programs / "worker", kernels, str(76 * MIB), FOREVER, "0", "0", "7"]),
    ]
    node.until(
        lambda: evicted_bytes(node, "context_turns") > 300 * MIB, "its memory has left often"
    )
    assert_all_right(node, running)
