"""Programs that ask for more than there is: no byte is lost, and nothing leaves without room."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node

GPU = "A100-80:memory=128MiB,link=8GB/s,residue=1MiB"
ASKED = 75
FACTOR = ("--memory-overcommit", "2.2")
ARENA = ("--arena", "48MiB")
"""40 MiB of it for what has left: less than one of the programs has."""

Program = subprocess.Popen[str]
Start = Callable[..., Program]


def said(program: Program) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def tell(program: Program, mib: int) -> None:
    """Have it write to this much of its memory, and look at all of it."""
    assert program.stdin is not None
    program.stdin.write(f"{mib}\n")
    program.stdin.flush()


def turn(program: Program, mib: int = 0) -> None:
    tell(program, mib)
    assert said(program) == "0 wrong"


@pytest.fixture
def node(make_node: Callable[[str], Node]) -> Node:
    return make_node(GPU)


@pytest.fixture
def start(node: Node, build: Callable[[str], Path]) -> Start:
    def run(expected: str = "asked", mib: int = ASKED) -> Program:
        command = [sys.executable, "-m", "moiety", "run", "--", str(build("overcommit")), str(mib)]
        # memory that the driver hands out is full of rubbish, as on a real card
        program = node.start(command, stdin=True, env={"MOIETY_SIMGPU_POISON": "1"})
        assert said(program) == expected
        return program

    return run


def reason(node: Node, program: Program) -> str:
    (row,) = [row for row in node.json("ps") if row["pid"] == program.pid]
    return str(row["reason"])


def test_without_overcommit_the_second_is_refused(node: Node, start: Start) -> None:
    node.start_agent(*ARENA)
    start()
    start("refused")


def test_four_that_ask_for_most_and_write_little_take_turns(node: Node, start: Start) -> None:
    node.start_agent(*FACTOR, *ARENA)
    programs = [start() for _ in range(4)]
    for mib in (4, 4, 6, 0):
        for program in programs:
            turn(program, mib)
    rows = node.json("ps")
    assert sum(row["allocated_bytes"] for row in rows) == 4 * (ASKED + 1) << 20
    start("refused")  # it would be more than 2.2 times GPU and arena


def test_zeros_that_left_the_gpu_take_no_host_memory(node: Node, start: Start) -> None:
    node.start_agent(*FACTOR, *ARENA)
    one, two = start(), start()
    turn(one, 6)
    turn(two, 4)
    rows = {row["pid"]: row for row in node.json("ps")}
    left = rows[one.pid]["allocated_bytes"] - rows[one.pid]["resident_bytes"]
    assert left > 20 << 20, "the other needs the room"
    assert 0 <= rows[one.pid]["host_bytes"] <= 8 << 20
    assert rows[two.pid]["host_bytes"] == 0
    assert "ON-HOST" in node.cli("ps", "-o", "wide").stdout
    turn(one)


def test_everybody_writes_everything_and_no_byte_is_lost(node: Node, start: Start) -> None:
    node.start_agent(*FACTOR, *ARENA)
    one, two = start(), start()
    turn(one, ASKED)
    tell(two, ASKED)
    node.until(lambda: "the host has no room" in reason(node, two), "the other waits")
    (full,) = node.until_told("HostFull")
    assert full.pid == two.pid
    turn(one)  # all of it is there, and it goes on
    assert one.stdin is not None
    one.stdin.close()  # it ends
    assert one.wait() == 0
    assert said(two) == "0 wrong"
    turn(two)


def test_the_one_that_asks_is_killed_if_so_set(node: Node, start: Start) -> None:
    node.start_agent(*FACTOR, *ARENA, "--memory-when-full", "kill")
    one, two = start(), start()
    turn(one, ASKED)
    tell(two, ASKED)
    assert two.wait() == -9
    assert two.stderr is not None
    told = two.stderr.read()
    assert "this program ends now: the host has no room for others' data" in told
    (killed,) = node.until_told("Killed")
    assert killed.pid == two.pid
    assert "when-full = kill" in killed.message
    turn(one)
