"""A program that has whole GPUs: nobody is let in beside it, and it is never interrupted."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moiety.model import errors
from moiety.testing.node import Node, finish

MIB = 1 << 20
MakeNode = Callable[[str], Node]


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    node = make_node("T4:memory=256MiB,residue=1MiB")
    node.start_agent("--turn-min", "20ms")
    return node


def test_nobody_is_let_in_beside_it_and_it_is_never_interrupted(
    node: Node, programs: Path, kernels: Path
) -> None:
    def work(rounds: int) -> list[object]:
        return [programs / "worker", kernels, 100 * MIB, rounds, 5, 0, 7]

    def row() -> dict[str, Any]:
        found: dict[str, Any] = next(r for r in node.json("ps") if r["pid"] == whole.pid)
        return found

    whole = node.run(work(10**6), "--exclusive", "--name", "whole")
    node.until(lambda: bool(node.json("ps")) and row()["resident_bytes"] > 90 * MIB, "it works")
    before = row()["handoffs"]
    capacity = node.json("status")["gpus"][0]["capacity_bytes"]
    assert (row()["share"]["gpu"], row()["share"]["memory_bytes"]) == (1.0, capacity)

    promised = node.cli("run", "--gpu", "0.1", "--", "true")
    assert promised.returncode == errors.ShareTaken.exit_code
    assert "100 % of it are promised to others" in promised.stderr
    code, _, err = finish(node.run(work(1)))  # it asks for no part, and gets none
    assert (code, "all of GPU 0 is promised to others" in err) == (1, True)
    assert row()["handoffs"] == before
    assert (row()["evicted_bytes"], row()["state"]) == (0, "holding")

    whole.terminate()
    assert finish(whole)[0] == -signal.SIGTERM
    assert finish(node.run(work(1)))[0] == 0


def test_all_of_a_gpu_and_a_part_of_it_are_a_contradiction(node: Node) -> None:
    for part in (["--gpu", "0.5"], ["--memory", "1MiB"], ["--gpu-limit", "0.5"]):
        refused = node.cli("run", "--exclusive", *part, "--", "true")
        assert (refused.returncode, part[0] in refused.stderr) == (64, True)
    assert node.cli("run", "--exclusive", "--memory-limit", "64MiB", "--", "true").returncode == 0
