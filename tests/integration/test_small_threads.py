"""Small allocations of many threads: one makes the slab, the others wait for it and use it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.testing.node import Lines, Node, finish
from moiety.wire.codec import decode
from moiety.wire.layout import Refusal, Type
from moiety.wire.messages import AllocMessage, AmountMessage, FreeMessage, RefusedMessage
from tests.support.wire_end import Hung
from tests.support.wire_fakes import FakeAgent

KIB = 1 << 10
MIB = 1 << 20
SLAB = 2 * MIB
GPU = "A100-80:memory=64MiB,residue=1MiB"
QUIET_S = 0.3
"""How long a test listens for a request that must not come."""


class Play:
    """One program, and the agent that the test plays for it."""

    def __init__(self, agent: FakeAgent, process: subprocess.Popen[str]) -> None:
        self.agent = agent
        self.process = process
        self.lines = Lines(process.stdout)

    def until_ready(self) -> None:
        """The program stands where the test may do something."""
        assert self.lines.next() == "ready\n"

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def asked(self) -> AllocMessage:
        """The next request for memory, not answered yet; everything before it is answered."""
        while not isinstance(decode(self.agent.sock.recv(4096, socket.MSG_PEEK)), AllocMessage):
            self.agent.hear(1)
        found = self.agent.receive()
        assert isinstance(found, AllocMessage)
        self.agent.heard.append(found)
        return found

    def expect_quiet(self) -> None:
        """No other thread asks."""
        try:
            while True:
                message = self.agent.receive(QUIET_S)
                assert not isinstance(message, AllocMessage), "a second thread asks"
                self.agent.heard.append(message)
        except Hung:
            pass

    def admit(self, asked: AllocMessage) -> None:
        self.agent.send(AmountMessage(Type.ALLOC_REPLY, asked.serial, asked.gpu, asked.bytes))

    def refuse(self, asked: AllocMessage) -> None:
        self.agent.send(RefusedMessage(serial=asked.serial, code=Refusal.CAPACITY, text="none"))

    def failed(self) -> int:
        """Hear the program to its end; how many of its allocations failed."""
        try:
            while self.process.poll() is None:
                self.agent.hear(0.01)
            while self.agent.hear(0.01):
                pass
        except (EOFError, ConnectionError):
            pass
        code, out, err = finish(self.process)
        assert code == 0, err
        return int(out.split()[-1])

    def bytes_asked(self) -> int:
        return sum(m.bytes for m in self.agent.heard if isinstance(m, AllocMessage))


Start = Callable[[str, int, int], Play]


@pytest.fixture
def start(
    make_node: Callable[[str], Node], build: Callable[[str], Path], native: Path
) -> Iterator[Start]:
    node = make_node(GPU)
    agents: list[FakeAgent] = []

    def begin(word: str, threads: int, size: int) -> Play:
        path = node.directory / "shim.sock"
        agents.append(FakeAgent(path))
        process = node.start(
            [str(build("small_threads")), word, str(threads), str(size)],
            stdin=True,
            env={
                "LD_LIBRARY_PATH": str(native / "simgpu"),
                "LD_PRELOAD": str(native / "libmoiety.so"),
                "MOIETY_SOCKET": str(path),
            },
        )
        agents[-1].accept()
        return Play(agents[-1], process)

    yield begin
    for agent in agents:
        agent.__exit__(None, None, None)


@pytest.mark.parametrize("size", [64 * KIB, 700 * KIB])
def test_many_threads_take_no_more_memory_than_they_use(
    make_node: Callable[[str], Node], build: Callable[[str], Path], size: int
) -> None:
    node = make_node("A100-80:memory=220MiB")
    node.start_agent()
    threads = 300 if size < 100 * KIB else 150
    program = node.run([build("small_threads"), "at_once", threads, size], stdin=True)
    out, err = program.communicate("\n", timeout=60)
    assert program.returncode == 0, err
    assert out.split() == ["ready", "0"]


def test_one_thread_asks_and_the_others_use_what_it_got(start: Start) -> None:
    play = start("at_once", 8, 100 * KIB)
    while play.agent.hear(QUIET_S):
        pass
    play.until_ready()
    play.go_on()
    asked = play.asked()
    play.expect_quiet()
    play.admit(asked)
    assert play.failed() == 0
    assert play.bytes_asked() == asked.bytes == SLAB


def test_a_refusal_is_shared_by_those_that_waited(start: Start) -> None:
    play = start("at_once", 8, 100 * KIB)
    while play.agent.hear(QUIET_S):
        pass
    play.until_ready()
    play.go_on()
    asked = play.asked()
    play.expect_quiet()
    play.refuse(asked)
    asked = play.asked()  # of one that came after the first had begun
    play.expect_quiet()
    play.refuse(asked)
    assert play.failed() == 8
    assert play.bytes_asked() == 2 * SLAB


def test_after_a_refusal_a_thread_finds_what_another_freed(start: Start) -> None:
    play = start("freed", 1, MIB)
    play.admit(play.asked())
    asked = play.asked()
    play.until_ready()
    play.go_on()
    play.until_ready()
    play.refuse(asked)
    play.go_on()
    assert play.failed() == 0
    assert play.bytes_asked() == 2 * SLAB


def test_threads_wait_together_at_the_closed_gate(start: Start) -> None:
    play = start("at_once", 8, 100 * KIB)
    while play.agent.hear(QUIET_S):
        pass
    play.until_ready()
    play.agent.revoke()
    play.go_on()
    play.agent.until(Type.LEASE_REQUEST)
    play.expect_quiet()
    play.agent.grant()
    play.agent.revoke()  # nobody inside waits for a thread that stands at the gate
    play.agent.grant()
    assert play.failed() == 0
    assert play.bytes_asked() == SLAB


def test_a_context_that_goes_meanwhile_keeps_no_thread(start: Start) -> None:
    play = start("destroyed", 8, 100 * KIB)
    asked = play.asked()
    play.until_ready()
    play.go_on()
    play.until_ready()
    play.admit(asked)
    play.go_on()
    assert play.failed() == 8
    given = sum(m.bytes for m in play.agent.heard if isinstance(m, FreeMessage))
    assert given == play.bytes_asked()


def test_a_forked_child_waits_for_no_thread_of_its_parent(start: Start) -> None:
    play = start("forked", 8, 100 * KIB)
    asked = play.asked()
    play.until_ready()
    play.go_on()
    play.until_ready()
    play.admit(asked)
    play.go_on()
    assert play.failed() == 0
    assert play.bytes_asked() == SLAB
