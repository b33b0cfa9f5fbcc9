"""How memory leaves: swap and managed, alone, side by side, and changed while a program runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moiety.model import errors
from moiety.testing.node import Node, finish, kill
from tests.integration.verified import assert_right, assert_right_once_stopped

GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
PIECE = 60 << 20
"""what each program allocates: any two of them are more than the GPU"""
QUICK = ("--quantum", "3ms", "--idle-min", "2ms", "--idle-free", "1ms")
FOREVER = "1000000"
"""rounds: the test says when it is enough"""

MakeNode = Callable[[str], Node]


def row_of(node: Node, process: subprocess.Popen[str]) -> dict[str, Any]:
    """What `ps` says of a program; empty while it is not there."""
    return next((row for row in node.json("ps") if row["pid"] == process.pid), {})


def assert_ledger_is_empty(node: Node) -> None:
    """Nobody has anything on the GPU any more, by the agent's books and by NVML's."""

    def is_empty() -> bool:
        (gpu,) = node.json("status")["gpus"]
        return not any(gpu[key] for key in ("allocated_bytes", "resident_bytes", "used_bytes"))

    node.until(is_empty, "the ledger is back at zero")


def test_a_program_in_managed_mode_is_right_and_shown(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    process = node.run(
        [programs / "worker", kernels, PIECE, FOREVER, "50", "20", "1"], "--mode", "managed"
    )
    node.until(lambda: row_of(node, process).get("managed_bytes", 0) >= PIECE, "it has its memory")
    row = row_of(node, process)
    assert row["share"]["mode"] == "managed"
    assert row["managed_bytes"] == row["allocated_bytes"]
    titles, line = node.cli("ps", "-o", "wide").stdout.splitlines()
    assert line[titles.index("MODE") :].startswith("managed")
    assert_right_once_stopped(process)
    assert row["evicted_bytes"] == 0
    assert_ledger_is_empty(node)


def test_a_limit_holds_in_managed_mode(make_node: MakeNode, programs: Path, kernels: Path) -> None:
    node = make_node(GPU)
    node.start_agent()
    command = [programs / "worker", kernels, 30 << 20, "1", "0", "0", "1"]
    code, _, err = finish(node.run(command, "--mode", "managed", "--memory-limit", "20MiB"))
    assert code == 1
    assert "cuMemAlloc_v2 failed with error 2" in err


@pytest.mark.slow
@pytest.mark.parametrize("other", ["managed", "swap"])
def test_two_that_do_not_fit_take_turns(
    make_node: MakeNode, programs: Path, kernels: Path, other: str
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    command = [programs / "worker", kernels, PIECE, FOREVER, "0", "0"]
    running = [
        node.run([*command, str(seed)], "--mode", mode)
        for seed, mode in enumerate(["managed", other])
    ]
    turns: dict[int, int] = {}

    def twenty_each() -> bool:
        rows = node.json("ps")
        if all(row["handoffs"] > 1 for row in rows):  # before that they may hold together, and fit
            assert sum(row["state"] == "holding" for row in rows) <= 1
        assert sum(row["resident_bytes"] for row in rows) <= 96 << 20
        turns.update({row["tenant"]: row["handoffs"] for row in rows})
        return len(turns) == 2 and min(turns.values()) >= 20

    node.until(twenty_each, "each had twenty turns")
    assert_right_once_stopped(*running)
    assert_ledger_is_empty(node)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), [("swap", "managed"), ("managed", "swap")])
def test_a_mode_changes_while_memory_of_both_kinds_is_there(
    make_node: MakeNode, programs: Path, kernels: Path, first: str, then: str
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    command = [programs / "modes", kernels]
    process = node.start(
        [sys.executable, "-m", "moiety", "run", "--mode", first, "--", *map(str, command)],
        stdin=True,
    )
    assert process.stdin
    assert process.stdout
    assert process.stdout.readline() == "first\n"
    rival = node.run([programs / "worker", kernels, PIECE, FOREVER, "0", "0", "1"])
    node.until(lambda: row_of(node, rival).get("handoffs", 0) > 0, "the other one holds the GPU")
    done = node.cli("set", str(process.pid), "--mode", then)
    assert done.returncode == 0, done.stderr
    assert f"allocates from now on is in {then} mode; the rest stays" in done.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    kinds = {"swap": "000", "managed": "111"}
    assert process.stdout.readline() == f"{kinds[first]}{kinds[then]}\n"
    row = row_of(node, process)
    assert row["share"]["mode"] == then
    assert 0 < row["managed_bytes"] < row["allocated_bytes"]
    assert process.stdout.readline() == "second\n"
    process.stdin.write("\n")
    process.stdin.flush()
    before = row["handoffs"]
    node.until(lambda: row_of(node, process)["handoffs"] >= before + 5, "they take turns")
    process.stdin.write("\n")
    process.stdin.flush()
    assert_right(process)
    assert_right_once_stopped(rival)
    assert_ledger_is_empty(node)


@pytest.mark.slow
def test_an_agent_that_follows_knows_what_is_managed(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    agent = node.start_agent(*QUICK)
    command = [programs / "worker", kernels, PIECE, FOREVER, "0", "0"]
    running = [node.run([*command, str(seed)], "--mode", "managed") for seed in range(2)]

    def both() -> list[dict[str, Any]]:
        return [row for row in node.json("ps") if row["managed_bytes"] >= PIECE]

    node.until(lambda: len(both()) == 2, "both have their memory")
    kill(agent)
    node.start_agent(*QUICK)
    node.until(lambda: len(both()) == 2, "both are back with it")
    assert all(row["share"]["mode"] == "managed" for row in both())
    assert_right_once_stopped(*running)
    assert_ledger_is_empty(node)


@pytest.mark.slow
def test_one_that_is_killed_in_managed_mode_leaves_nothing(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    command = [programs / "worker", kernels, PIECE, FOREVER, "0", "0"]
    running = [node.run([*command, str(seed)], "--mode", "managed") for seed in range(2)]
    victim, survivor = running
    node.until(lambda: row_of(node, victim).get("handoffs", 0) >= 3, "turns are taken")
    kill(victim)
    assert_right_once_stopped(survivor)
    assert_ledger_is_empty(node)


def test_managed_memory_of_a_programs_own_is_counted_and_pins_nobody(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    done = node.run([programs / "simgpu_managed", "8", "3"], env={"KERNELS": str(kernels)})
    code, _, err = finish(done)
    assert code == 0, err
    log = (node.folder / "agent-0.log").read_text()
    assert "pinned" not in log


def test_a_mode_that_does_not_exist_or_cannot_be_is_refused(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    done = node.cli("run", "--mode", "paged", "--", "true")
    assert done.returncode == errors.InvalidMode.exit_code
    assert "there is no mode 'paged'\n  try: one of swap, managed" in done.stderr
    done = node.cli("run", "--mode", "managed", "--memory", "10MiB", "--", "true")
    assert done.returncode == errors.KeptManaged.exit_code
    assert "10 MiB cannot be kept" in done.stderr
    process = node.run(
        [programs / "worker", kernels, 20 << 20, FOREVER, "20", "10", "1"], "--memory", "10MiB"
    )
    node.until(lambda: row_of(node, process).get("allocated_bytes", 0) > 0, "it runs")
    done = node.cli("set", str(process.pid), "--mode", "managed")
    assert done.returncode == errors.KeptManaged.exit_code
    assert "--memory none" in done.stderr
    assert row_of(node, process)["share"]["mode"] == "swap"
    done = node.cli("set", str(process.pid), "--mode", "managed", "--memory", "none")
    assert done.returncode == 0, done.stderr
    assert row_of(node, process)["share"]["mode"] == "managed"
