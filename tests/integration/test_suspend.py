"""`moiety suspend`: a program's memory leaves the GPU, every byte is right when it is back."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moiety.model.format import format_bytes
from moiety.testing.node import Node, kill
from tests.integration.verified import assert_right_once_stopped

MakeNode = Callable[[str], Node]
MIB = 1 << 20
GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
FOREVER = "1000000"


def work(programs: Path, kernels: Path, mib: int, seed: int = 1) -> list[str | Path]:
    """A program that computes until it is stopped, and then checks every word."""
    return [programs / "worker", kernels, str(mib * MIB), FOREVER, "0", "0", str(seed)]


def row(node: Node, process: subprocess.Popen[str]) -> dict[str, Any]:
    """What `moiety ps -a` says of a program; empty while it says nothing."""
    return next((each for each in node.json("ps", "-a") if each["pid"] == process.pid), {})


def runs(node: Node, process: subprocess.Popen[str]) -> Callable[[], bool]:
    """Whether a program has had a turn."""
    return lambda: row(node, process).get("handoffs", 0) > 0


def test_of_two_that_do_not_fit_one_is_suspended_and_resumed_and_no_byte_is_lost(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    agent = node.start_agent()
    one = node.run(work(programs, kernels, 60), "--gpu", "0.6", "--name", "one")
    other = node.run(work(programs, kernels, 60, 2), "--name", "other")
    node.until(runs(node, one), "it runs")
    node.until(runs(node, other), "the other one runs")

    done = node.cli("suspend", "one")
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    shown = row(node, one)
    workload = shown["workload"]
    evicted, context = shown["allocated_bytes"], shown["residue_bytes"]
    assert first == (
        f"one (pid {one.pid}) is suspended: {format_bytes(evicted)} left the GPU, "
        f"{format_bytes(context)} of its contexts stay there"
    )
    assert last == f"  `moiety resume {workload}` lets it go on"
    assert (shown["state"], shown["resident_bytes"]) == ("suspended", 0)
    assert (context >= 2 * MIB, shown["reason"]) == (True, "it is suspended")
    status = node.json("status")["gpus"][0]
    assert status["suspended"] == [shown["tenant"]]
    assert f"suspended, so without turns: tenant {shown['tenant']}" in node.cli("status").stdout
    assert "suspended" in node.cli("top", "--once").stdout
    assert node.cli("events", "-o", "json").stdout.count('"Suspended"') == 1
    handoffs = shown["handoffs"]

    # What it was promised is another's meanwhile; with that, it cannot be resumed.
    third = node.run(work(programs, kernels, 20, 3), "--gpu", "0.9", "--name", "third")
    node.until(runs(node, third), "the third one runs")
    assert row(node, one)["handoffs"] == handoffs, "it has had no turn"
    refused = node.cli("resume", "one")
    assert refused.returncode == 75
    assert "60 % of GPU 0 cannot be guaranteed" in refused.stderr
    assert_right_once_stopped(third)

    # An agent that follows keeps to it, and nothing is lost.
    kill(agent)
    node.start_agent()
    node.until(lambda: row(node, one).get("state") == "suspended", "it is suspended again")
    assert row(node, one)["resident_bytes"] == 0
    assert node.cli("suspend", "one").returncode == 0, "it may be repeated"

    assert node.cli("resume", workload).stdout == f"one (pid {one.pid}) goes on\n"
    assert node.cli("resume", "one").stdout == f"one (pid {one.pid}) was not suspended\n"
    node.until(runs(node, one), "it goes on")
    assert_right_once_stopped(one, other)


def test_a_program_that_comes_to_a_suspended_workload_is_suspended(
    make_node: MakeNode, programs: Path, kernels: Path, tmp_path: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    go = tmp_path / "go"
    command = " ".join(map(str, work(programs, kernels, 20)))
    shell = node.run(["/bin/sh", "-c", f"while [ ! -e {go} ]; do sleep 0.1; done; exec {command}"])
    node.until(lambda: row(node, shell).get("state") == "starting", "it has started")
    workload = row(node, shell)["workload"]
    assert node.cli("suspend", workload).returncode == 0
    assert row(node, shell)["state"] == "suspended"
    go.touch()
    node.until(lambda: row(node, shell).get("tenant", 0) > 0, "it uses the GPU")
    node.until(lambda: row(node, shell)["state"] == "suspended", "it is suspended")
    assert row(node, shell)["handoffs"] == 0
    assert node.cli("resume", workload).returncode == 0
    node.until(runs(node, shell), "it runs")
    assert_right_once_stopped(shell)


def test_memory_that_cannot_leave_is_said(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent("--arena", "30MiB")
    one = node.run(work(programs, kernels, 60), "--name", "one")
    node.until(runs(node, one), "it runs")
    done = node.cli("suspend", "one")
    assert done.returncode == 0, done.stderr
    assert "it is suspended, but for" in done.stdout
    assert "for which the host has no room" in done.stdout
    assert row(node, one)["resident_bytes"] >= 30 * MIB
    assert node.cli("resume", "one").returncode == 0
    assert_right_once_stopped(one)


def test_only_its_user_or_an_administrator_may_name_it(make_node: MakeNode) -> None:
    node = make_node(GPU)
    node.start_agent()
    unknown = node.cli("suspend", "nothing")
    assert unknown.returncode != 0
    assert "nothing" in unknown.stderr
