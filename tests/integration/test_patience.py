"""An allocation that was admitted waits for memory that the driver still counts as somebody's."""

from __future__ import annotations

import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, kill
from moiety.wire.layout import Type
from tests.support.wire_fakes import FakeAgent

MIB = 1 << 20
PATIENCE_S = 15.0
"""native/shim/mem/alloc.c"""


@pytest.fixture
def node(make_node: Callable[[str], Node]) -> Node:
    return make_node("A100-80:memory=64MiB,residue=2MiB")


@pytest.fixture
def hold(build: Callable[[str], Path]) -> list[str]:
    """A program that has most of the GPU, or says that it cannot."""
    return [str(build("simgpu_hold")), str(40 * MIB)]


@pytest.fixture
def beside(native: Path) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": str(native / "simgpu")}


@pytest.fixture
def taken(node: Node, hold: list[str], beside: dict[str, str]) -> subprocess.Popen[str]:
    """Somebody who has the memory, and of whom no agent knows."""
    stranger = node.start(hold, stdin=True, env=beside)
    assert stranger.stdout is not None
    assert stranger.stdout.readline()
    return stranger


@pytest.fixture
def preloaded(node: Node, native: Path, beside: dict[str, str]) -> dict[str, str]:
    path = node.directory / "stranger.sock"
    return beside | {"LD_PRELOAD": str(native / "libmoiety.so"), "MOIETY_SOCKET": str(path)}


def test_what_was_admitted_and_is_not_there_is_asked_for_as_room(
    node: Node, hold: list[str], taken: subprocess.Popen[str], preloaded: dict[str, str]
) -> None:
    with FakeAgent(Path(preloaded["MOIETY_SOCKET"])) as agent:
        program = node.start(hold, stdin=True, env=preloaded)
        agent.accept()
        agent.until(Type.ALLOC_REQUEST)  # it is told yes, and finds no room
        agent.until(Type.DRIVER_OOM)
        kill(taken)  # as an agent does it with the memory of others
        assert program.stdout is not None
        both = agent.sock.fileno(), program.stdout.fileno()
        while both[1] not in select.select(both, [], [])[0]:
            agent.hear(0)
        assert program.stdout.readline() != "out of memory\n"


@pytest.mark.slow
def test_what_is_waited_at_the_gate_costs_an_allocation_no_patience(
    node: Node, hold: list[str], taken: subprocess.Popen[str], preloaded: dict[str, str]
) -> None:
    with FakeAgent(Path(preloaded["MOIETY_SOCKET"])) as agent:
        program = node.start(hold, stdin=True, env=preloaded)
        agent.accept()
        agent.until(Type.ALLOC_REQUEST)  # it is told yes, and finds no room
        agent.revoke()
        time.sleep(PATIENCE_S + 1)  # noqa: TID251 (that this time passes is what is tested)
        agent.grant()
        while agent.hear(1.0):
            pass  # what it had to say; by now it has tried again
        kill(taken)
        assert program.stdout is not None
        assert program.stdout.readline() != "out of memory\n"
