"""The shim's calls against the driver's documentation, with the lease coming and going."""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.testing.node import Lines, Node, finish, kill
from moiety.wire.codec import decode
from moiety.wire.layout import Refusal, Type
from moiety.wire.messages import (
    AllocMessage,
    AmountMessage,
    EvictedMessage,
    FreeMessage,
    LeaseNoteMessage,
    PinMessage,
    RefusedMessage,
    ShareMessage,
)
from tests.support.entrypoints import table
from tests.support.wire_fakes import FakeAgent

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
LIMIT = 40 * MIB


class Play:
    """One program and the agent that the test plays for it."""

    def __init__(self, node: Node, agent: FakeAgent, process: subprocess.Popen[str]) -> None:
        self.node = node
        self.agent = agent
        self.process = process

    def until_ready(self) -> None:
        """The program stands at a point where it may lose its lease."""
        assert self.process.stdout is not None
        while not self.agent_idle():
            pass
        line = self.process.stdout.readline()
        assert line == "ready\n", self.process.communicate()[1]

    def agent_idle(self) -> bool:
        """Answer what the program asks; True when it has printed something."""
        assert self.process.stdout is not None
        said = self.process.stdout.fileno()
        ready = select.select([said, self.agent.sock.fileno()], [], [], 60)[0]
        assert ready, "the program hangs"
        if said in ready:
            return True
        try:
            self.agent.hear(0)
        except EOFError:
            return True
        return False

    def go_on(self) -> None:
        """Let it pass the point."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def move_out_and_in(self) -> int:
        """Take the lease, evict everything, bring it back; the bytes that moved."""
        self.agent.revoke()
        moved = self.evict()
        self.agent.send(AmountMessage(Type.RESTORE_BUDGET, 0, 0, moved))
        self.agent.until(Type.RESTORED)
        self.agent.grant()
        return moved

    def evict(self) -> int:
        """Move everything out; the lease is not held."""
        self.agent.send(AmountMessage(Type.EVICT, 0, 0, 1 << 40))
        moved = 0
        while True:
            step = self.agent.until(Type.EVICTED)
            assert isinstance(step, EvictedMessage)
            moved += step.bytes
            if step.flags & 1:
                assert step.resident_bytes == 0
                return moved

    def end(self) -> str:
        """Answer until it has ended; its output. Its exit code must be 0."""
        assert self.process.stdin is not None
        with contextlib.suppress(EOFError, ConnectionError):
            while True:  # until it has hung up: what it said last is heard, too
                self.agent.hear(0.01)
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return out


@pytest.fixture
def play(
    make_node: Callable[[str], Node], programs: Path, kernels: Path, native: Path
) -> Iterator[Callable[[str], Play]]:
    node = make_node("A100-80:memory=64MiB,module=2MiB")
    agents: list[FakeAgent] = []

    def start(word: str) -> Play:
        path = node.directory / "shim.sock"
        agent = FakeAgent(path, limit_bytes=LIMIT)
        agents.append(agent)
        process = node.start(
            [str(programs / "shim_calls"), word, str(kernels)],
            stdin=True,
            env={
                "LD_LIBRARY_PATH": str(native / "simgpu"),
                "LD_PRELOAD": str(native / "libmoiety.so"),
                "MOIETY_SOCKET": str(path),
            },
        )
        agent.accept()
        return Play(node, agent, process)

    yield start
    for agent in agents:
        agent.__exit__(None, None, None)


def test_memory_sizes_depend_on_the_limit_and_the_own_use_only(play: Callable[[str], Play]) -> None:
    play("info").end()


def test_a_limit_that_is_changed_is_seen_at_once(play: Callable[[str], Play]) -> None:
    program = play("limit")
    for limit_mib in (40, 5, 60):
        program.until_ready()
        program.agent.send(AmountMessage(Type.LIMIT, 0, 0, limit_mib * MIB))
        program.go_on()
    program.end()


def test_room_is_asked_for_outside_the_gate_and_in_a_capture_too(
    play: Callable[[str], Play],
) -> None:
    program = play("room")
    agent = program.agent
    program.until_ready()
    program.go_on()

    def asked() -> AllocMessage:
        while True:
            assert select.select([agent.sock], [], [], 60)[0], "it asks nobody"
            message = decode(agent.sock.recv(4096))
            agent.heard.append(message)
            if message.type == Type.DRIVER_OOM:
                assert isinstance(message, AllocMessage)
                return message

    first = asked()
    agent.revoke()  # it drains although a thread waits for the answer
    agent.send(AmountMessage(Type.ALLOC_REPLY, first.serial, first.gpu))
    agent.until(Type.LEASE_REQUEST)
    agent.grant()
    second = asked()
    assert (first.bytes, second.bytes) == (64 * MIB, 512 * MIB)
    agent.send(RefusedMessage(serial=second.serial, code=Refusal.CAPACITY, text="there is none"))
    in_capture = asked()
    agent.revoke()
    agent.send(
        RefusedMessage(serial=in_capture.serial, code=Refusal.CAPACITY, text="there is none")
    )
    agent.grant()
    program.end()
    assert [m for m in agent.heard if m.type == Type.CONTEXT], "what it took is measured"


@pytest.mark.parametrize("word", ["pin", "import"])
def test_an_answer_is_heard_while_a_drain_waits_for_its_thread(
    play: Callable[[str], Play], word: str
) -> None:
    program = play(word)
    agent = program.agent
    program.until_ready()
    program.go_on()
    message = decode(agent.sock.recv(4096))
    while message.type not in (Type.PIN_REQUEST, Type.IMPORT):
        message = decode(agent.sock.recv(4096))
    assert agent.page is not None
    agent.page.close(agent.epoch)
    agent.send(LeaseNoteMessage(Type.REVOKE, 0, agent.epoch))
    if isinstance(message, ShareMessage):
        agent.send(ShareMessage(Type.IMPORT, message.serial, message.token))
    else:
        assert isinstance(message, PinMessage)
        agent.send(AmountMessage(Type.PIN_REPLY, message.serial, message.gpu))
    agent.until(Type.LEASE_REQUEST)  # it goes on until it stands at the gate
    agent.grant()
    program.end()


def test_errors_are_the_drivers_own(play: Callable[[str], Play]) -> None:
    play("errors").end()


def test_small_allocations_share_granules_and_survive_a_move(play: Callable[[str], Play]) -> None:
    program = play("small")
    program.until_ready()
    moved = program.move_out_and_in()
    assert 2 * MIB <= moved <= 16 * MIB  # about 10 MB of small pieces, not 3000 granules
    program.go_on()
    program.end()
    freed = sum(m.bytes for m in program.agent.heard if isinstance(m, FreeMessage))
    asked = sum(m.bytes for m in program.agent.heard if isinstance(m, AllocMessage))
    assert freed == asked


def test_lookups_find_our_functions_where_they_stand_and_the_drivers_elsewhere(
    play: Callable[[str], Play],
) -> None:
    play("lookup").end()


def test_a_forked_child_leaves_its_parent_alone(play: Callable[[str], Play]) -> None:
    program = play("forked")
    program.until_ready()
    assert program.move_out_and_in() == 4 * MIB
    program.go_on()
    program.end()


def test_a_destroyed_context_frees_what_was_allocated_in_it(play: Callable[[str], Play]) -> None:
    program = play("contexts")
    assert program.end() == "gone\n"
    freed = [m.bytes for m in program.agent.heard if isinstance(m, FreeMessage)]
    assert sorted(freed) == [2 * MIB, 2 * MIB, 6 * MIB, 6 * MIB]
    assert program.agent.heard[-1].type == Type.DETACH


def test_a_capture_is_never_broken_and_its_graph_finds_its_memory_again(
    play: Callable[[str], Play],
) -> None:
    program = play("graph")
    program.until_ready()
    assert program.agent.page is not None
    program.agent.page.close(program.agent.epoch)
    program.agent.send(LeaseNoteMessage(Type.REVOKE, 0, program.agent.epoch))
    program.go_on()  # it can end its capture although the lease is gone
    program.agent.until(Type.DRAINED)
    moved = program.evict()
    program.agent.send(AmountMessage(Type.RESTORE_BUDGET, 0, 0, moved))
    program.agent.until(Type.RESTORED)
    program.agent.grant()
    program.until_ready()
    assert program.move_out_and_in() == 4 * MIB
    program.go_on()
    program.end()


def test_a_capture_whose_stream_is_destroyed_does_not_hold_the_lease(
    play: Callable[[str], Play],
) -> None:
    program = play("abandoned")
    program.until_ready()
    program.agent.revoke()  # it answers
    program.go_on()
    program.end()


@pytest.mark.slow
def test_more_threads_than_slots_pass_the_gate_and_are_stopped_by_it(
    play: Callable[[str], Play],
) -> None:
    program = play("crowd")
    program.until_ready()
    assert program.move_out_and_in() == 2 * MIB
    program.go_on()
    program.end()


def test_a_program_that_starts_while_its_agent_is_away_waits_for_the_next(
    make_node: Callable[[str], Node], programs: Path, kernels: Path, native: Path
) -> None:
    node = make_node("A100-80:memory=64MiB")
    path = node.directory / "late.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(path))
        dead.listen()
    process = node.start(
        [str(programs / "four_threads"), str(kernels)],
        stdin=True,
        env={
            "LD_LIBRARY_PATH": str(native / "simgpu"),
            "LD_PRELOAD": str(native / "libmoiety.so"),
            "MOIETY_SOCKET": str(path),
        },
    )
    assert process.stderr is not None
    assert "waits for it" in Lines(process.stderr).next()
    path.unlink()
    with FakeAgent(path) as agent:
        agent.accept()
        agent.until(Type.CONTEXT)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


def test_a_program_whose_agent_never_was_ends_with_an_error(
    make_node: Callable[[str], Node], programs: Path, kernels: Path, native: Path
) -> None:
    node = make_node("A100-80:memory=64MiB")
    process = node.start(
        [str(programs / "four_threads"), str(kernels)],
        env={
            "LD_LIBRARY_PATH": str(native / "simgpu"),
            "LD_PRELOAD": str(native / "libmoiety.so"),
            "MOIETY_SOCKET": str(node.directory / "nobody.sock"),
        },
    )
    assert process.wait(60) != 0
    assert process.stderr is not None
    assert "no agent answers at" in process.stderr.read()


@pytest.mark.slow
def test_a_program_whose_agent_is_gone_says_what_becomes_of_it(
    make_node: Callable[[str], Node], programs: Path, kernels: Path
) -> None:
    node = make_node("A100-80:memory=64MiB")
    agent = node.start_agent()
    process = node.run([programs / "worker", kernels, 4 << 20, 1_000_000, 1, 0, 7])
    node.until(lambda: any(row["gpu"] == 0 for row in node.json("ps")), "it has memory")
    kill(agent)
    lines = Lines(process.stderr)
    while "no agent answers" not in (said := lines.next()):
        pass
    assert "; until one does, this program " in said
    assert said.endswith(("keeps the GPU and runs on\n", "waits as soon as it needs the GPU\n"))
    assert lines.next() == "  try: moiety agent status\n"
    assert process.poll() is None


def test_no_call_leaves_its_thread_inside(
    make_node: Callable[[str], Node], build: Callable[[str], Path]
) -> None:
    """Else the next hand-off would wait for a call that has long returned."""
    node = make_node("A100-80:memory=64MiB")
    node.start_agent()
    code, said, err = finish(node.run([build("gate_depth")]))
    assert code == 0, (said, err)
    *lines, last = said.splitlines()
    passed = {e.symbol for e in table(ROOT / "native").values() if e.kind == "PASS"}
    crashes = {f"{name}: crashed" for name in passed}  # it is simgpu that reads there
    assert [line for line in lines if line not in crashes] == []
    number, rest = last.split(" ", 1)
    assert int(number) > 700
    assert rest == "calls, of which many are gated"
