"""Memory that moves: what is copied, what goes on meanwhile, and every byte right afterwards."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.testing.node import Node
from moiety.wire.layout import EvictedFlag, Type
from moiety.wire.messages import AllocMessage, AmountMessage, EvictedMessage, FreeMessage
from tests.support.native import compile_c
from tests.support.played_agent import (
    ALL,
    DEADLINE_S,
    next_line,
    order,
    restore,
    until_evicted,
)
from tests.support.wire_fakes import FakeAgent

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
GPU = "A100-80:memory=256MiB,residue=1MiB"
SLOW = "A100-80:memory=256MiB,residue=1MiB,link=20MB/s"


class Play:
    """One program, and the agent that the test plays for it."""

    def __init__(self, agent: FakeAgent, process: subprocess.Popen[str], node: Node) -> None:
        self.node = node
        self.agent = agent
        self.process = process
        self.complained = ""

    def until_said(self, line: str) -> None:
        """Answer the program until it says this."""
        assert next_line(self.agent, self.process) == line, self.process.communicate()[1]

    def go_on(self) -> None:
        """Let it pass the point where it waits."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def order(self, bytes_: int) -> None:
        order(self.agent, bytes_)

    def evict(self, bytes_: int) -> tuple[int, EvictedMessage]:
        """What left, and the last word on it."""
        self.order(bytes_)
        return self.until_evicted()

    def until_evicted(self) -> tuple[int, EvictedMessage]:
        return until_evicted(self.agent)

    def restore(self) -> None:
        restore(self.agent)

    def end(self) -> str:
        """Its output, once it has ended with exit code 0."""
        deadline_s = time.monotonic() + DEADLINE_S
        try:
            while self.process.poll() is None:
                assert time.monotonic() < deadline_s, "the program hangs"
                self.agent.hear(0.01)
        except (EOFError, ConnectionError):
            pass
        out, self.complained = self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == 0, self.complained
        return out


Start = Callable[..., Play]


@pytest.fixture
def program(native: Path, tmp_path: Path) -> Path:
    driver = str(native / "simgpu" / "libcuda.so.1")
    return compile_c(
        [ROOT / "tests" / "native" / "programs" / "shim_swap.c"],
        tmp_path / "shim_swap",
        flags=(f"-I{ROOT / 'native'}", driver, "-ldl", "-lpthread"),
    )


@pytest.fixture
def start(
    make_node: Callable[[str], Node], kernels: Path, native: Path, program: Path
) -> Iterator[Start]:
    agents: list[FakeAgent] = []

    def begin(word: str, gpu: str = GPU, chunk_bytes: int = 2 * MIB) -> Play:
        node = make_node(gpu)
        path = node.directory / "shim.sock"
        agents.append(FakeAgent(path, chunk_bytes=chunk_bytes))
        process = node.start(
            [str(program), word, str(kernels)],
            stdin=True,
            env={
                "LD_LIBRARY_PATH": str(native / "simgpu"),
                "LD_PRELOAD": str(native / "libmoiety.so"),
                "MOIETY_SOCKET": str(path),
                "MOIETY_SIMGPU_POISON": "1",
            },
        )
        agents[-1].accept()
        play = Play(agents[-1], process, node)
        play.until_said("ready")
        return play

    yield begin
    for agent in agents:
        agent.__exit__(None, None, None)


def test_chunks_of_zeros_leave_without_being_copied_and_come_back_as_zeros(start: Start) -> None:
    play = start("zeros")
    play.agent.revoke()
    left, _ = play.evict(ALL)
    assert left == 24 * MIB
    play.restore()
    play.agent.grant()
    play.go_on()
    copied = int(play.end())
    assert copied == 2 * (2 * MIB + 2 * MIB), "two chunks hold data: out, and in again"


def fill_rest(node: Node, hold: Path, driver: Path) -> list[subprocess.Popen[str]]:
    """Programs outside moiety that hold what is left of the GPU, to within 3 MiB."""
    holding = []
    for size in (32 * MIB, 8 * MIB, 2 * MIB):
        while True:
            env = {"LD_LIBRARY_PATH": str(driver)}
            process = node.start([str(hold), str(size)], stdin=True, env=env)
            assert process.stdout is not None
            if not process.stdout.readline()[:1].isdigit():
                process.communicate(timeout=DEADLINE_S)
                break
            holding.append(process)
    return holding


def test_the_scan_for_zeros_is_there_before_the_gpu_is_full(
    start: Start, build: Callable[[str], Path], native: Path
) -> None:
    """Where its kernel is loaded by the first eviction, there is no memory for it any more."""
    play = start("zeros", "A100-80:memory=96MiB,residue=1MiB,module=4MiB")
    holding = fill_rest(play.node, build("simgpu_hold"), native / "simgpu")
    assert holding
    play.agent.revoke()
    left, _ = play.evict(ALL)
    assert left == 24 * MIB
    for process in holding:
        process.communicate(timeout=DEADLINE_S)
    play.restore()
    play.agent.grant()
    play.go_on()
    copied = int(play.end())
    assert copied == 2 * (2 * MIB + 2 * MIB), "two chunks hold data: out, and in again"


def test_chunks_of_zeros_leave_before_all_others(start: Start) -> None:
    play = start("zeros")
    play.agent.revoke()
    left, _ = play.evict(20 * MIB)
    assert left == 20 * MIB
    play.restore()
    play.agent.grant()
    play.go_on()
    assert int(play.end()) == 0


def test_programs_that_write_little_take_turns_without_copies(
    make_node: Callable[[str], Node], kernels: Path, program: Path
) -> None:
    node = make_node("A100-80:memory=96MiB,link=8GB/s,residue=2MiB")
    node.start_agent("--quantum", "10ms")
    command = ["moiety", "run", "--", str(program), "lazy", str(kernels)]
    running = [node.start([sys.executable, "-m", *command], stdin=True) for _ in "ab"]
    many = 4 * 20 * MIB  # of four turns; one that found its bytes in place moved none
    node.until(
        lambda: [row["zero_bytes"] >= many for row in node.json("ps")] == [True, True],
        "both gave way as zeros",
    )
    rows = node.json("ps")
    for process in running:
        out, err = process.communicate("\n", timeout=DEADLINE_S)
        assert process.returncode == 0, (out, err)
    assert all(row["handoffs"] >= 4 for row in rows)
    assert not any(row["evicted_bytes"] for row in rows)


def test_a_program_allocates_and_frees_while_its_memory_leaves(start: Start) -> None:
    play = start("meanwhile", SLOW)
    resident = 36 * MIB + 2 * MIB
    play.agent.revoke()
    play.order(ALL)
    first = play.agent.until(Type.EVICTED)
    assert isinstance(first, EvictedMessage)
    assert not first.flags & EvictedFlag.LAST
    play.go_on()
    play.until_said("done")
    steps = [m for m in play.agent.heard if isinstance(m, EvictedMessage)]
    assert not any(step.flags & EvictedFlag.LAST for step in steps), "it waited for all of it"
    play.until_evicted()
    steps = [m for m in play.agent.heard if isinstance(m, EvictedMessage)]
    freed = [m for m in play.agent.heard if isinstance(m, FreeMessage)]
    assert steps[-1].resident_bytes == 0
    assert sum(m.bytes for m in freed) == 20 * MIB
    accounted = sum(s.bytes for s in steps) + sum(m.resident_bytes for m in freed)
    assert accounted == resident
    play.restore()
    play.agent.grant()
    play.end()


def test_a_copy_out_that_fails_leaves_everything_where_it_was(start: Start) -> None:
    play = start("failing-out")
    play.agent.revoke()
    left, last = play.evict(ALL)
    assert last.flags & EvictedFlag.FAILED
    assert left == 6 * MIB
    assert last.resident_bytes == 10 * MIB
    play.restore()
    play.agent.grant()
    play.go_on()
    play.end()


@pytest.mark.parametrize(("word", "complaints"), [("failing-in", 0), ("failing-long", 1)])
def test_a_copy_in_that_fails_keeps_the_bytes_and_is_tried_again(
    start: Start, word: str, complaints: int
) -> None:
    play = start(word)
    play.agent.revoke()
    left, last = play.evict(ALL)
    assert (left, last.resident_bytes) == (16 * MIB, 0)
    play.restore()
    play.agent.grant()
    play.go_on()
    play.end()
    assert play.complained.count("could not bring device memory back") == complaints


@pytest.mark.parametrize("deficit", [2, 4, 6, 10, 26, 64, 74])
def test_no_more_leaves_than_has_to(start: Start, deficit: int) -> None:
    play = start("sizes", chunk_bytes=16 * MIB)
    play.agent.revoke()
    left, last = play.evict(deficit * MIB)
    assert left == deficit * MIB
    assert last.resident_bytes == (74 - deficit) * MIB
    play.restore()
    play.agent.grant()
    play.go_on()
    play.end()


def test_room_is_used_as_it_comes(start: Start) -> None:
    play = start("sizes", chunk_bytes=16 * MIB)
    play.agent.revoke()
    play.evict(ALL)
    for _ in range(74 // 2):
        play.agent.send(AmountMessage(Type.RESTORE_BUDGET, 0, 0, 2 * MIB))
    play.agent.until(Type.RESTORED)
    play.agent.grant()
    play.go_on()
    play.end()


def test_an_order_ends_what_was_coming(start: Start) -> None:
    play = start("sizes", SLOW)
    play.agent.revoke()
    play.evict(ALL)
    play.agent.send(AmountMessage(Type.RESTORE_BUDGET, 0, 0, ALL))
    left, last = play.evict(ALL)
    assert last.resident_bytes == 0
    assert left <= 8 * MIB, "more came than was under way when the order arrived"
    assert not any(m.type == Type.RESTORED for m in play.agent.heard)
    play.process.kill()


@pytest.mark.slow
def test_every_byte_is_right_after_hundreds_of_moves_of_random_sizes(start: Start) -> None:
    play = start("churn", "A100-80:memory=1GiB,residue=1MiB", chunk_bytes=8 * MIB)
    randomly = random.Random(4)
    for _ in range(150):
        play.agent.revoke()
        for _ in range(randomly.choice((1, 1, 2))):
            play.evict(randomly.choice((ALL, randomly.randrange(1, 200) * MIB)))
        if randomly.random() < 0.3:  # room, and then an order after all
            play.agent.send(
                AmountMessage(Type.RESTORE_BUDGET, 0, 0, randomly.randrange(1, 100) * MIB)
            )
            play.evict(randomly.randrange(1, 60) * MIB)
        play.restore()
        play.agent.grant()
        before = len([m for m in play.agent.heard if isinstance(m, AllocMessage)])
        deadline_s = time.monotonic() + DEADLINE_S
        while len([m for m in play.agent.heard if isinstance(m, AllocMessage)]) < before + 2:
            assert time.monotonic() < deadline_s, "the program does nothing any more"
            play.agent.hear(0.01)
    play.go_on()
    play.end()
