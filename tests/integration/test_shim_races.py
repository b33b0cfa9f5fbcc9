"""What happens in a program at the same time: its threads, its contexts, the agent's coming."""

from __future__ import annotations

import select
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.testing.node import Node
from moiety.wire.codec import decode
from moiety.wire.layout import Type
from moiety.wire.message import Message
from moiety.wire.messages import (
    AllocMessage,
    AmountMessage,
    EvictedMessage,
    FreeMessage,
    LeaseNoteMessage,
)
from tests.support.native import compile_c
from tests.support.wire_fakes import FakeAgent

ROOT = Path(__file__).resolve().parents[2]
GPU = "A100-80:memory=64MiB,residue=1MiB,link=200MB/s"
RECONNECTS = 15
DEADLINE_S = 60.0

Started = tuple[FakeAgent, subprocess.Popen[str]]
Start = Callable[[str], Started]


@pytest.fixture
def start(
    make_node: Callable[[str], Node], kernels: Path, native: Path, tmp_path: Path
) -> Iterator[Start]:
    node = make_node(GPU)
    agents: list[FakeAgent] = []
    source = [ROOT / "tests" / "native" / "programs" / "shim_races.c"]
    flags = (f"-I{ROOT / 'native'}", str(native / "simgpu" / "libcuda.so.1"), "-lpthread")

    def begin(word: str) -> Started:
        program = tmp_path / "shim_races"
        if word == "early":
            early = tmp_path / "libearly.so"
            compile_c(source, early, shared=True, flags=("-DEARLY_LIBRARY", *flags))
            compile_c(source, program, flags=("-Wl,--no-as-needed", str(early), *flags))
        else:
            compile_c(source, program, flags=flags)
        path = node.directory / "shim.sock"
        agents.append(FakeAgent(path, limit_bytes=1 << 26))
        libraries = f"{native / 'simgpu'}:{tmp_path}"
        process = node.start(
            [str(program), word, str(kernels)],
            stdin=True,
            env={
                "LD_LIBRARY_PATH": libraries,
                "LD_PRELOAD": str(native / "libmoiety.so"),
                "MOIETY_SOCKET": str(path),
            },
        )
        agents[-1].accept()
        return agents[-1], process

    yield begin
    for agent in agents:
        agent.__exit__(None, None, None)


def until_ready(agent: FakeAgent, process: subprocess.Popen[str]) -> None:
    """Answer until the program says that it stands where the test may do something."""
    assert process.stdout is not None
    deadline_s = time.monotonic() + DEADLINE_S
    while not select.select([process.stdout], [], [], 0)[0]:
        assert time.monotonic() < deadline_s, "the program hangs"
        agent.hear(0.01)
    line = process.stdout.readline()
    assert line == "ready\n", process.communicate()[1]


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def end(agent: FakeAgent, process: subprocess.Popen[str]) -> None:
    """Answer until the program has ended, with exit code 0."""
    deadline_s = time.monotonic() + DEADLINE_S
    try:
        while process.poll() is None:
            assert time.monotonic() < deadline_s, "the program hangs"
            agent.hear(0.01)
    except (EOFError, ConnectionError):
        pass
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, err


@pytest.mark.parametrize("word", ["early", "elsewhere", "capture", "fork"])
def test_the_program_finds_the_driver_as_documented(start: Start, word: str) -> None:
    end(*start(word))


def test_a_failed_end_of_a_capture_leaves_it_open(start: Start) -> None:
    agent, process = start("unmatched")
    until_ready(agent, process)
    assert agent.page is not None
    agent.page.close(agent.epoch)
    agent.send(LeaseNoteMessage(Type.REVOKE, 0, agent.epoch))
    agent.until(Type.DRAINED)  # which does not wait for the capture
    go_on(process)
    agent.until(Type.LEASE_REQUEST)
    agent.grant()
    end(agent, process)


def test_a_gpu_is_never_used_between_detach_and_attach(start: Start) -> None:
    agent, process = start("contexts")
    end(agent, process)
    check_attached(agent.heard)


def test_a_context_is_not_destroyed_while_memory_moves_through_it(start: Start) -> None:
    agent, process = start("destroy")
    until_ready(agent, process)
    agent.revoke()
    agent.send(AmountMessage(Type.EVICT, 0, 0, 1 << 40))
    step = agent.until(Type.EVICTED)
    go_on(process)
    moved = 0
    while True:
        assert isinstance(step, EvictedMessage)
        assert not step.flags & 2, "a chunk could not be moved"
        moved += step.bytes
        if step.flags & 1:
            break
        step = agent.until(Type.EVICTED)
    assert moved == 32 << 20
    agent.send(AmountMessage(Type.RESTORE_BUDGET, 0, 0, moved))
    agent.until(Type.RESTORED)
    agent.grant()
    end(agent, process)


def test_memory_that_comes_after_its_last_context_is_given_back(start: Start) -> None:
    agent, process = start("orphans")
    for _ in range(2):  # of cuMemAlloc, and of a pool
        until_ready(agent, process)
        go_on(process)
        line = process.stdout.readline() if process.stdout else ""
        assert line == "ready\n"
        while not isinstance(decode(agent.sock.recv(4096, socket.MSG_PEEK)), AllocMessage):
            agent.hear(1)
        go_on(process)
        line = process.stdout.readline() if process.stdout else ""
        assert line == "ready\n"  # the context is gone, and the question not answered yet
        go_on(process)
    end(agent, process)
    check_attached(agent.heard)
    asked = sum(message.bytes for message in agent.heard if isinstance(message, AllocMessage))
    assert asked == sum(
        message.bytes for message in agent.heard if isinstance(message, FreeMessage)
    )


def test_a_new_agent_is_told_everything_first_and_asked_everything_once(start: Start) -> None:
    agent, process = start("reconnect")
    until_ready(agent, process)
    heard_before = 0
    for _ in range(RECONNECTS):
        for _ in range(40):
            agent.hear(0.1)
        assert agent.page is not None
        check_attached(agent.heard[heard_before:])
        heard_before = len(agent.heard)
        agent.sock.close()
        agent.page.dispose()
        agent.accept()
    process.kill()


def check_attached(heard: list[Message]) -> None:
    """Nothing is said of a GPU that is not attached, and nothing is asked twice."""
    attached = False
    serials: set[int] = set()
    for message in heard:
        kind = Type(message.type)
        if kind is Type.ATTACH:
            attached = True
        elif kind is Type.DETACH:
            assert attached
            attached = False
        elif kind in (Type.CONTEXT, Type.ALLOC_REQUEST, Type.FREE):
            assert attached, f"{kind.name} before ATTACH"
        if kind in (Type.ATTACH, Type.ALLOC_REQUEST) and message.serial:
            assert message.serial not in serials, "a question was asked twice"
            serials.add(message.serial)
