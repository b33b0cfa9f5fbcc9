"""One program with more memory than its GPU has: right, shown, by turns, and refused otherwise."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moiety.model import errors
from moiety.testing.node import Node, finish, kill
from tests.integration.verified import assert_right

GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
QUICK = ("--quantum", "30ms", "--idle-min", "2ms", "--idle-free", "1ms")
OVER = ("--mode", "managed", "--memory-limit", "150%")
PIECES = 6
SMALL = 4 << 20
"""what the program's small memory takes"""

MakeNode = Callable[[str], Node]
Build = Callable[[str], Path]


def capacity(node: Node) -> int:
    (gpu,) = node.json("status")["gpus"]
    return int(gpu["capacity_bytes"])


def command(node: Node, build: Build, kernels: Path, sweeps: int = 0) -> list[str]:
    piece = (capacity(node) * 3 // 2 - SMALL) // PIECES >> 16 << 16
    return [str(each) for each in (build("oversize"), kernels, piece, PIECES, sweeps)]


def row_of(node: Node, process: subprocess.Popen[str]) -> dict[str, Any]:
    """What `ps` says of a program; empty while it is not there."""
    return next((row for row in node.json("ps") if row["pid"] == process.pid), {})


def begun(process: subprocess.Popen[str]) -> list[int]:
    """The sizes of the GPU that it saw, once it has all of its memory."""
    assert process.stdout
    seen = [int(word) for word in process.stdout.readline().split()]
    assert process.stdout.readline() == "ready\n"
    return seen


def end(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    assert_right(*processes)


def assert_ledger_is_empty(node: Node) -> None:
    def is_empty() -> bool:
        (gpu,) = node.json("status")["gpus"]
        return not any(gpu[key] for key in ("allocated_bytes", "resident_bytes", "used_bytes"))

    node.until(is_empty, "the ledger is back at zero")


def test_half_as_much_again_as_the_gpu_is_right_and_shown(
    make_node: MakeNode, build: Build, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    size = capacity(node)
    process = node.run(command(node, build, kernels), *OVER, stdin=True)
    assert begun(process) == [size * 3 // 2] * 2
    row = row_of(node, process)
    assert row["limit_bytes"] == size * 3 // 2
    assert 1.4 * size < row["allocated_bytes"] <= row["limit_bytes"]
    assert row["managed_bytes"] == row["allocated_bytes"]
    assert row["resident_bytes"] == size
    assert row["oversubscribed_bytes"] == row["allocated_bytes"] - size
    assert row["share"]["memory_limit_part"] == 1.5
    (gpu,) = node.json("status")["gpus"]
    assert gpu["allocated_bytes"] == row["allocated_bytes"]
    assert gpu["resident_bytes"] == size
    assert gpu["used_bytes"] <= gpu["total_bytes"]
    said = node.cli("inspect", str(process.pid)).stdout
    assert re.search(r"share memory limit part +150 %\n", said)
    assert re.search(r"oversubscribed +[0-9.]+ MiB\n", said)
    titles, line = node.cli("ps", "-o", "wide").stdout.splitlines()
    assert line[titles.index("MODE") :].startswith("managed")
    end(process)
    assert_ledger_is_empty(node)


@pytest.mark.slow
def test_two_of_them_take_turns(make_node: MakeNode, build: Build, kernels: Path) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    size = capacity(node)
    both = [node.run(command(node, build, kernels), *OVER, stdin=True) for _ in range(2)]
    for process in both:
        begun(process)

    def five_each() -> bool:
        rows = node.json("ps")
        assert sum(row["state"] == "holding" for row in rows) <= 1
        assert sum(row["resident_bytes"] for row in rows) <= size
        return all(row["handoffs"] >= 5 for row in rows)

    node.until(five_each, "each had five turns")
    end(*both)
    assert_ledger_is_empty(node)


@pytest.mark.slow
def test_an_agent_that_follows_knows_what_it_has(
    make_node: MakeNode, build: Build, kernels: Path
) -> None:
    node = make_node(GPU)
    agent = node.start_agent(*QUICK)
    process = node.run(command(node, build, kernels), *OVER, stdin=True)
    begun(process)
    before = row_of(node, process)
    kill(agent)
    node.start_agent(*QUICK)
    node.until(lambda: row_of(node, process).get("allocated_bytes", 0) > 0, "it is back")
    row = row_of(node, process)
    for field in ("allocated_bytes", "managed_bytes", "limit_bytes", "oversubscribed_bytes"):
        assert row[field] == before[field]
    end(process)
    assert_ledger_is_empty(node)


@pytest.mark.slow
def test_a_program_of_the_other_mode_beside_it_stays_right(
    make_node: MakeNode, build: Build, kernels: Path, programs: Path
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    large = node.run(command(node, build, kernels), *OVER, stdin=True)
    begun(large)
    worker = [programs / "worker", kernels, 24 << 20, "30", "0", "0", "1"]
    assert_right(node.run(worker, "--memory", "24MiB"), node.run(worker))
    end(large)
    assert_ledger_is_empty(node)


@pytest.mark.parametrize(
    ("limit", "error", "says"),
    [
        ("150%", errors.LimitAboveGpu, "a memory limit of 150 % is more than a GPU has"),
        ("130MiB", errors.LimitAboveCapacity, "a memory limit of 130 MiB is more than any GPU"),
    ],
)
def test_without_managed_mode_a_limit_beyond_the_gpu_is_refused(
    make_node: MakeNode, limit: str, error: type[errors.MoietyError], says: str
) -> None:
    node = make_node(GPU)
    node.start_agent()
    done = node.cli("run", "--memory-limit", limit, "--", "true")
    assert done.returncode == error.exit_code
    assert says in done.stderr
    assert "add --mode managed" in done.stderr
    done = node.cli("run", "--memory-limit", limit, "--mode", "managed", "--", "true")
    assert done.returncode == 0, done.stderr
    done = node.cli("run", "--mode", "managed", "--memory", limit, "--", "true")
    assert done.returncode == errors.KeptManaged.exit_code


def test_a_part_of_the_gpu_is_a_limit_in_any_mode_and_can_be_changed(
    make_node: MakeNode, build: Build, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    half = capacity(node) // 2
    process = node.run(
        [build("oversize"), kernels, half // 4, "3", "0"], "--memory-limit", "50%", stdin=True
    )
    assert begun(process) == [half, half]
    assert row_of(node, process)["limit_bytes"] == half
    pid = str(process.pid)
    done = node.cli("set", pid, "--memory-limit", "200%")
    assert done.returncode == errors.LimitAboveGpu.exit_code
    done = node.cli("set", pid, "--memory-limit", "200%", "--mode", "managed")
    assert done.returncode == 0, done.stderr
    assert "at most 200 % of the GPU's memory" in done.stdout
    assert row_of(node, process)["limit_bytes"] == 2 * capacity(node)
    done = node.cli("set", pid, "--mode", "swap")
    assert done.returncode == errors.LimitAboveGpu.exit_code
    done = node.cli("set", pid, "--mode", "swap", "--memory-limit", "none")
    assert done.returncode == 0, done.stderr
    assert row_of(node, process)["limit_bytes"] == capacity(node)
    end(process)


def test_a_program_that_exceeds_the_larger_limit_is_refused(
    make_node: MakeNode, build: Build, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    piece = capacity(node) // 4
    process = node.run([build("oversize"), kernels, piece, "7", "1"], *OVER)
    code, _, err = finish(process)
    assert code == 1
    assert "cuMemAlloc_v2(&at[i], bytes) gave CUDA_ERROR_OUT_OF_MEMORY" in err
    assert_ledger_is_empty(node)


def test_a_share_for_containers_has_the_same_rule(make_node: MakeNode) -> None:
    node = make_node(GPU)
    node.start_agent()
    made = ["container", "spec", "--name", "big", "--output", "-", "--memory-limit", "150%"]
    done = node.cli(*made)
    assert done.returncode == errors.LimitAboveGpu.exit_code
    done = node.cli(*made, "--mode", "managed")
    assert done.returncode == 0, done.stderr
    assert "150 %" in node.cli("container", "ls").stdout
