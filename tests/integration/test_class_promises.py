"""A program of a higher class beside one that was promised most of the GPU, both always busy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node
from tests.integration.verified import assert_right_once_stopped

GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
FOREVER = "1000000"
PROMISED = 0.9
LASTS_S = 12.0
"""GPU-seconds of both together: longer than a class may use what it saved up"""

MakeNode = Callable[[str], Node]


def received_s(node: Node) -> dict[str, float]:
    """GPU-seconds of each program so far, by its name."""
    return {row["program"]: row["received_s"] for row in node.json("ps")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [("--latency",), ("--priority", "high")], ids=["latency", "high"]
)
def test_a_promise_is_kept_beside_a_busy_program_of_a_higher_class(
    make_node: MakeNode, programs: Path, kernels: Path, options: tuple[str, ...]
) -> None:
    node = make_node(GPU)
    node.start_agent()
    busy = [programs / "worker", kernels, str(8 << 20), FOREVER, "20", "0"]
    running = [
        node.run([*busy, "1"], "--name", "train", "--gpu", str(PROMISED)),
        node.run([*busy, "2"], "--name", "serve", *options),
    ]
    node.until(
        lambda: min(received_s(node).get(name, 0.0) for name in ("train", "serve")) > 0.2,
        "both have begun",
    )
    before = received_s(node)

    def more() -> dict[str, float]:
        return {name: now_s - before[name] for name, now_s in received_s(node).items()}

    node.until(lambda: sum(more().values()) >= LASTS_S, "they took turns")
    after = more()
    assert after["train"] / sum(after.values()) >= PROMISED - 0.1
    assert after["serve"] > 0
    assert_right_once_stopped(*running)
