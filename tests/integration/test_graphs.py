"""Graphs, and both kinds of stream 0, in programs whose memory goes and comes back."""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish
from moiety.wire.layout import Type
from moiety.wire.messages import AmountMessage, EvictedMessage
from tests.support.native import compile_c
from tests.support.wire_fakes import FakeAgent

from .conftest import ROOT, has_cuda_core

MIB = 1 << 20
GPU = "A100-80:memory=64MiB,residue=1MiB,launch=5us"
MakeNode = Callable[[str], Node]


@pytest.fixture(scope="module")
def programs(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program."""
    folder = tmp_path_factory.mktemp("graphs")
    own = ROOT / "tests" / "native" / "programs"
    flags = (f"-I{ROOT / 'native'}", str(native / "simgpu" / "libcuda.so.1"), "-lpthread")
    for name in ("graphs_moved", "default_streams"):
        compile_c([own / f"{name}.c"], folder / name, flags=flags)
    return folder


def take(agent: FakeAgent) -> int:
    """Take the GPU away with all memory; the bytes that left."""
    agent.revoke()
    agent.send(AmountMessage(Type.EVICT, 0, 0, 1 << 40))
    moved = 0
    while True:
        step = agent.until(Type.EVICTED)
        assert isinstance(step, EvictedMessage)
        moved += step.bytes
        if step.flags & 1:
            return moved


def give_back(agent: FakeAgent, moved: int) -> None:
    agent.send(AmountMessage(Type.RESTORE_BUDGET, 0, 0, moved))
    agent.until(Type.RESTORED)
    agent.grant()


def say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def lead(node: Node, native: Path, *command: object) -> list[str]:
    """Take the GPU and all memory away each time it says so; what it said.

    At "moved" both are back before it goes on; at "away" not before it stands at the gate.
    """
    words: list[str] = []
    with FakeAgent(node.directory / "shim.sock", limit_bytes=64 * MIB) as agent:
        process = node.start(
            [str(part) for part in command],
            stdin=True,
            env={
                "LD_LIBRARY_PATH": str(native / "simgpu"),
                "LD_PRELOAD": str(native / "libmoiety.so"),
                "MOIETY_SOCKET": str(agent.path),
            },
        )
        assert process.stdout is not None
        agent.accept(granted=False)
        agent.grant()  # whoever stood at the gate already may say so again from now on
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
                before = len(agent.heard)
                moved = take(agent)
                assert moved >= 12 * MIB
                if words[-1] == "away":
                    say(process)
                    while all(heard.type != Type.LEASE_REQUEST for heard in agent.heard[before:]):
                        assert time.monotonic() < deadline_s, "nobody came to the gate"
                        agent.hear(0.01)
                give_back(agent, moved)
                if words[-1] == "moved":
                    say(process)
        code, out, err = finish(process)
    assert code == 0, err
    return [*words, *out.split()]


def test_nodes_of_every_kind_find_their_memory_again(
    make_node: MakeNode, programs: Path, kernels: Path, native: Path
) -> None:
    said = lead(make_node(GPU), native, programs / "graphs_moved", kernels)
    assert (said[-1], said.count("away"), said.count("moved")) == ("done", 5, 7)


@pytest.mark.skipif(not has_cuda_core(), reason="cuda-core is not installed")
def test_graphs_of_cuda_core_run_beside_others_that_do_not_fit(
    make_node: MakeNode, kernels: Path
) -> None:
    node = make_node("A100-80:memory=96MiB,link=8GB/s,residue=2MiB,launch=5us")
    node.start_agent("--turn-min", "20ms", "--turn-factor", "0")
    command = [sys.executable, Path(__file__).with_name("core_graphs.py"), 1.5, 60 * MIB]
    pair = [node.run(command, env={"KERNELS": str(kernels)}) for _ in range(2)]
    for process in pair:
        code, out, err = finish(process)
        assert (code, out) == (0, "ok\n"), err


@pytest.mark.parametrize("flavour", ["legacy", "none", "thread"])
def test_both_kinds_of_stream_0_are_ordered_and_stand_at_the_gate(
    make_node: MakeNode, programs: Path, kernels: Path, native: Path, flavour: str
) -> None:
    node = make_node(GPU)
    said = lead(node, native, programs / "default_streams", flavour, kernels)
    assert said == ["away"] * 10 + ["done"]
    alone = node.run_alone([programs / "default_streams", f"{flavour}+", kernels])
    code, out, err = finish(alone)
    assert (code, out) == (0, "done\n"), err
