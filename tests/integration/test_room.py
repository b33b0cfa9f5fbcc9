"""The driver runs out of memory by itself, while others have some that could leave."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish

GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB,module=2MiB"
OUT_OF_MEMORY = 2

Program = subprocess.Popen[str]


def said(program: Program) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def go_on(program: Program) -> str:
    assert program.stdin is not None
    program.stdin.write("\n")
    program.stdin.flush()
    return said(program)


@pytest.fixture
def node(make_node: Callable[[str], Node]) -> Node:
    made = make_node(GPU)
    made.start_agent()
    return made


@pytest.fixture
def start(node: Node, programs: Path, kernels: Path) -> Callable[[int, int], Program]:
    def run(mib: int, modules: int) -> Program:
        program = [str(part) for part in (programs / "needs_room", kernels, mib, modules)]
        running = node.start([sys.executable, "-m", "moiety", "run", "--", *program], stdin=True)
        assert said(running) == "filled"
        return running

    return run


def test_code_is_loaded_although_others_fill_the_gpu(
    node: Node, start: Callable[[int, int], Program]
) -> None:
    idle = start(60, 0)
    loading = start(20, 12)  # 60 + 20 + 2 x 2 + 24 MiB are more than 96
    assert go_on(loading) == "loaded 12, then 0"
    assert go_on(idle) == "loaded 0, then 0"
    rows = {row["pid"]: row for row in node.json("ps")}
    assert rows[idle.pid]["evicted_bytes"] > 0
    assert rows[loading.pid]["residue_bytes"] >= 20 << 20
    assert rows[loading.pid]["allocated_bytes"] == 20 << 20
    for program in (idle, loading):
        assert go_on(program) == "0 words wrong"
        assert program.wait() == 0


def test_code_that_would_shut_somebody_out_is_refused(
    start: Callable[[int, int], Program],
) -> None:
    idle = start(60, 0)
    loading = start(10, 40)
    assert go_on(idle) == "loaded 0, then 0"
    answer = go_on(loading)
    count, code = (int(word) for word in answer.removeprefix("loaded ").split(", then "))
    assert code == OUT_OF_MEMORY
    assert 12 <= count <= 16
    for program in (idle, loading):
        assert go_on(program) == "0 words wrong"
        assert program.wait() == 0
    assert loading.stderr is not None
    assert "the driver needs room for itself on GPU 0" in loading.stderr.read()


def test_a_launch_that_finds_no_memory_for_its_code_is_tried_again(
    node: Node, build: Callable[[str], Path], kernels: Path
) -> None:
    done = finish(node.run([build("lazy_kernel")], env={"KERNELS": str(kernels)}))
    assert done[:2] == (0, "ok\n"), done[2]
