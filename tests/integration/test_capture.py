"""Captures that stay open while the GPU is taken away; graphs whose memory went and came back."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish
from moiety.wire.layout import Type
from moiety.wire.messages import AmountMessage, EvictedMessage
from tests.support.native import compile_c
from tests.support.wire_fakes import FakeAgent

from .conftest import ROOT

MIB = 1 << 20
MODES = ["global", "local", "relaxed"]
STREAMS = ["apart", "blocking", "own"]
PAUSES = 6

MakeNode = Callable[[str], Node]


@pytest.fixture(scope="module")
def programs(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs."""
    folder = tmp_path_factory.mktemp("capture")
    own = ROOT / "tests" / "native" / "programs"
    flags = (f"-I{ROOT / 'native'}", str(native / "simgpu" / "libcuda.so.1"), "-lpthread")
    for name in ("shim_capture", "captures_held"):
        compile_c([own / f"{name}.c"], folder / name, flags=flags)
    return folder


@pytest.fixture
def agent(make_node: MakeNode) -> Iterator[tuple[Node, FakeAgent]]:
    """A node whose agent is played by the test."""
    node = make_node("A100-80:memory=64MiB,residue=1MiB,launch=5us")
    with FakeAgent(node.directory / "shim.sock", limit_bytes=64 * MIB) as fake:
        yield node, fake


def take_and_give_back(agent: FakeAgent) -> int:
    """Take the GPU away with all memory, and give both back; the bytes that left."""
    agent.revoke()
    agent.send(AmountMessage(Type.EVICT, 0, 0, 1 << 40))
    moved = 0
    while True:
        step = agent.until(Type.EVICTED)
        assert isinstance(step, EvictedMessage)
        moved += step.bytes
        if step.flags & 1:
            break
    agent.send(AmountMessage(Type.RESTORE_BUDGET, 0, 0, moved))
    agent.until(Type.RESTORED)
    agent.grant()
    return moved


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("mode", MODES)
def test_a_capture_stays_open_while_the_gpu_is_taken_away(
    agent: tuple[Node, FakeAgent],
    programs: Path,
    kernels: Path,
    native: Path,
    mode: str,
    stream: str,
) -> None:
    node, fake = agent
    process = node.start(
        [str(programs / "shim_capture"), mode, stream, str(kernels)],
        stdin=True,
        env={
            "LD_LIBRARY_PATH": str(native / "simgpu"),
            "LD_PRELOAD": str(native / "libmoiety.so"),
            "MOIETY_SOCKET": str(fake.path),
        },
    )
    assert process.stdin is not None
    assert process.stdout is not None
    fake.accept()
    deadline_s = time.monotonic() + 60
    try:
        for _ in range(PAUSES):
            while not select.select([process.stdout], [], [], 0)[0]:
                assert time.monotonic() < deadline_s, "the program hangs"
                fake.hear(0.01)
            assert process.stdout.readline() == "ready\n"
            assert take_and_give_back(fake) >= 12 * MIB
            process.stdin.write("\n")
            process.stdin.flush()
        while process.poll() is None:
            assert time.monotonic() < deadline_s, "the program hangs"
            fake.hear(0.01)
    except (AssertionError, EOFError, ConnectionError):
        with contextlib.suppress(OSError):
            process.stdin.close()
    assert process.wait(60) == 0, process.stderr.read() if process.stderr else ""


@pytest.mark.parametrize(
    ("mode", "stream"), [("global", "apart"), ("local", "blocking"), ("relaxed", "own")]
)
def test_captures_are_held_open_beside_a_tenant_that_does_not_fit(
    make_node: MakeNode, programs: Path, kernels: Path, mode: str, stream: str
) -> None:
    node = make_node("A100-80:memory=96MiB,link=8GB/s,residue=2MiB,launch=5us")
    node.start_agent("--turn-min", "20ms", "--turn-factor", "0")
    env = {"KERNELS": str(kernels)}
    command = [programs / "captures_held", mode, stream, 60 * MIB]
    pair = [node.run([*command, seconds], env=env) for seconds in (1.5, 2)]
    node.until(lambda: len(node.json("ps")) == 2 or pair[0].poll() is not None, "both are there")
    for process in pair:
        code, out, err = finish(process)
        assert (code, out) == (0, "ok\n"), err
    alone = node.run_alone(["env", f"KERNELS={kernels}", *map(str, command), "0.2"])
    code, out, err = finish(alone)
    assert (code, out) == (0, "ok\n"), err
