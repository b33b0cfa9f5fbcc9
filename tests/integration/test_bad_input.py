"""Programs that make every mistake there is: they are told the same as without us, line by line."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish
from tests.integration.verified import assert_right

MIB = 1 << 20
GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
QUICK = ("--quantum", "3ms", "--idle-min", "2ms", "--idle-free", "1ms")
FOREVER = "1000000"

MakeNode = Callable[[str], Node]
Build = Callable[[str], Path]


def command_of(build: Build, name: str, kernels: Path) -> list[Path | str]:
    """The program, as it is called but for the number of rounds."""
    needs_kernels = {"mistakes_memory": False, "mistakes_objects": True}
    return [build(name), kernels] if needs_kernels[name] else [build(name)]


@pytest.mark.parametrize("name", ["mistakes_memory", "mistakes_objects"])
def test_mistakes_are_answered_as_without_us(
    make_node: MakeNode, build: Build, kernels: Path, name: str
) -> None:
    command = command_of(build, name, kernels)
    node = make_node(GPU)
    node.start_agent()
    alone = finish(node.run_alone([*command, "1"]))
    shared = finish(node.run([*command, "5"]))
    assert alone[0] == 0, alone[2]
    assert alone[1].count("\n") > 200
    assert shared[1].splitlines() == alone[1].splitlines()
    assert shared[0] == 0, shared[2]
    node.until(lambda: not node.json("ps"), "the program has left")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mistakes_memory", "mistakes_objects"])
def test_mistakes_are_answered_so_also_between_hand_offs(
    make_node: MakeNode, build: Build, programs: Path, kernels: Path, name: str
) -> None:
    command = command_of(build, name, kernels)
    node = make_node(GPU)
    node.start_agent(*QUICK)
    alone = finish(node.run_alone([*command, "1"]))
    copies = {"MOIETY_CLEAN": "off"}  # else what did not change leaves without a copy
    wrong = node.run([*command, "0"], env=copies)
    right = node.run([programs / "worker", kernels, str(60 * MIB), FOREVER, "0", "0", "7"])

    def has_moved() -> bool:
        moved = {row["program"]: int(row["evicted_bytes"]) for row in node.json("ps")}
        return moved.get(name, 0) > 20 * 20 * MIB

    node.until(has_moved, "the program's memory has left twenty times")
    for process in (wrong, right):
        process.send_signal(signal.SIGUSR1)
    code, out, err = finish(wrong)
    assert out.splitlines() == alone[1].splitlines()
    assert code == 0, err
    assert_right(right)


def test_a_context_that_a_mistake_ended_says_so_as_without_us(
    make_node: MakeNode, build: Build, kernels: Path
) -> None:
    command = [build("mistakes_fatal"), kernels]
    node = make_node(GPU)
    node.start_agent()
    alone = finish(node.run_alone(command))
    shared = finish(node.run(command))
    assert alone[0] == 0, alone[2]
    assert alone[1].count("\n") > 500
    assert shared[1].splitlines() == alone[1].splitlines()
    node.until(lambda: not node.json("ps"), "the program has left")


@pytest.mark.slow
def test_a_context_that_a_mistake_ended_is_in_nobodys_way(
    make_node: MakeNode, build: Build, programs: Path, kernels: Path
) -> None:
    command = [build("mistakes_fatal"), kernels]
    node = make_node(GPU)
    node.start_agent(*QUICK)
    alone = finish(node.run_alone(command))
    right = node.run([programs / "worker", kernels, str(60 * MIB), FOREVER, "0", "0", "7"])
    shared = finish(node.run(command))
    right.send_signal(signal.SIGUSR1)
    assert shared[1].splitlines() == alone[1].splitlines()
    assert_right(right)
    node.until(lambda: not node.json("ps"), "both have left")
