"""Real programs on a simulated GPU receive the parts of its time that they asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from moiety.testing.node import Node

GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
SMALL, LARGE = 16 << 20, 60 << 20
MakeNode = Callable[[str], Node]


def received(node: Node, seconds: float) -> list[float]:
    """The part of the GPU that each tenant receives for a while, by its number."""

    def so_far() -> list[float]:
        return [row["received_s"] for row in sorted(node.json("ps"), key=lambda r: r["tenant"])]

    before, began_s = so_far(), time.monotonic()
    time.sleep(seconds)
    after, ended_s = so_far(), time.monotonic()
    return [(b - a) / (ended_s - began_s) for a, b in zip(before, after, strict=True)]


def start(
    node: Node, worker: Path, kernels: Path, shares: Sequence[Sequence[str]], size: int
) -> None:
    """A program that always has work for each share, in this order."""
    for seed, options in enumerate(shares):
        node.run([worker, kernels, str(size), "1000000", "2", "0", str(seed)], *options)
        node.until(lambda: len(node.json("ps")) == seed + 1, "it uses the GPU")  # noqa: B023


@pytest.mark.slow
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["fits", "fits not"])
def test_a_split_is_received(make_node: MakeNode, programs: Path, kernels: Path, size: int) -> None:
    node = make_node(GPU)
    node.start_agent("--turn-factor", "1")  # short turns, so that seconds show their average
    start(node, programs / "worker", kernels, [["--gpu", "0.3"], ["--gpu", "0.7"]], size)
    time.sleep(1)
    assert received(node, 8) == pytest.approx([0.3, 0.7], abs=0.06)
    first, second = (str(row["tenant"]) for row in node.json("ps"))
    assert node.cli("set", first, "--gpu", "0.1").returncode == 0
    assert node.cli("set", second, "--gpu", "0.9").returncode == 0
    time.sleep(1)
    assert received(node, 8) == pytest.approx([0.1, 0.9], abs=0.06)


@pytest.mark.slow
def test_one_alone_is_held_to_its_limit(make_node: MakeNode, programs: Path, kernels: Path) -> None:
    node = make_node(GPU)
    node.start_agent()
    start(node, programs / "worker", kernels, [["--gpu-limit", "0.5"]], SMALL)
    time.sleep(1)
    assert received(node, 4) == pytest.approx([0.5], abs=0.05)
    assert node.cli("set", "1", "--gpu-limit", "none").returncode == 0
    time.sleep(1)
    assert received(node, 2) == pytest.approx([1.0], abs=0.03)
