"""What programs are told of memory of every kind: the same as without us."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish
from tests.integration.verified import assert_right
from tests.support.native import compile_c

from .conftest import NATIVE, ROOT

MIB = 1 << 20
GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
QUICK = ("--quantum", "3ms", "--idle-min", "2ms", "--idle-free", "1ms")
FOREVER = "1000000"

MakeNode = Callable[[str], Node]


@pytest.fixture(scope="module")
def asks(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "tests" / "native" / "programs" / "asks.c"
    flags = (f"-I{NATIVE}", str(native / "simgpu" / "libcuda.so.1"), "-ldl", "-lpthread")
    return compile_c([source], tmp_path_factory.mktemp("asks") / "asks", flags=flags)


def test_every_question_is_answered_as_without_us(
    make_node: MakeNode, asks: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    alone = finish(node.run_alone([asks, kernels, "1"]))
    shared = finish(node.run([asks, kernels, "3"]))
    assert alone[0] == 0, alone[2]
    assert alone[1].count("\n") > 1000
    assert shared[1].splitlines() == alone[1].splitlines()
    assert shared[0] == 0, shared[2]
    node.until(lambda: not node.json("ps"), "the program has left")
    (gpu,) = node.json("status")["gpus"]
    assert not any(gpu[key] for key in ("allocated_bytes", "residue_bytes", "used_bytes"))


@pytest.mark.slow
def test_and_so_it_is_between_hand_offs(
    make_node: MakeNode, asks: Path, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    alone = finish(node.run_alone([asks, kernels, "1"]))
    copies = {"MOIETY_CLEAN": "off"}  # else what did not change leaves without a copy
    asking = node.run([asks, kernels, "0"], env=copies)
    worker = node.run([programs / "worker", kernels, str(60 * MIB), FOREVER, "0", "0", "7"])

    def has_moved() -> bool:
        rows = [row for row in node.json("ps") if row["program"] == "asks"]
        assert not any(row["pinned"] for row in rows)
        return sum(int(row["evicted_bytes"]) for row in rows) > 400 * MIB

    node.until(has_moved, "its memory has left often")
    for process in (asking, worker):
        process.send_signal(signal.SIGUSR1)
    code, out, err = finish(asking)
    assert out.splitlines() == alone[1].splitlines()
    assert code == 0, err
    assert_right(worker)
