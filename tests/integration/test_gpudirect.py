"""Memory that network cards use (GPUDirect): it can be registered, and stays once it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Lines, Node, finish

MIB = 1 << 20
GPU = "A100-80:memory=96MiB,residue=2MiB"
PINNED = {"nothing": 0, "tokens": 6 * MIB, "list": 6 * MIB, "memops": 6 * MIB}


@pytest.mark.parametrize("word", PINNED)
def test_memory_can_be_registered_and_stays_once_it_is(
    make_node: Callable[[str], Node], build: Callable[[str], Path], word: str
) -> None:
    node = make_node(GPU + ",rdma=1")
    node.start_agent()
    program = node.run([build("gpudirect"), word], stdin=True)
    assert Lines(program.stdout).next() == "1 1 0\n"
    (row,) = node.json("ps")
    assert row["pinned_bytes"] == PINNED[word], "no more than what is registered"
    assert not row["pinned"]
    code, _, err = finish(program)
    assert code == 0, err


def test_a_card_that_cannot_is_not_asked_to(
    make_node: Callable[[str], Node], build: Callable[[str], Path]
) -> None:
    node = make_node(GPU)
    node.start_agent()
    program = node.run([build("gpudirect"), "tokens"], stdin=True)
    assert Lines(program.stdout).next() == "0 0 1\n"
    code, _, err = finish(program)
    assert code == 0, err
