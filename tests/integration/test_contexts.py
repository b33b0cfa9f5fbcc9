"""Programs with several contexts on one GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from moiety.testing.node import Node, finish

MakeNode = Callable[[str], Node]
Build = Callable[[str], Path]


def test_a_program_with_many_contexts_allocates_in_each(make_node: MakeNode, build: Build) -> None:
    node = make_node("A100-80:memory=256MiB,residue=1MiB")
    node.start_agent()
    done = finish(node.run([build("many_contexts")]))
    assert done == (0, "ok\n", ""), done[2]
