"""A program whose agent does not count what it has: it waits at its gate, and comes back."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish
from moiety.wire.layout import HelloFlag, Refusal, Type
from moiety.wire.messages import AttachedMessage, AttachMessage, RefusedMessage
from tests.integration.verified import RIGHT
from tests.support.wire_end import Closed
from tests.support.wire_fakes import FakeAgent

MIB = 1 << 20
GPU = "A100-80:memory=256MiB"
REFUSALS = 8
WHY = "no agent knows of the 16 MiB that it says to have"

MakeNode = Callable[[str], Node]


@pytest.fixture
def play(
    make_node: MakeNode, programs: Path, kernels: Path, native: Path
) -> Iterator[tuple[FakeAgent, subprocess.Popen[str]]]:
    node = make_node(GPU)
    path = node.directory / "shim.sock"
    with FakeAgent(path) as agent:
        process = node.start(
            [str(programs / "worker"), str(kernels), str(16 * MIB), "1000000", "0", "0", "1"],
            env={
                "LD_LIBRARY_PATH": str(native / "simgpu"),
                "LD_PRELOAD": str(native / "libmoiety.so"),
                "MOIETY_SOCKET": str(path),
            },
        )
        agent.accept()
        yield agent, process


def claimed(agent: FakeAgent) -> AttachMessage:
    """Take the program back, and hear what it says to have."""
    hello = agent.accept(granted=False)
    assert hello.flags & HelloFlag.RESUMED
    found = agent.until(Type.ATTACH)
    assert isinstance(found, AttachMessage)
    return found


def refuse(agent: FakeAgent) -> None:
    """Refuse and hang up; what is unread by then would make the program see a reset instead."""
    agent.send(RefusedMessage(code=Refusal.CAPACITY, text=WHY))
    agent.sock.shutdown(socket.SHUT_RD)
    with contextlib.suppress(OSError):
        while agent.sock.recv(1 << 12, socket.MSG_DONTWAIT):
            pass
    agent.sock.close()


def test_a_program_whose_memory_is_not_counted_comes_back_ever_more_slowly(
    play: tuple[FakeAgent, subprocess.Popen[str]],
) -> None:
    agent, process = play
    agent.until(Type.ALLOC_REQUEST)
    agent.settle()
    agent.sock.close()
    times_s = []
    for _ in range(REFUSALS):
        assert claimed(agent).serial == 0
        refuse(agent)
        times_s.append(time.monotonic())
    assert times_s[-1] - times_s[0] > 1.0, "each pause is twice as long"
    found = claimed(agent)
    assert found.allocated_bytes > 0
    agent.send(AttachedMessage(limit_bytes=agent.limit_bytes, chunk_bytes=agent.chunk_bytes))
    agent.grant()
    process.send_signal(signal.SIGUSR1)
    with contextlib.suppress(Closed):
        while process.poll() is None:
            agent.hear(0.05)
    code, out, err = finish(process)
    assert code == 0, err
    assert RIGHT.search(out)
    assert err.count(WHY) == 1, "it is said once"
