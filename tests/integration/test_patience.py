"""An allocation that was admitted waits for memory that the driver still counts as somebody's."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.agent import FakeAgent
from moiety.testing.node import Node, kill
from moiety.wire.layout import Type

MIB = 1 << 20
PATIENCE_S = 15.0
"""native/shim/memory.c"""


@pytest.mark.slow
def test_what_is_waited_at_the_gate_costs_an_allocation_no_patience(
    make_node: Callable[[str], Node], build: Callable[[str], Path], native: Path
) -> None:
    node = make_node("A100-80:memory=64MiB,residue=2MiB")
    hold = [str(build("simgpu_hold")), str(40 * MIB)]
    beside = {"LD_LIBRARY_PATH": str(native / "simgpu")}
    taken = node.start(hold, stdin=True, env=beside)
    assert taken.stdout is not None
    assert taken.stdout.readline()
    path = node.directory / "stranger.sock"
    with FakeAgent(path) as agent:
        preloaded = {"LD_PRELOAD": str(native / "libmoiety.so"), "MOIETY_SOCKET": str(path)}
        program = node.start(hold, stdin=True, env=beside | preloaded)
        agent.accept()
        agent.until(Type.ALLOC)  # it is told yes, and finds no room
        agent.revoke()
        time.sleep(PATIENCE_S + 1)  # others have their turns
        agent.grant()
        while agent.hear(1.0):
            pass  # what it had to say; by now it has tried again
        kill(taken)
        assert program.stdout is not None
        assert program.stdout.readline() != "out of memory\n"
