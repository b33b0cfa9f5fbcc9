"""Programs that load the driver out of the way of a preloaded library; preloading by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish
from tests.support.native import compile_c

from .conftest import NATIVE, ROOT

MIB = 1 << 20
GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"

MakeNode = Callable[[str], Node]


@pytest.fixture(scope="module")
def deepbind(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program; the library that it loads lies beside it."""
    folder = tmp_path_factory.mktemp("deepbind")
    source = ROOT / "tests" / "native" / "programs" / "deepbind.c"
    include, driver = f"-I{NATIVE}", str(native / "simgpu" / "libcuda.so.1")
    library = compile_c(
        [source],
        folder / "deep.so",
        shared=True,
        flags=(include, "-DLIBRARY", f'-DDRIVER="{driver}"', driver, "-ldl"),
    )
    return compile_c([source], folder / "deepbind", flags=(include, f'-DLOADS="{library}"', "-ldl"))


@pytest.mark.parametrize("flags", ["deep", "plain"])
@pytest.mark.parametrize("way", ["linked", "looked-up", "by-path"])
def test_a_program_shares_however_it_loads_the_driver(
    make_node: MakeNode, deepbind: Path, way: str, flags: str
) -> None:
    node = make_node(GPU)
    node.start_agent()
    process = node.run([deepbind, flags, way], stdin=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", finish(process)[2]
    (row,) = node.json("ps")
    assert row["allocated_bytes"] == 10 * MIB
    process.stdin.write("\n")  # type: ignore[union-attr]
    assert finish(process)[0] == 0


def test_whoever_needs_deepbind_can_keep_it_and_is_not_shared(
    make_node: MakeNode, deepbind: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    process = node.run(
        [deepbind, "deep", "linked"],
        env={"MOIETY_DEEPBIND": "keep"},
        stdin=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert node.json("ps") == []
    process.stdin.write("\n")  # type: ignore[union-attr]
    assert finish(process)[0] == 0


@pytest.mark.parametrize("socket", ["", None])
def test_a_program_without_an_agent_runs_unshared_and_says_so(
    make_node: MakeNode, native: Path, programs: Path, kernels: Path, socket: str | None
) -> None:
    node = make_node(GPU)
    env = {
        "LD_PRELOAD": str(native / "libmoiety.so"),
        "LD_LIBRARY_PATH": str(native / "simgpu"),
        **({} if socket is None else {"MOIETY_SOCKET": socket}),
    }
    command = [str(programs / "worker"), str(kernels), str(4 * MIB), "1", "0", "0", "1"]
    code, out, err = finish(node.start(command, env=env))
    assert (code, out) == (0, "0 words wrong\n"), err
    assert "shares no GPU" in err
    assert "moiety run" in err
