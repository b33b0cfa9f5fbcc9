"""This version of moiety beside the next ones: agents, commands and programs of each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish
from moiety.wire.layout import VERSION
from tests.support.versions import other_version

MakeNode = Callable[[str], Node]
GPU = "A100-80:memory=320MiB"
MIB = 1 << 20


def worker(node: Node, programs: Path, kernels: Path, rounds: int) -> subprocess.Popen[str]:
    return node.run([programs / "worker", kernels, 120 * MIB, rounds, 3, 0, 7])


def of_version(node: Node, path: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of another version, run to its end."""
    return subprocess.run(
        [sys.executable, "-m", "moiety", *words],
        env={**node.env, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("protocol", "attached"),
    [
        (VERSION, "as here"),
        (VERSION + 1, "as here"),
        (VERSION, "longer"),
        (VERSION, "shorter"),
    ],
)
def test_another_versions_agent_serves_programs_of_this_one(
    make_node: MakeNode, programs: Path, kernels: Path, tmp_path: Path, protocol: int, attached: str
) -> None:
    """A message to clients may have a field more or less at its end than this version knows."""
    node = make_node(GPU)
    path = other_version(tmp_path, "9.9.9", protocol=protocol, attached=attached)
    node.start_agent(env={"PYTHONPATH": path})
    first, second = (worker(node, programs, kernels, 60) for _ in range(2))
    node.until(lambda: len(node.json("ps")) == 2, "both are there")
    told = node.cli("doctor")
    assert "version 9.9.9" in told.stdout
    assert "no process uses the GPUs without moiety" in told.stdout
    for running in (first, second):
        code, out, said = finish(running)
        assert (code, out) == (0, "0 words wrong\n"), said


def test_programs_of_an_agent_that_a_command_does_not_understand_are_no_strangers(
    make_node: MakeNode, programs: Path, kernels: Path, tmp_path: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    running = worker(node, programs, kernels, 100000)
    node.until(
        lambda: any(row["allocated_bytes"] >= 120 * MIB for row in node.json("ps")), "it has memory"
    )
    path = other_version(tmp_path, "9.9.9", protocol=VERSION + 2)
    told = of_version(node, path, "doctor")
    assert "the agent that runs is moiety" in told.stdout, told
    assert f"{os.sep}worker" not in told.stdout
    assert "uses GPU" not in told.stdout
    assert "no process uses the GPUs without moiety" in told.stdout
    running.kill()
