"""PyTorch, CuPy, Numba and JAX as they come from the package registry, on simgpu."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from moiety.testing.node import Node
from tests.frameworks import setup
from tests.support.native import native_dir

PROGRAMS = Path(__file__).resolve().parent / "programs"


class Framework(NamedTuple):
    """How a program with a framework is started."""

    python: Path
    env: dict[str, str]

    def command(self, name: str, *arguments: object) -> list[str]:
        """The program of that name in `programs/`."""
        return [str(part) for part in (self.python, PROGRAMS / f"{name}.py", *arguments)]

    def with_allocator(self, choice: str) -> dict[str, str]:
        """The environment that chooses one of PyTorch's allocators."""
        names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")  # the old one, the new one
        return self.env | dict.fromkeys(names, choice) if choice else self.env


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these run only when asked for."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.frameworks)


@pytest.fixture(scope="session")
def native() -> Path:
    """The folder with libmoiety.so, simgpu/ and cudart/."""
    folder = native_dir()
    if folder is None or not (folder / "cudart").is_dir():
        pytest.skip("the native libraries are not built: make test-frameworks builds them")
    return folder


def framework(name: str, native: Path) -> Framework:
    """One of them, from the cache."""
    version = setup.cuda()
    if (name, version) in setup.MISSING:
        pytest.skip(setup.MISSING[name, version])
    environment = setup.found(name, version)
    if environment is None:
        pytest.skip(f"{setup.NAMES[name]} is not in the cache: make test-frameworks sets it up")
    folders = [environment.libraries, native / "cudart"]
    return Framework(
        environment.python,
        {
            "LD_LIBRARY_PATH": ":".join(str(folder) for folder in folders if folder),
            "OMP_NUM_THREADS": "1",
            "CUDA_MODULE_LOADING": "LAZY",
        },
    )


@pytest.fixture(scope="session")
def torch(native: Path) -> Framework:
    """PyTorch."""
    return framework("torch", native)


@pytest.fixture(scope="session")
def cupy(native: Path) -> Framework:
    """CuPy."""
    return framework("cupy", native)


@pytest.fixture(scope="session")
def numba(native: Path) -> Framework:
    """Numba, with its CUDA part from the package numba-cuda."""
    return framework("numba", native)


@pytest.fixture(scope="session")
def jax(native: Path) -> Framework:
    """JAX, which would look for NVIDIA's libraries before anything needs them."""
    found = framework("jax", native)
    quiet = {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return found._replace(env=found.env | quiet | {"JAX_PLATFORMS": "cuda"})


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
