"""MOIETY_DISABLE=1: a program runs as if moiety were not there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish

MIB = 1 << 20
MakeNode = Callable[[str], Node]


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    node = make_node("T4:memory=256MiB,residue=1MiB")
    node.start_agent()
    return node


@pytest.mark.parametrize("program", ["worker", "worker-lookup"])
def test_a_child_that_wants_to_be_left_alone_is(
    node: Node, programs: Path, kernels: Path, program: str
) -> None:
    """Its parent goes on sharing, and its own children share again."""
    work = [str(programs / program), str(kernels), str(8 * MIB), "1", "1", "0", "7"]
    source = f"""
import os, subprocess
off = os.environ | {{"MOIETY_DISABLE": "1"}}
subprocess.run({work}, env=off, check=True)
input()
subprocess.run({work}, check=True)
input()
subprocess.run(["sh", "-c", "MOIETY_DISABLE=0 exec " + " ".join({work})], env=off, check=True)
"""
    parent = node.run([sys.executable, "-c", source], "--name", "one", stdin=True)
    assert parent.stdin is not None
    joined = []
    for line in ("\n", "\n", ""):
        node.until(lambda: parent.poll() is not None or waits_for_input(parent.pid), "a step")
        events = node.cli("events", "--of", "one", "--reason", "Joined").stdout
        joined.append(len(events.splitlines()))
        if line:
            parent.stdin.write(line)
            parent.stdin.flush()
    assert finish(parent)[::2] == (0, "")
    events = node.cli("events", "--of", "one", "--reason", "Joined").stdout
    assert [*joined[:2], len(events.splitlines())] == [0, 1, 2]


def waits_for_input(pid: int) -> bool:
    """Whether a process sleeps in read(2) on its stdin."""
    try:
        return Path(f"/proc/{pid}/syscall").read_text().startswith("0 0x0 ")
    except OSError:
        return False


def test_a_program_that_is_left_alone_needs_no_agent_and_says_nothing(
    node: Node, programs: Path, kernels: Path, native: Path
) -> None:
    work = [programs / "worker", kernels, 8 * MIB, 1, 1, 0, 7]
    assert node.cli("stop").returncode == 0
    started = node.start(
        ["env", f"LD_PRELOAD={native / 'libmoiety.so'}", f"LD_LIBRARY_PATH={native / 'simgpu'}"]
        + [str(part) for part in work],
        env={"MOIETY_DISABLE": "1"},
    )
    assert finish(started)[::2] == (0, "")
    unshared = node.run(work, env={"MOIETY_DISABLE": "1", "LD_LIBRARY_PATH": f"{native}/simgpu"})
    code, _, err = finish(unshared)
    assert (code, err) == (0, "moiety: MOIETY_DISABLE is set; the program runs unshared\n")
