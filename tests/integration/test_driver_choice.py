"""The driver is the library that answers, not the first one with its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish
from tests.support.native import compile_c

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests" / "native" / "programs" / "stub_first.c"
GPU = "A100-80:memory=64MiB"
STUB = "34"
"""CUDA_ERROR_STUB_LIBRARY"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stub")
    return compile_c([SOURCE], folder / "stub_first", flags=(f"-I{ROOT / 'native'}", "-ldl"))


def library(folder: Path, what: str, name: str) -> Path:
    """A library of the driver's name; without a soname, so that the driver loads beside it."""
    flags = (f"-I{ROOT / 'native'}", f"-D{what}")
    return compile_c([SOURCE], folder / name, shared=True, flags=flags)


def said(node: Node, program: Path, *libraries: object) -> list[str]:
    code, out, err = finish(node.run([program, *libraries]))
    assert code == 0, err
    return out.splitlines()


def test_a_driver_that_is_loaded_after_a_stub_is_shared(
    make_node: Callable[[str], Node], program: Path, tmp_path: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    stub = library(tmp_path, "STUB", "libcuda.so")
    lines = said(node, program, stub, "libcuda.so.1")
    assert lines[2] == "driver libmoiety.so 0"
    assert lines[3] == f"first libcuda.so {STUB}", "the stub's calls stay the stub's"


def test_a_library_that_exports_nothing_of_the_drivers_is_not_the_driver(
    make_node: Callable[[str], Node], program: Path, tmp_path: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    helper = library(tmp_path, "HELPER", "libcuda.so.helper")
    lines = said(node, program, helper, "libcuda.so.1")
    assert lines == ["first none", "any none", "driver libmoiety.so 0", "first none"]


def test_a_stub_alone_says_that_it_is_one(
    make_node: Callable[[str], Node], program: Path, tmp_path: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    stub = library(tmp_path, "STUB", "libcuda.so")
    lines = said(node, program, stub)
    assert [line.split()[-1] for line in lines] == [STUB, STUB]
