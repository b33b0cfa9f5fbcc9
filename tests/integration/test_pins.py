"""Memory that becomes unmovable, with real programs: what would shut out another is refused."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.arbiter.state.freed import FREED_S
from moiety.testing.node import Node

GPU = "A100-80:memory=256MiB,link=8GB/s,residue=2MiB"
QUICK = ("--quantum", "3ms", "--idle-min", "2ms", "--idle-free", "1ms")
OUT_OF_MEMORY = "2"
TIMEOUT_S = 60.0

MakeNode = Callable[[str], Node]
Build = Callable[[str], Path]


class Program:
    """`pins` (tests/native/programs) under moiety; it does one thing at a time."""

    def __init__(self, node: Node, program: Path, *options: str) -> None:
        self.process: subprocess.Popen[str] = node.run([program], *options, stdin=True)
        assert self.do("begin") == "0"  # so that tenants have the order of their tests

    def begin(self, line: str) -> None:
        """Have it do something, without waiting for it."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self, timeout_s: float = TIMEOUT_S) -> list[str]:
        """Its answer to the oldest line: the driver's result, and what follows it."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], timeout_s)
        assert ready, "it stands still"
        words = self.process.stdout.readline().split()
        assert words, self.process.communicate()
        return words[1:]

    def do(self, line: str) -> str:
        """Have it do something; the driver's result."""
        self.begin(line)
        return self.answer()[0]

    def end(self) -> str:
        """What it printed for its user."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None
        _, error = self.process.communicate(timeout=TIMEOUT_S)
        assert self.process.returncode == 0, error
        return error


@pytest.fixture
def program(build: Build) -> Path:
    return build("pins")


def reasons(node: Node, reason: str) -> list[str]:
    lines = node.cli("events", "-o", "json").stdout.splitlines()
    return [e["message"] for e in map(json.loads, lines) if e["reason"] == reason]


@pytest.mark.parametrize(
    ("made", "pin", "call"),
    [
        ("alloc", "ipc", "cuIpcGetMemHandle"),
        ("create", "handle", "cuMemExportToShareableHandle"),
        ("alloc", "sync", "cuPointerSetAttribute"),
        ("alloc", "legacy", "cuMemAlloc"),
        ("alloc", "unknown cuMemMapArrayAsync", "cuMemMapArrayAsync"),
        ("alloc", "unknown cuMulticastBindMem", "cuMulticastBindMem"),
    ],
)
def test_what_would_shut_another_out_is_refused_and_both_go_on(
    make_node: MakeNode, program: Path, made: str, pin: str, call: str
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    one, other = Program(node, program), Program(node, program)
    assert one.do(f"{made} 160") == other.do("alloc 160") == "0"
    assert one.do(pin) == OUT_OF_MEMORY
    for _ in range(3):
        assert one.do("use") == other.do("use") == "0"
    assert not any(row["pinned"] or row["pinned_bytes"] for row in node.json("ps"))
    (refused,) = reasons(node, "Refused")
    assert call in refused
    assert "would keep 160 MiB on GPU 0 for good, and shut out tenant 2" in refused
    assert f"moiety: {refused}" in one.end()
    assert other.end() == ""


@pytest.mark.parametrize(("made", "pin"), [("alloc", "ipc"), ("create", "handle")])
def test_what_the_share_keeps_may_be_pinned(
    make_node: MakeNode, program: Path, made: str, pin: str
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    one = Program(node, program, "--memory", "160MiB")
    other = Program(node, program)
    assert one.do(f"{made} 160") == other.do("alloc 40") == "0"
    assert one.do(pin) == "0"
    for _ in range(3):
        assert one.do("use") == other.do("use") == "0"
    assert other.do("alloc 100") == OUT_OF_MEMORY
    assert one.end() == ""


def test_a_pin_beside_which_others_fit_stays_until_it_is_freed(
    make_node: MakeNode, program: Path
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    one, other = Program(node, program), Program(node, program)
    assert one.do("alloc 60") == other.do("alloc 120") == "0"
    assert one.do("ipc") == one.do("ipc") == one.do("sync") == "0"
    assert {row["tenant"]: row["pinned_bytes"] for row in node.json("ps")} == {1: 60 << 20, 2: 0}
    assert other.do("use") == one.do("use") == "0"
    (said,) = reasons(node, "Pinned")
    assert said == "it called cuIpcGetMemHandle: 60 MiB stay on the GPU"
    assert "60 MiB (cuIpcGetMemHandle)" in node.cli("ps", "-o", "wide").stdout
    assert "cuIpcGetMemHandle: 60 MiB" in node.cli("inspect", "1").stdout
    stays = "60 MiB of GPU 0 stay there by cuIpcGetMemHandle"
    assert f"pins (pid {node.json('ps')[0]['pid']}): {stays}" in node.cli("doctor").stdout
    assert one.do("free") == "0"
    assert one.do("alloc 160") == "0"
    node.until(lambda: not any(r["pinned_bytes"] for r in node.json("ps")), "nothing is pinned")
    assert other.do("use") == one.do("use") == other.do("use") == "0"


def test_a_pin_whose_call_fails_is_given_back(make_node: MakeNode, program: Path) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    one = Program(node, program)
    assert one.do("create 60") == "0"
    assert one.do("fail") not in ("0", OUT_OF_MEMORY)
    node.until(lambda: not any(r["pinned_bytes"] for r in node.json("ps")), "it is given back")
    other = Program(node, program)
    assert other.do("alloc 200") == "0"
    assert one.do("use") == other.do("use") == "0"


def test_what_cannot_ask_pins_unasked_and_is_named(make_node: MakeNode, program: Path) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    one, other = Program(node, program), Program(node, program)
    assert one.do("alloc 160") == other.do("alloc 160") == "0"
    assert one.do("use") == "0"
    one.do("unknown cuSimgpuSum")
    node.until(lambda: bool(reasons(node, "Pinned")), "it is named")
    assert "cuSimgpuSum" in reasons(node, "Pinned")[0]
    assert "all (cuSimgpuSum)" in node.cli("ps", "-o", "wide").stdout
    other.begin("use")
    node.until(lambda: any("cuSimgpuSum" in r["reason"] for r in node.json("ps")), "it is named")


def test_an_import_adds_no_bytes_while_its_exporter_lives(
    make_node: MakeNode, program: Path
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    one, other = Program(node, program), Program(node, program)
    assert one.do("alloc 60") == "0"
    one.begin("ipc")
    result, handle = one.answer()
    assert result == "0"
    assert other.do(f"open {handle}") == "0"
    rows = {row["tenant"]: row for row in node.json("ps")}
    assert (rows[1]["pinned_bytes"], rows[1]["allocated_bytes"]) == (60 << 20, 60 << 20)
    assert (rows[2]["pinned_bytes"], rows[2]["allocated_bytes"]) == (0, 0)


def test_what_a_program_freed_just_now_is_still_its_own(make_node: MakeNode, program: Path) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    one, other = Program(node, program), Program(node, program)
    assert one.do("alloc 160") == other.do("alloc 100") == "0"
    for _ in range(10):  # on a busy machine the moment may be over
        assert one.do("free") == "0"
        other.begin("ipc")
        freed_s = time.monotonic()
        result = one.do("alloc 160")
        if time.monotonic() - freed_s < FREED_S / 2:
            assert (result, other.answer()[0]) == ("0", OUT_OF_MEMORY)
            break
        if other.answer()[0] == "0":
            assert other.do("free") == other.do("alloc 100") == "0"
        if result != "0":
            assert one.do("alloc 160") == "0"
    else:
        pytest.fail("a program did not free and allocate within half a second")
    assert one.do("use") == other.do("use") == one.do("use") == "0"


def exported(program: Program) -> str:
    """The handle that a program exports."""
    program.begin("ipc")
    result, handle = program.answer()
    assert result == "0"
    return handle


@pytest.mark.parametrize("closes", ["close", "end"])
def test_an_export_that_all_have_closed_can_leave_and_come_back(
    make_node: MakeNode, program: Path, closes: str
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    one, reader = Program(node, program), Program(node, program)
    assert one.do("alloc 100") == "0"
    handle = exported(one)
    assert reader.do(f"open {handle}") == "0"
    assert reader.do("peek") == "1"
    if closes == "close":
        assert reader.do("close") == "0"
    else:
        reader.end()
        reader = Program(node, program)
    node.until(lambda: not any(r["pinned_bytes"] for r in node.json("ps")), "it can leave")
    other = Program(node, program)
    assert other.do("alloc 220") == "0"
    assert exported(one) == handle
    assert reader.do(f"open {handle}") != "0"  # it would shut out the other one
    assert "would keep 100 MiB on GPU 0 for good" in reasons(node, "Refused")[-1]
    assert one.do("use") == other.do("use") == "0"
    assert other.do("free") == "0"
    assert reader.do(f"open {handle}") == "0"
    assert reader.do("peek") == "2"
    assert sum(row["pinned_bytes"] for row in node.json("ps")) == 100 << 20
    assert one.do("use") == "0"
    assert reader.do("peek") == "3"
