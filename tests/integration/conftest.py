"""What the end-to-end tests share: programs built once, and nodes with simulated GPUs."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.agent.system.file_lock import is_held
from moiety.model import errors
from moiety.testing.node import Node
from moiety.testing.waiting import until
from tests.support.agent_clients import Others, Shims, connecting, starting
from tests.support.command_line import Cli
from tests.support.foreground import AgentProcess, pretended_native
from tests.support.native import compile_c, native_dir
from tests.support.pool_node import MakePool, PoolNode

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "native"


@pytest.fixture(scope="session")
def native() -> Path:
    """The folder with libmoiety.so and simgpu/."""
    folder = native_dir()
    if folder is None or not (folder / "libmoiety.so").exists():
        pytest.skip("the native libraries are not built: make test builds them")
    return folder


@pytest.fixture(scope="session")
def programs(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the C programs that the tests run."""
    folder = tmp_path_factory.mktemp("programs")
    driver = str(native / "simgpu" / "libcuda.so.1")
    include = f"-I{NATIVE}"
    own = ROOT / "tests" / "native" / "programs"
    worker = ROOT / "demo" / "worker.c"
    flags = (include, driver, "-ldl", "-lpthread")
    compile_c([worker], folder / "worker", flags=flags)
    compile_c([worker], folder / "worker-lookup", flags=(include, "-DLOOKUP", "-ldl"))
    for name in ("four_threads", "needs_room", "modes", "shim_calls", "simgpu_managed"):
        compile_c([own / f"{name}.c"], folder / name, flags=flags)
    return folder


@pytest.fixture(scope="session")
def build(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A C program of the tests, by its name, compiled when it is asked for."""
    folder = tmp_path_factory.mktemp("built")
    flags = (f"-I{NATIVE}", str(native / "simgpu" / "libcuda.so.1"), "-ldl", "-lpthread")

    def make(name: str) -> Path:
        source = ROOT / "tests" / "native" / "programs" / f"{name}.c"
        program = folder / name
        return program if program.exists() else compile_c([source], program, flags=flags)

    return make


@pytest.fixture
def kernels(native: Path) -> Path:
    """The module image of the standard kernels."""
    return native / "simgpu" / "kernels.elf"


@pytest.fixture
def make_node(tmp_path: Path, native: Path) -> Iterator[Callable[[str], Node]]:
    """Nodes that are gone after the test."""
    made: list[Node] = []

    def make(gpu: str) -> Node:
        made.append(Node(tmp_path, gpu, native=native))
        return made[-1]

    yield make
    for node in made:
        node.__exit__(None, None, None)


@pytest.fixture
def make_pool(make_node: Callable[[str], Node]) -> Iterator[MakePool]:
    """Pools that are up, and gone after the test."""
    made: list[PoolNode] = []

    def make(gpu: str) -> PoolNode:
        node = make_node(gpu)
        node.start_agent()
        made.append(PoolNode(node))
        made[-1].up()
        return made[-1]

    yield make
    for pool in made:
        pool.close()


@pytest.fixture(scope="session")
def pretended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Libraries of a driver that pretends to have one card."""
    return pretended_native(tmp_path_factory.mktemp("native"), 16 << 30)


@pytest.fixture
def background(
    tmp_path: Path, pretended: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AgentProcess]:
    """The surroundings of an agent that is not started yet; it is gone after the test."""
    template = AgentProcess(tmp_path / "a", pretended)
    for name, value in template.environment.items():
        if name.startswith("MOIETY_"):
            monkeypatch.setenv(name, value)
    yield template

    def gone() -> bool:
        with contextlib.suppress(errors.AgentError), template.call() as call:
            call.ask(protocol.Stop(force=True), protocol.Done)
        return not is_held(template.directory.supervisor_lock)

    until(gone, "the end of both")


@pytest.fixture
def cli(tmp_path: Path, pretended: Path) -> Iterator[Cli]:
    """The command line, with an agent of its own."""
    made = Cli(tmp_path, pretended)
    yield made
    made.end()


@pytest.fixture
def shims() -> Iterator[Shims]:
    """Connections of processes that the test plays."""
    with connecting() as make:
        yield make


@pytest.fixture
def others() -> Iterator[Others]:
    """Processes besides the test's own."""
    with starting() as make:
        yield make


def has_cuda_core() -> bool:
    """Whether NVIDIA's cuda-core is installed here."""
    return importlib.util.find_spec("cuda") is not None and (
        importlib.util.find_spec("cuda.core") is not None
    )
