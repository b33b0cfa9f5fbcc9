"""Host memory that the agent prepares: who gets it, what is in it, and what becomes of it."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from moiety.testing.node import Node, kill
from moiety.testing.waiting import until
from moiety.wire.layout import Type
from moiety.wire.messages import ArenaMessage, LeaseNoteMessage
from tests.integration.verified import assert_right_once_stopped
from tests.support.cut import cut_connection
from tests.support.foreground import AgentProcess, pretended_native, uuid_of
from tests.support.wire_fakes import FakeAgent, Shim

MIB = 1 << 20
CARD = 512 * MIB
SEGMENT = 32 * MIB
GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
QUICK = ("--quantum", "3ms", "--idle-min", "2ms", "--idle-free", "1ms")
FOREVER = "1000000"
"""rounds: the test says when it is enough"""
NAME = "moiety-arena"
CUTS = 12

MakeNode = Callable[[str], Node]

OTHER = """
import mmap, sys
from tests.support.wire_fakes import Shim
from tests.support.foreground import uuid_of
from moiety.wire.layout import Type
shim = Shim(sys.argv[1])
shim.hello("other")
shim.attach(uuid_of(0))
shim.alloc(0, int(sys.argv[2]))
print("in", flush=True)
while len(shim.segments) < int(sys.argv[3]):
    shim.expect(Type.ARENA)
for fd in shim.segments.values():
    with mmap.mmap(fd, 0) as at:
        at[:] = b"\\xab" * len(at)
print(*shim.segments, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def pretended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretended_native(tmp_path_factory.mktemp("native"), CARD)


@pytest.fixture
def agent(tmp_path: Path, pretended: Path) -> Iterator[AgentProcess]:
    arguments = ["--turn-min", "1ms", "--linger", "0", "--arena", "1GiB", "--arena-ready", "128MiB"]
    with AgentProcess(tmp_path / "a", pretended, arguments) as running:
        yield running


@pytest.fixture
def others() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are gone after the test."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def other(path: str, size: int, segments: int) -> subprocess.Popen[str]:
    """A process that allocates, and fills the segments that it gets with a pattern."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, path, str(size), str(segments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout
    assert process.stdout.readline() == "in\n"
    return process


def joined(agent: AgentProcess, size: int) -> Shim:
    """A process, played here, that asks for so much."""
    shim = Shim(agent.workload())
    shim.hello()
    shim.attach(uuid_of(0))
    shim.alloc(0, size)
    return shim


def descriptors(pid: int, what: str) -> int:
    """How many descriptors of a process lead to something with this name."""
    found = 0
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += what in os.readlink(each)
        except OSError:
            continue  # it was closed just now
    return found


def mapped_bytes(pid: int) -> int:
    """How much of the agent's host memory a process has mapped."""
    total = 0
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if NAME in line:
            begin, end = line.split()[0].split("-")
            total += int(end, 16) - int(begin, 16)
    return total


def pid_of(process: subprocess.Popen[bytes] | subprocess.Popen[str] | None) -> int:
    assert process
    return process.pid


def test_a_segment_cannot_be_cut_short(agent: AgentProcess) -> None:
    first, second = joined(agent, 400 * MIB), joined(agent, 100 * MIB)
    note = first.expect(Type.ARENA)
    assert isinstance(note, ArenaMessage)
    assert note.bytes == SEGMENT
    for fd in first.segments.values():
        assert os.fstat(fd).st_size == SEGMENT
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 0)
    first.close()
    second.close()


def test_what_a_killed_process_had_is_nobody_elses(
    agent: AgentProcess, others: list[subprocess.Popen[str]]
) -> None:
    others.append(first := other(agent.workload(), 400 * MIB, 2))
    others.append(other(agent.workload(), 80 * MIB, 2))
    assert first.stdout
    filled = {int(n) for n in first.stdout.readline().split()}
    until(lambda: agent.status().arena_ready_bytes == 128 * MIB, "all that may be made")
    kill(first)
    shim = joined(agent, 400 * MIB)
    while not shim.segments:
        shim.expect(Type.ARENA)
    assert not shim.segments.keys() & filled
    for fd in shim.segments.values():
        with mmap.mmap(fd, 0) as at:
            assert not any(at[:])
    assert agent.status().arena_ready_bytes <= 128 * MIB
    shim.close()


def test_who_waits_for_more_than_there_is_gets_an_answer(agent: AgentProcess) -> None:
    first, second = joined(agent, 400 * MIB), joined(agent, 100 * MIB)
    until(lambda: agent.status().arena_ready_bytes == 128 * MIB, "all that may be made")
    first.send(ArenaMessage(Type.ARENA_NEED, 0, 0, 256 * MIB))
    asked = second.expect(Type.ARENA_BACK)
    assert isinstance(asked, ArenaMessage)
    assert asked.bytes > 0
    second.send(ArenaMessage(Type.ARENA_BACK))  # nothing of it is empty
    until(
        lambda: (
            (note := first.expect(Type.ARENA))
            and isinstance(note, ArenaMessage)
            and not note.segment
        ),
        "a no",
    )
    first.close()
    second.close()


def test_segments_of_an_agent_that_was_killed_count_with_the_next(agent: AgentProcess) -> None:
    shim = joined(agent, 400 * MIB)
    shim.expect(Type.ALLOC_REPLY)
    agent.kill()
    agent.start()
    shim.resume(holding=True)
    shim.attach(uuid_of(0), allocated=400 * MIB, resident=400 * MIB)
    shim.send(ArenaMessage(Type.ARENA, 0, 77, SEGMENT))
    until(lambda: agent.status().arena_ready_bytes == SEGMENT, "it to be counted")
    shim.send(ArenaMessage(Type.ARENA_BACK, 0, 77, SEGMENT))
    until(lambda: agent.status().arena_ready_bytes == 0, "it to be gone")
    shim.close()


def test_a_process_whose_connection_was_cut_keeps_what_it_wrote(agent: AgentProcess) -> None:
    first, second = joined(agent, 400 * MIB), joined(agent, 100 * MIB)
    until(lambda: agent.status().arena_ready_bytes == 128 * MIB, "all that may be made")
    while not first.segments:
        first.expect(Type.ARENA)
    maps = []
    for fd in first.segments.values():
        maps.append(mmap.mmap(fd, 0))
        maps[-1][:] = b"\xcd" * len(maps[-1])
    assert maps
    first.resume(holding=True)
    first.attach(uuid_of(0), allocated=400 * MIB, resident=400 * MIB)
    for number in first.segments:
        first.send(ArenaMessage(Type.ARENA, 0, number, SEGMENT))
    until(lambda: agent.status().tenants == 2, "both to be there")
    assert agent.status().arena_ready_bytes == 128 * MIB, "none counts twice, and none is freed"
    for at in maps:
        assert at[:] == b"\xcd" * len(at)
        at.close()
    first.close()
    second.close()


def test_a_new_process_cannot_claim_a_segment(agent: AgentProcess) -> None:
    shim = joined(agent, MIB)
    shim.send(ArenaMessage(Type.ARENA, 0, 77, SEGMENT))
    assert shim.closed_by_agent()
    shim.close()


def test_no_descriptor_stays_open_for_those_who_are_gone(agent: AgentProcess) -> None:
    pid = pid_of(agent.process)
    for _ in range(3):
        first, second = joined(agent, 400 * MIB), joined(agent, 100 * MIB)
        first.expect(Type.ARENA)
        first.close()
        second.close()
        until(lambda: agent.status().tenants == 0, "both to be gone", 30)
        assert descriptors(pid, NAME) <= 4
        assert descriptors(pid, "counters") == 0


def two_workers(node: Node, programs: Path, kernels: Path) -> list[subprocess.Popen[str]]:
    """Two programs that do not fit together; both have host memory of the agent."""
    command = [programs / "worker", kernels, str(60 * MIB), FOREVER, "0", "0"]
    running = [node.run([*command, str(seed)]) for seed in range(2)]
    node.until(lambda: all(mapped_bytes(p.pid) for p in running), "both have some of it")
    return running


def test_programs_move_into_the_agents_memory_and_keep_no_descriptor(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK, "--arena", "512MiB")
    running = two_workers(node, programs, kernels)
    for process in running:
        assert descriptors(process.pid, NAME) == 0
    mapped = sum(mapped_bytes(p.pid) for p in running)
    status = node.json("status")  # later than that: meanwhile more is made ready
    assert status["arena_ready_bytes"] >= mapped
    assert status["arena_bytes"] == 512 * MIB
    assert_right_once_stopped(*running)


@pytest.mark.slow
def test_evicted_bytes_outlive_the_agent_and_count_with_the_next(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    options = (*QUICK, "--arena", "512MiB")
    agent = node.start_agent(*options)
    running = two_workers(node, programs, kernels)
    kill(agent)
    had = sum(mapped_bytes(p.pid) for p in running)
    node.start_agent(*options)
    node.until(lambda: node.json("status")["arena_ready_bytes"] >= had, "they count")
    assert_right_once_stopped(*running)


def test_evicted_bytes_outlive_a_connection_that_is_cut(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK, "--arena", "512MiB")
    running = two_workers(node, programs, kernels)
    for turn in range(CUTS):
        pid = running[turn % 2].pid
        node.until(partial(cut_connection, pid), "it has a connection, which is cut")
        had = sum(mapped_bytes(p.pid) for p in running)
        assert node.json("status")["arena_ready_bytes"] >= had, "what they have mapped counts"
    assert_right_once_stopped(*running)


def test_descriptors_that_nobody_asked_for_are_closed(
    make_node: MakeNode, programs: Path, kernels: Path, native: Path
) -> None:
    node = make_node("A100-80:memory=64MiB")
    path = node.directory / "stranger.sock"
    gift = os.memfd_create("gift")
    os.ftruncate(gift, 4096)
    with FakeAgent(path) as agent:
        process = node.start(
            [str(programs / "four_threads"), str(kernels)],
            stdin=True,
            env={
                "LD_LIBRARY_PATH": str(native / "simgpu"),
                "LD_PRELOAD": str(native / "libmoiety.so"),
                "MOIETY_SOCKET": str(path),
            },
        )
        agent.accept()
        agent.until(Type.CONTEXT)
        agent.send(LeaseNoteMessage(Type.GRANT, 0, agent.epoch), gift, gift, gift)
        agent.send(ArenaMessage(Type.ARENA, 0, 0, 0), gift, gift)
        agent.send(ArenaMessage(Type.ARENA, 0, 5, 8192), gift)  # it is shorter than that
        back = agent.until(Type.ARENA_BACK)
        assert isinstance(back, ArenaMessage)
        assert back.segment == 5
        agent.send(ArenaMessage(Type.ARENA_BACK, 0, 0, 4096))
        agent.until(Type.ARENA_BACK)
        assert descriptors(process.pid, "gift") == 0
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0
    os.close(gift)
