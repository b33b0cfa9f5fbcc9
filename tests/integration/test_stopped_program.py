"""A program that is stopped while agents come and go, and whose first process is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.agent.core.recovery import SETTLE_S
from moiety.testing.node import Node, kill
from moiety.testing.waiting import DEADLINE_S
from tests.integration.verified import RIGHT

MakeNode = Callable[[str], Node]
MIB = 1 << 20
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_it_finds_a_later_agent_once_it_continues(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node("A100-80:memory=96MiB")
    agent = node.start_agent("--linger", "0")
    work = f"{programs / 'worker'} {kernels} {20 * MIB} 1000000 1 0 1"
    first = node.run(["/bin/sh", "-c", f"{work} & read end"], stdin=True)
    node.until(lambda: any(row["handoffs"] for row in node.json("ps")), "the program runs")
    assert first.stdin
    first.stdin.close()
    first.stdin = None
    node.until(lambda: first.poll() is not None, "its shell has ended")
    (row,) = node.json("ps")
    try:
        os.kill(row["pid"], signal.SIGSTOP)
        kill(agent)
        for count in (1, 2):
            agent = node.start_agent("--linger", "0")
            node.until_told("Missing", count=count)
            # By then a workload without processes is forgotten.
            time.sleep(2 * SETTLE_S)  # noqa: TID251 (that this time passes is what is tested)
            assert list((node.directory / "w").glob("*/shim.sock"))
            agent.send_signal(signal.SIGTERM)
            agent.wait()
        node.start_agent("--linger", "0")
        os.kill(row["pid"], signal.SIGCONT)
        node.until(lambda: [each["pid"] for each in node.json("ps")] == [row["pid"]], "it is back")
        os.kill(row["pid"], signal.SIGUSR1)
        out, said = first.communicate(timeout=DEADLINE_S)
        assert RIGHT.search(out), said
        node.until(lambda: not list((node.directory / "w").glob("*")), "it is forgotten")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(row["pid"], signal.SIGKILL)
