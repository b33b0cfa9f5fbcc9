"""Memory of one process in another: as without us, also while both take turns with a third."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish

MIB = 1 << 20
GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
QUICK = ("--quantum", "3ms", "--idle-min", "2ms", "--idle-free", "1ms")
FOREVER = "1000000"

MakeNode = Callable[[str], Node]
Build = Callable[[str], Path]


def lines_of(out: str) -> list[str]:
    """What each process said, one process after the other."""
    return sorted(out.splitlines(), key=lambda line: line.split()[0])


def test_sharing_is_answered_as_without_us(make_node: MakeNode, build: Build) -> None:
    program = build("ipc_errors")
    node = make_node(GPU)
    node.start_agent()
    alone = finish(node.run_alone([program]))
    shared = finish(node.run([program]))
    assert alone[0] == 0, alone[2]
    assert "importer" in alone[1]
    assert lines_of(shared[1]) == lines_of(alone[1])


def test_memory_is_closed_beside_a_capture_when_its_work_is_done(
    make_node: MakeNode, build: Build, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    process = node.run([build("ipc_capture")], env={"KERNELS": str(kernels)})
    assert finish(process) == (0, "ok\n", "")


def handoffs(node: Node) -> int:
    return sum(row["handoffs"] for row in node.json("ps"))


def assert_ledger_is_empty(node: Node) -> None:
    def is_empty() -> bool:
        (gpu,) = node.json("status")["gpus"]
        return not any(
            gpu[key] for key in ("allocated_bytes", "resident_bytes", "residue_bytes", "used_bytes")
        )

    node.until(is_empty, "the ledger is back at zero")


@pytest.mark.slow
def test_a_producer_and_a_consumer_are_right_beside_a_third_after_hundreds_of_hand_offs(
    make_node: MakeNode, build: Build, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    poisoned = {"MOIETY_SIMGPU_POISON": "1"}
    running = [
        node.run([build("ipc_turns"), kernels, FOREVER, "5"], env=poisoned),
        node.run([programs / "worker", kernels, str(60 * MIB), FOREVER, "0", "0", "7"]),
    ]
    node.until(lambda: handoffs(node) >= 200, "200 leases were granted")
    pair = [row for row in node.json("ps") if row["program"] == "ipc_turns"]
    assert len(pair) == 2
    assert not any(row["pinned"] for row in pair)
    for process in running:
        process.send_signal(signal.SIGUSR1)
    (code, out, err), worker = map(finish, running)
    assert code == 0, err
    assert sorted(out.splitlines()) == ["consumer: 0 words wrong", "producer: 0 words wrong"], err
    assert worker[:2] == (0, "0 words wrong\n"), worker[2]
    assert_ledger_is_empty(node)


@pytest.mark.parametrize("victim", ["producer", "consumer"])
def test_shared_memory_is_gone_with_the_last_who_has_it(
    make_node: MakeNode, build: Build, kernels: Path, victim: str
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    process = node.run([build("ipc_turns"), kernels, FOREVER, "5"])

    def rows() -> dict[str, dict[str, int]]:
        found = [row for row in node.json("ps") if row["allocated_bytes"]]
        return {("producer" if r["pid"] == process.pid else "consumer"): r for r in found}

    node.until(lambda: sum(r["pinned_bytes"] for r in rows().values()) > 0, "memory is shared")
    os.kill(rows()[victim]["pid"], signal.SIGKILL)
    code, out, _ = finish(process)
    left = "consumer" if victim == "producer" else "producer"
    assert out == f"{left}: 0 words wrong\n"
    assert code == (-signal.SIGKILL if victim == "producer" else 0)
    assert_ledger_is_empty(node)
