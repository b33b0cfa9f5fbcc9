"""Memory that graphs allocate, and memory that is freed beside a capture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish

GPU = "A100-80:memory=64MiB,residue=1MiB"

MakeNode = Callable[[str], Node]
Build = Callable[[str], Path]


@pytest.mark.parametrize("name", ["graph_memory", "capture_frees"])
def test_memory_that_is_free_is_there_for_the_next(
    make_node: MakeNode, build: Build, kernels: Path, name: str
) -> None:
    node = make_node(GPU)
    node.start_agent()
    process = node.run([build(name)], "--memory-limit", "48MiB", env={"KERNELS": str(kernels)})
    assert finish(process) == (0, "ok\n", "")
