"""Graphs made by hand, node by node, whose memory goes and comes back."""

from __future__ import annotations

import contextlib
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.agent import FakeAgent
from moiety.testing.native import compile_c
from moiety.testing.node import Node, finish
from moiety.wire.layout import Type
from moiety.wire.messages import Amount, Evicted

from .conftest import ROOT

MIB = 1 << 20
GPU = "A100-80:memory=64MiB,residue=1MiB,launch=5us"
MakeNode = Callable[[str], Node]


@pytest.fixture(scope="module")
def programs(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program."""
    folder = tmp_path_factory.mktemp("graphs")
    own = ROOT / "tests" / "native" / "programs"
    flags = (f"-I{ROOT / 'native'}", str(native / "simgpu" / "libcuda.so.1"), "-lpthread")
    compile_c([own / "graphs_moved.c"], folder / "graphs_moved", flags=flags)
    return folder


def take(agent: FakeAgent) -> int:
    """Take the GPU away with all memory; the bytes that left."""
    agent.revoke()
    agent.send(Amount(Type.EVICT, 0, 0, 1 << 40))
    moved = 0
    while True:
        step = agent.until(Type.EVICTED)
        assert isinstance(step, Evicted)
        moved += step.bytes
        if step.flags & 1:
            return moved


def give_back(agent: FakeAgent, moved: int) -> None:
    agent.send(Amount(Type.ROOM, 0, 0, moved))
    agent.until(Type.RESTORED)
    agent.grant()


def say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_nodes_of_every_kind_find_their_memory_again(
    make_node: MakeNode, programs: Path, kernels: Path, native: Path
) -> None:
    node = make_node(GPU)
    words = []
    with FakeAgent(node.directory / "shim.sock", limit_bytes=64 * MIB) as agent:
        process = node.start(
            [str(programs / "graphs_moved"), str(kernels)],
            stdin=True,
            env={
                "LD_LIBRARY_PATH": str(native / "simgpu"),
                "LD_PRELOAD": str(native / "libmoiety.so"),
                "MOIETY_SOCKET": str(agent.path),
            },
        )
        assert process.stdout is not None
        agent.accept()
        deadline_s = time.monotonic() + 60
        with contextlib.suppress(EOFError, ConnectionError):
            while process.poll() is None:
                assert time.monotonic() < deadline_s, "the program hangs"
                if not select.select([process.stdout], [], [], 0)[0]:
                    agent.hear(0.01)
                    continue
                words.append(process.stdout.readline().strip())
                if words[-1] not in {"moved", "away"}:
                    break
                moved = take(agent)
                assert moved >= 12 * MIB
                if words[-1] == "away":
                    say(process)
                    agent.until(Type.WANT)
                give_back(agent, moved)
                if words[-1] == "moved":
                    say(process)
        code, out, err = finish(process)
    assert (code, words.pop() if words[-1] == "done" else out.strip()) == (0, "done"), err
    assert words.count("away") == 5
