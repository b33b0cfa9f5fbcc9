"""Real programs on one simulated GPU that cannot hold them all: turns, and every byte right."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish, kill
from tests.integration.verified import assert_right, assert_right_once_stopped

from .conftest import ROOT, has_cuda_core

GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
PIECE = 60 << 20
"""what each program allocates: any two of them are more than the GPU"""
QUICK = ("--quantum", "3ms", "--idle-min", "2ms", "--idle-free", "1ms")

FOREVER = "1000000"
"""rounds: the test says when it is enough"""

MakeNode = Callable[[str], Node]


def turns(node: Node) -> dict[int, int]:
    """Leases that each tenant has had so far."""
    return {row["tenant"]: row["handoffs"] for row in node.json("ps")}


def assert_ledger_is_empty(node: Node) -> None:
    """Nobody has anything on the GPU any more, by the agent's books and by NVML's."""

    def is_empty() -> bool:
        (gpu,) = node.json("status")["gpus"]
        return not any(
            gpu[key] for key in ("allocated_bytes", "resident_bytes", "residue_bytes", "used_bytes")
        )

    node.until(is_empty, "the ledger is back at zero")


@pytest.mark.slow
def test_three_programs_share_what_none_two_of_them_fit_into(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    commands: list[list[str | Path]] = [[programs / "worker"], [programs / "worker-lookup"]]
    if has_cuda_core():
        commands.append([sys.executable, ROOT / "demo" / "worker.py"])
    else:
        commands.append([programs / "worker"])
    running = [
        node.run([*command, kernels, str(PIECE), FOREVER, "0", "0", str(seed)])
        for seed, command in enumerate(commands)
    ]
    node.until(lambda: sum(turns(node).values()) >= 200, "200 turns are over")
    assert_right_once_stopped(*running)
    assert_ledger_is_empty(node)


def test_programs_that_fit_together_are_not_serialised(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    running = [
        node.run([programs / "worker", kernels, str(20 << 20), FOREVER, "5", "0", str(seed)])
        for seed in range(3)
    ]
    node.until(
        lambda: [row["state"] for row in node.json("ps")] == ["holding"] * 3,
        "all three hold the GPU at one time",
    )
    assert list(turns(node).values()) == [1] * 3
    assert_right_once_stopped(*running)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["holder", "waiter"])
def test_a_program_killed_in_a_hand_off_leaves_the_others_right(
    make_node: MakeNode, programs: Path, kernels: Path, victim: str
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    command = [programs / "worker", kernels, str(PIECE), FOREVER, "0", "0"]
    running = [node.run([*command, str(seed)]) for seed in range(3)]
    by_pid = {process.pid: process for process in running}
    wanted = {"holder": ("holding", "draining"), "waiter": ("queued", "restoring")}[victim]

    def strike() -> bool:
        rows = [r for r in node.json("ps") if r["handoffs"] >= 3]
        for row in rows:
            if row["state"] in wanted:
                kill(by_pid[row["pid"]])
                return True
        return False

    node.until(strike, f"a {victim} was there to be killed")
    survivors = [process for process in running if process.returncode != -9]
    assert len(survivors) == 2
    before = sum(turns(node).values())
    node.until(lambda: sum(turns(node).values()) >= before + 6, "hand-offs go on")
    assert_right_once_stopped(*survivors)
    assert_ledger_is_empty(node)


@pytest.mark.slow
def test_an_agent_killed_in_a_hand_off_is_followed_by_another(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    command = [programs / "worker", kernels, str(PIECE), FOREVER, "0", "0"]
    agent = node.start_agent(*QUICK)
    running = [node.run([*command, str(seed)]) for seed in range(3)]
    for _ in range(3):
        before = turns(node)

        def on_they_go(before: dict[int, int] = before) -> bool:
            now = turns(node)
            return len(now) == 3 and all(now[each] >= before.get(each, 0) + 2 for each in now)

        node.until(on_they_go, "hand-offs go on")
        kill(agent)
        agent = node.start_agent(*QUICK)
    assert_right_once_stopped(*running)
    assert_ledger_is_empty(node)


@pytest.mark.parametrize("size", [16 << 20, PIECE], ids=["fits", "fits not"])
def test_programs_with_shares_and_limits_are_right_and_end(
    make_node: MakeNode, programs: Path, kernels: Path, size: int
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    command = [programs / "worker", kernels, str(size), "30", "4", "0"]
    running = [
        node.run([*command, "1"], "--gpu", "0.3", "--gpu-limit", "0.5"),
        node.run([*command, "2"], "--gpu", "0.6", "--priority", "high"),
    ]
    for process in running:
        assert_right(process)
    assert_ledger_is_empty(node)


def test_a_limit_is_an_ordinary_out_of_memory(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    command = [programs / "worker", kernels, str(30 << 20), "1", "0", "0", "1"]
    code, _, err = finish(node.run(command, "--memory-limit", "20MiB"))
    assert code == 1
    assert "cuMemAlloc" in err
    assert "error 2" in err
    assert_right(node.run(command, "--memory-limit", "40MiB"))


def test_signals_and_exit_codes_are_the_programs_own(make_node: MakeNode) -> None:
    node = make_node(GPU)
    node.start_agent()
    assert finish(node.run(["sh", "-c", "exit 7"]))[0] == 7
    sleeper = node.run(["sleep", "1000"])
    node.until(lambda: Path(f"/proc/{sleeper.pid}/comm").read_text() == "sleep\n", "sleep runs")
    os.kill(sleeper.pid, 15)
    assert finish(sleeper)[0] == -15
