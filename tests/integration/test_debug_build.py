"""The shim with its assertions: no lock is taken out of order, no chunk goes to a wrong state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.testing.node import Node
from tests.integration.verified import assert_right_once_stopped
from tests.support.native import compile_c

from .conftest import NATIVE

MIB = 1 << 20
GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
FOREVER = "1000000"
FLAGS = (
    "-DMOIETY_DEBUG",
    f"-I{NATIVE}",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-ftls-model=initial-exec",
    "-Wl,--no-undefined",
    "-ldl",
)
"""those of CMakeLists.txt that matter here"""


@pytest.fixture(scope="session")
def debug_native(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The native libraries, with a debug build of the shim."""
    folder = tmp_path_factory.mktemp("debug")
    for part in native.iterdir():
        if part.name != "libmoiety.so":
            (folder / part.name).symlink_to(part)
    sources = sorted((NATIVE / "shim").rglob("*.c"))
    made = compile_c(sources, folder / "libmoiety.so", shared=True, flags=FLAGS)
    assert b"locks were taken out of order" in made.read_bytes()
    return folder


@pytest.fixture
def node(tmp_path: Path, debug_native: Path) -> Iterator[Node]:
    with Node(tmp_path, GPU, native=debug_native) as made:
        made.start_agent("--quantum", "3ms", "--idle-min", "2ms", "--idle-free", "1ms")
        yield made


def turns(node: Node) -> int:
    """Leases so far, of all tenants."""
    return sum(row["handoffs"] for row in node.json("ps"))


@pytest.mark.slow
def test_memory_of_every_kind_moves(
    node: Node, build: Callable[[str], Path], programs: Path, kernels: Path
) -> None:
    shares = node.run([build("vmm_turns"), kernels, FOREVER, "5"])
    node.until(lambda: any(row["pinned_bytes"] for row in node.json("ps")), "memory is shared")
    running = [
        shares,
        node.run([build("pooled"), kernels, str(48 * MIB), "1", "kept"]),
        node.run([programs / "worker", kernels, str(60 * MIB), FOREVER, "0", "0", "7"]),
    ]
    node.until(lambda: turns(node) >= 100, "100 turns are over")
    assert_right_once_stopped(*running)
