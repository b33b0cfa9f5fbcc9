"""Memory that is allocated without asking, and used again: nobody else can tell."""

from __future__ import annotations

import random
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.testing.node import Node
from moiety.testing.waiting import DEADLINE_S
from moiety.wire.layout import AllocFlag, FreeFlag, Type
from moiety.wire.message import Message
from moiety.wire.messages import (
    AllocMessage,
    AmountMessage,
    CreditMessage,
    FreeMessage,
    LeaseNoteMessage,
)
from tests.support.wire_fakes import FakeAgent

MIB = 1 << 20
GPU = "A100-80:memory=16GiB,residue=2MiB"
"""on which 256 MiB may be allowed"""
MOST = 256 * MIB

MakeNode = Callable[[str], Node]
Build = Callable[[str], Path]


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    assert select.select([process.stdout], [], [], DEADLINE_S)[0], "the program hangs"
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], *lines: str) -> list[int]:
    """What it answers to each."""
    assert process.stdin
    answers = []
    for line in lines:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        answers.append(int(answer(process)))
    return answers


def started(node: Node, program: Path, *, alone: bool = False) -> subprocess.Popen[str]:
    if alone:
        libraries = f"{node.env['MOIETY_NATIVE']}/simgpu"
        process = node.start([str(program)], env={"LD_LIBRARY_PATH": libraries}, stdin=True)
    else:
        process = node.run([program], stdin=True)
    assert answer(process) == "ready"
    return process


def row(node: Node, process: subprocess.Popen[str]) -> dict[str, int]:
    (found,) = [row for row in node.json("ps") if row["pid"] == process.pid]
    return dict(found)


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    made = make_node(GPU)
    made.start_agent()
    return made


@pytest.fixture
def program(build: Build) -> Path:
    return build("churner")


def test_every_byte_is_counted_while_memory_comes_and_goes(node: Node, program: Path) -> None:
    process = started(node, program)
    assert tell(process, *(f"alloc {slot} 20" for slot in range(6))) == [0] * 6
    assert tell(process, "churn 50 20", "churn 50 2", "churn 9 70") == [0] * 3
    assert tell(process, "free 1", "free 3", "alloc 3 20") == [0] * 3
    found = row(node, process)
    assert (found["allocated_bytes"], found["resident_bytes"]) == (100 * MIB, 100 * MIB)
    (gpu,) = node.json("status")["gpus"]
    assert (gpu["allocated_bytes"], gpu["resident_bytes"]) == (100 * MIB, 100 * MIB)
    capacity = gpu["capacity_bytes"]
    assert gpu["free_bytes"] == capacity - 100 * MIB
    assert tell(process, "left") == [capacity // MIB - 100]


def test_what_is_used_again_is_whole(node: Node, program: Path) -> None:
    process = started(node, program)
    tell(process, *(f"alloc {slot} 20" for slot in range(4)))
    for turn in range(4):
        fills = [f"fill {slot} {turn * 4 + slot + 1}" for slot in range(4)]
        checks = [f"check {slot} {turn * 4 + slot + 1}" for slot in range(4)]
        assert tell(process, *fills, *checks) == [0] * 8
        assert tell(process, "free 2", "free 0", "alloc 2 20", "alloc 0 20") == [0] * 4
        kept = [f"check {slot} {turn * 4 + slot + 1}" for slot in (1, 3)]
        assert tell(process, *kept) == [0, 0]


def test_mistakes_with_freed_memory_are_answered_as_without_us(node: Node, program: Path) -> None:
    mistakes = [
        *(f"alloc {slot} 20" for slot in range(4)), "churn 4 20",
        "copy 1", "free 1", "free 1", "copy 1", "what 1", "range 1", "fill 1 3",
        "alloc 5 20", "copy 5", "free 5", "free 5", "copy 5",
        "copy 0", "free 0", "free 0", "copy 0", "what 0",
        "copy 2", "copy 3", "copy 2", "free 2", "copy 3", "copy 2",
    ]  # fmt: skip
    said = [
        tell(process, *mistakes)
        for process in (started(node, program, alone=True), started(node, program))
    ]
    assert said[1] == said[0]


def test_it_is_in_nobodys_way(node: Node, program: Path) -> None:
    other = started(node, program)
    tell(other, "alloc 0 2")
    process = started(node, program)
    tell(process, *(f"alloc {slot} 20" for slot in range(12)))
    tell(process, *(f"free {slot}" for slot in range(10)))
    capacity = node.json("status")["gpus"][0]["capacity_bytes"] // MIB
    everything = capacity - 40 - 2
    assert tell(other, f"alloc 1 {everything}") == [0]
    assert tell(other, "copy 1", "copy 0") == [0, 0]
    (gpu,) = node.json("status")["gpus"]
    assert gpu["free_bytes"] == 0
    assert [r["evicted_bytes"] for r in node.json("ps")] == [0, 0], "nothing had to move for it"


def test_a_moment_later_the_driver_has_it_back(node: Node, program: Path) -> None:
    looker = started(node, program, alone=True)
    process = started(node, program)
    (before,) = tell(looker, "left")
    used = node.json("status")["gpus"][0]["used_bytes"]
    tell(process, *(f"alloc {slot} 20" for slot in range(6)))
    tell(process, *(f"free {slot}" for slot in range(6)))
    found = row(node, process)
    assert (found["allocated_bytes"], found["resident_bytes"]) == (0, 0)
    node.until(lambda: node.json("status")["gpus"][0]["used_bytes"] == used, "none of it is used")
    node.until(lambda: tell(looker, "left") == [before], "it is given back")


def test_a_killed_program_leaves_nothing(node: Node, program: Path) -> None:
    looker = started(node, program, alone=True)
    (before,) = tell(looker, "left")
    process = started(node, program)
    tell(process, *(f"alloc {slot} 20" for slot in range(6)))
    tell(process, "free 2", "free 3", "churn 20 2")
    process.send_signal(signal.SIGKILL)
    process.wait()

    def is_clean() -> bool:
        (gpu,) = node.json("status")["gpus"]
        keys = ("allocated_bytes", "resident_bytes", "residue_bytes")
        return not any(gpu[key] for key in keys) and tell(looker, "left") == [before]

    node.until(is_clean, "nothing is left")
    (gpu,) = node.json("status")["gpus"]
    assert gpu["free_bytes"] == gpu["capacity_bytes"]


def test_a_new_agent_counts_what_was_allocated_without_one(node: Node, program: Path) -> None:
    process = started(node, program)
    tell(process, *(f"alloc {slot} 20" for slot in range(4)))
    assert node.agent
    node.agent.kill()
    node.agent.wait()
    assert tell(process, "alloc 4 20", "free 0", "alloc 5 20", "free 1", "churn 5 20") == [0] * 5
    node.start_agent()
    node.until(lambda: any(r["pid"] == process.pid for r in node.json("ps")), "it is back")
    node.until(lambda: row(node, process)["allocated_bytes"] == 80 * MIB, "all is counted")
    assert tell(process, "alloc 6 20", "free 2", "churn 9 20", "left")[:3] == [0, 0, 0]
    assert row(node, process)["allocated_bytes"] == 80 * MIB


def test_a_limit_is_a_limit(node: Node, program: Path) -> None:
    process = node.run([program], "--memory-limit", "100MiB", stdin=True)
    assert answer(process) == "ready"
    assert tell(process, *(f"alloc {slot} 20" for slot in range(5))) == [0] * 5
    assert tell(process, "left", "alloc 5 20", "free 0", "alloc 5 20") == [0, 2, 0, 0]
    assert tell(process, "alloc 6 2", "free 5", "alloc 6 18", "alloc 7 2", "left") == [
        2,
        0,
        0,
        0,
        0,
    ]


def test_a_context_that_ends_takes_it_along(node: Node, program: Path) -> None:
    process = started(node, program)
    tell(process, *(f"alloc {slot} 20" for slot in range(4)))
    assert tell(process, "free 0", "reset", "alloc 0 20", "churn 5 20", "check 0 0")[:4] == [0] * 4
    assert row(node, process)["allocated_bytes"] == 20 * MIB


def test_churn_beside_one_who_takes_all_there_is_loses_nothing(node: Node, program: Path) -> None:
    churners = [started(node, program) for _ in range(2)]
    taker = started(node, program)
    capacity = node.json("status")["gpus"][0]["capacity_bytes"] // MIB
    wrong: list[str] = []

    def churn(process: subprocess.Popen[str], seed: int) -> None:
        dice = random.Random(seed)
        for turn in range(25):
            sizes = [dice.choice([2, 6, 20, 24]) for _ in range(8)]
            lines = [f"alloc {slot} {size}" for slot, size in enumerate(sizes)]
            order = dice.sample(range(8), 8)
            lines += [f"fill {slot} {turn * 8 + slot + seed}" for slot in order[:3]]
            lines += ["churn 3 20", "churn 2 2"]
            lines += [f"check {slot} {turn * 8 + slot + seed}" for slot in order[:3]]
            lines += [f"free {slot}" for slot in order]
            answers = tell(process, *lines)
            wrong.extend(
                f"{said} to {line}" for line, said in zip(lines, answers, strict=True) if said
            )

    threads = [
        threading.Thread(target=churn, args=(process, 1000 * at))
        for at, process in enumerate(churners)
    ]
    for thread in threads:
        thread.start()
    refused = 0
    while any(thread.is_alive() for thread in threads):
        refused += tell(taker, f"alloc 0 {capacity - 400}", "free 0")[0] != 0
    for thread in threads:
        thread.join()
    assert wrong == []
    assert refused == 0, "what churns has less than 400 MiB, with all that it was allowed"
    node.until(
        lambda: [r["allocated_bytes"] for r in node.json("ps")] == [0, 0, 0], "all is counted"
    )


# An agent that the test plays: what is said, word by word


@pytest.fixture
def play(
    make_node: MakeNode, native: Path, program: Path
) -> Iterator[tuple[FakeAgent, subprocess.Popen[str]]]:
    node = make_node(GPU)
    path = node.directory / "shim.sock"
    with FakeAgent(path, chunk_bytes=64 * MIB) as agent:
        process = node.start(
            [str(program)],
            stdin=True,
            env={
                "LD_LIBRARY_PATH": str(native / "simgpu"),
                "LD_PRELOAD": str(native / "libmoiety.so"),
                "MOIETY_SOCKET": str(path),
            },
        )
        agent.accept()
        hear_until_answered(agent, process)
        yield agent, process


def hear_until_answered(agent: FakeAgent, process: subprocess.Popen[str]) -> str:
    assert process.stdout
    deadline_s = time.monotonic() + DEADLINE_S
    while not select.select([process.stdout], [], [], 0)[0]:
        assert time.monotonic() < deadline_s, "the program hangs"
        agent.hear(0.01)
    return process.stdout.readline().strip()


def said(agent: FakeAgent, process: subprocess.Popen[str], line: str) -> list[Message]:
    """What the agent hears of memory because of this line, which is answered with success."""
    assert process.stdin
    agent.settle()
    agent.heard.clear()
    process.stdin.write(line + "\n")
    process.stdin.flush()
    assert hear_until_answered(agent, process) == "0"
    agent.settle()
    return [m for m in agent.heard if isinstance(m, AllocMessage | FreeMessage | AmountMessage)]


def taken(bytes_: int, spare: int = 0) -> FreeMessage:
    return FreeMessage(Type.CREDIT_USED, 0, 0, 0, bytes_, spare)


def allow(agent: FakeAgent, mib: int, most: int) -> None:
    agent.send(CreditMessage(gpu=0, bytes=mib * MIB, most_bytes=most * MIB))
    agent.settle()


def test_what_is_allowed_is_not_asked_for(play: tuple[FakeAgent, subprocess.Popen[str]]) -> None:
    agent, process = play
    (asked,) = said(agent, process, "alloc 0 20")
    assert isinstance(asked, AllocMessage)
    allow(agent, 50, 50)
    assert said(agent, process, "alloc 1 20") == [taken(20 * MIB)]
    assert said(agent, process, "alloc 2 30") == [taken(30 * MIB)]
    (asked,) = said(agent, process, "alloc 3 2")
    assert isinstance(asked, AllocMessage), "nothing is left of it"
    kept = FreeMessage(Type.FREE, 0, 0, int(FreeFlag.TO_CREDIT), 20 * MIB, 20 * MIB)
    assert said(agent, process, "free 1") == [kept]
    assert said(agent, process, "alloc 1 20") == [taken(20 * MIB, 20 * MIB)]
    assert said(agent, process, "free 1") == [kept]
    assert said(agent, process, "alloc 4 16") == [taken(16 * MIB, 20 * MIB)]


def test_more_than_was_allowed_goes_back_to_the_agent(
    play: tuple[FakeAgent, subprocess.Popen[str]],
) -> None:
    agent, process = play
    said(agent, process, "alloc 0 20")
    said(agent, process, "alloc 1 20")
    allow(agent, 10, 30)
    (kept,) = said(agent, process, "free 0")
    (freed,) = said(agent, process, "free 1")
    assert isinstance(kept, FreeMessage)
    assert isinstance(freed, FreeMessage)
    assert (kept.flags, freed.flags) == (FreeFlag.TO_CREDIT, 0)
    assert not freed.flags & AllocFlag.PINNED


@pytest.mark.parametrize("why", ["recalled", "drained", "unused"])
def test_it_is_given_back_as_a_whole(
    play: tuple[FakeAgent, subprocess.Popen[str]], why: str
) -> None:
    agent, process = play
    said(agent, process, "alloc 0 20")
    said(agent, process, "alloc 1 20")
    allow(agent, 50, 80)
    said(agent, process, "free 0")
    agent.heard.clear()
    if why == "recalled":
        agent.send(AmountMessage(Type.CREDIT_REVOKE, 0, 0))
    elif why == "drained":
        assert agent.page
        agent.page.close(agent.epoch)
        agent.send(LeaseNoteMessage(Type.REVOKE, 0, agent.epoch))
    returned = agent.until(Type.CREDIT_RETURNED)
    assert returned == AmountMessage(Type.CREDIT_RETURNED, 0, 0, 70 * MIB)
    if why == "drained":
        assert not any(message.type == Type.DRAINED for message in agent.heard)
        agent.until(Type.DRAINED)
        agent.grant()
    (freed,) = said(agent, process, "free 1")
    assert isinstance(freed, FreeMessage)
    assert not freed.flags, "from then on what is freed is gone"


def test_one_that_is_recalled_without_any_says_so(
    play: tuple[FakeAgent, subprocess.Popen[str]],
) -> None:
    agent, process = play
    said(agent, process, "alloc 0 20")
    agent.send(AmountMessage(Type.CREDIT_REVOKE, 0, 0))
    assert agent.until(Type.CREDIT_RETURNED) == AmountMessage(Type.CREDIT_RETURNED, 0, 0, 0)
