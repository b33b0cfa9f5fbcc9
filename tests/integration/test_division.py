"""Where a simulated GPU does not divide its time among programs, these take turns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.agent.control.rows import ProcessRow
from moiety.agent.system.paths import Directory
from moiety.testing.node import Node
from moiety.testing.waiting import DEADLINE_S

MPS = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB,mps=1"
MakeNode = Callable[[str], Node]


def rows(node: Node) -> list[ProcessRow]:
    with Call(Directory(node.directory), DEADLINE_S) as call:
        return call.ask(protocol.Ps(), protocol.Processes).rows


def test_programs_that_mps_serves_take_turns_although_they_fit(
    make_node: MakeNode, build: Callable[[str], Path], kernels: Path
) -> None:
    node = make_node(MPS)
    node.env["KERNELS"] = str(kernels)
    node.start_agent("--watch-every", "200ms")
    for _ in range(2):
        process = node.run([build("simgpu_steady"), 500], stdin=True)
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("\n")
        process.stdin.flush()
    node.until_told("UnequalDivision", count=2)
    before = {row.tenant: row.handoffs for row in rows(node)}
    node.until(
        lambda: all(row.handoffs > before[row.tenant] + 2 for row in rows(node)), "both have turns"
    )
    for _ in range(50):
        assert [row.state for row in rows(node)].count("holding") <= 1
    shown = node.cli("events").stdout
    assert shown.count("UnequalDivision") == 2
    assert "takes turns on GPU 0: NVIDIA's MPS serves it beside others" in shown
