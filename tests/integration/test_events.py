"""What happened is told: while it happens, afterwards, and after the agent was killed."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moiety.model import errors
from moiety.testing.node import Node, finish, kill

MIB = 1 << 20
SMALL = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
MakeNode = Callable[[str], Node]


def told(node: Node, *options: str) -> list[dict[str, Any]]:
    done = node.cli("events", "-o", "json", *options)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def reasons(node: Node, *options: str) -> list[str]:
    return [event["reason"] for event in told(node, *options)]


def worker(programs: Path, kernels: Path, mebibytes: int, rounds: int) -> list[object]:
    return [programs / "worker", kernels, mebibytes * MIB, rounds, 0, 0, 1]


@pytest.mark.slow
def test_moves_and_ends_are_told(make_node: MakeNode, programs: Path, kernels: Path) -> None:
    node = make_node(SMALL)
    node.start_agent("--quantum", "3ms", "--idle-min", "2ms", "--idle-free", "1ms")
    running = [node.run(worker(programs, kernels, 60, 100000)) for _ in range(2)]
    node.until_told("Evicted")
    for process in running:
        process.send_signal(signal.SIGUSR1)
    for process in running:
        assert finish(process)[0] == 0
    node.until_told("Left", count=2)
    found = reasons(node)
    assert found[0] == "AgentStarted"
    assert found.count("Joined") == 2
    moved = told(node, "--reason", "evicted")
    assert moved
    assert all("moved out to the host" in e["message"] for e in moved)
    assert all(e["gpu"] == 0 for e in moved)
    assert {e["pid"] for e in moved} <= {p.pid for p in running}


def test_a_refusal_is_told_with_its_sentence(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(SMALL)
    node.start_agent()
    greedy = node.run(worker(programs, kernels, 60, 1), "--memory-limit", "40MiB")
    assert finish(greedy)[0] != 0
    refused = told(node, "--warnings")
    assert [e["reason"] for e in refused] == ["Refused"]
    assert refused[0]["pid"] == greedy.pid
    assert "40 MiB" in refused[0]["message"]
    text = node.cli("events", "--warnings").stdout
    assert f"worker (pid {greedy.pid}) on GPU 0: " in text
    assert told(node, "--of", "nobody") == []


def test_more_than_a_program_may_ever_have_is_told_as_well(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(SMALL)
    node.start_agent()
    greedy = node.run(worker(programs, kernels, 70000, 1))
    assert finish(greedy)[0] != 0
    refused = told(node, "--warnings")
    assert [(e["reason"], e["pid"], e["gpu"]) for e in refused] == [("Refused", greedy.pid, 0)]
    assert "would exceed this program's limit" in refused[0]["message"]


def test_who_is_refused_before_it_starts_is_told(make_node: MakeNode) -> None:
    node = make_node(SMALL)
    node.start_agent()
    started = node.cli("run", "--memory-limit", "1TiB", "--name", "greedy", "--", "true")
    assert started.returncode == errors.LimitAboveCapacity.exit_code
    for _ in range(2):
        node.cli("set", "nobody", "--memory-limit", "1TiB")
    (refused,) = told(node, "--warnings")
    assert (refused["reason"], refused["program"]) == ("Refused", "greedy")
    assert refused["message"].startswith("`moiety run`: a memory limit of 1 TiB")
    assert refused["uid"] == os.getuid()
    assert told(node, "--of", "greedy") == [refused]


def test_whoever_follows_hears_of_the_next_agent_as_well(make_node: MakeNode) -> None:
    node = make_node(SMALL)
    agent = node.start_agent()
    command = [sys.executable, "-m", "moiety", "events", "-f", "-o", "json"]
    follower = node.start(command)
    assert follower.stdout is not None
    first = json.loads(follower.stdout.readline())
    assert first["reason"] == "AgentStarted"
    assert node.cli("set", "--agent", "--quantum", "20ms").returncode == 0
    changed = json.loads(follower.stdout.readline())
    assert changed["reason"] == "SettingsChanged"
    assert changed["number"] == first["number"] + 1
    follower.send_signal(signal.SIGINT)
    assert finish(follower)[0] == 0
    kill(agent)
    assert reasons(node) == ["AgentStarted", "SettingsChanged"]  # read from the file
    node.start_agent()
    assert reasons(node) == ["AgentStarted", "SettingsChanged", "AgentStarted"]


def holds(row: dict[str, Any]) -> bool:
    return bool(row["state"] == "holding" and row["resident_bytes"] >= 60 * MIB)


def test_a_program_that_is_overdue_is_told_and_ended(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(SMALL)
    node.start_agent("--revoke-deadline", "200ms", "--overdue", "kill")
    stuck = node.run(worker(programs, kernels, 60, 1000000))
    node.until(lambda: any(holds(row) for row in node.json("ps")), "it holds, with its memory")
    stuck.send_signal(signal.SIGSTOP)
    other = node.run(worker(programs, kernels, 60, 2))
    assert finish(other)[0] == 0
    stuck.wait()
    found = told(node, "--of", str(stuck.pid))
    assert [e["reason"] for e in found if e["severity"] == "warning"][-1] == "Killed"
    assert "Overdue" in [e["reason"] for e in found]
    assert found[-1]["reason"] == "Left"
