"""One pool for all tools, with Slurm's programs first in the path."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from moiety.slurm.install import install
from moiety.testing.node import Node
from tests.slurm_tools import setup
from tests.support.native import native_dir
from tests.support.pool_node import PoolNode

PROGRAMS = Path(__file__).resolve().parent / "programs"
GPU = "4xA100-80:memory=96MiB"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these run only when asked for."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slurm_tools)


@pytest.fixture(scope="session")
def tools_python() -> Path:
    """The interpreter that has the tools; skips where they are not there."""
    python = setup.found()
    if python is None:
        pytest.skip("the tools are not there: make test-slurm-tools sets them up")
    return python


class Tools(NamedTuple):
    """A pool, and how programs with the tools are started beside it."""

    pool: PoolNode
    python: Path
    environment: dict[str, str]

    def run(
        self, *words: str | Path, folder: Path, timeout_s: float = 280
    ) -> subprocess.CompletedProcess[str]:
        """A program in a folder, to its end."""
        return subprocess.run(
            words, cwd=folder, env=self.environment, capture_output=True, text=True,
            timeout=timeout_s, check=False,
        )  # fmt: skip

    def program(self, name: str, *words: str | Path, folder: Path) -> str:
        """What one of our programs prints that uses a tool."""
        done = self.run(self.python, PROGRAMS / name, *words, folder=folder)
        assert done.returncode == 0, (
            f"{done.stdout}\n{done.stderr[-4000:]}\n{self.pool.log()[-2000:]}"
        )
        return done.stdout

    def slurm(self, *words: str) -> str:
        """What one of Slurm's programs prints."""
        done = self.run(*words, folder=self.pool.node.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory, tools_python: Path) -> Iterator[Tools]:
    """A pool on simgpu, and an environment in which tools find it."""
    programs = tmp_path_factory.mktemp("slurm")
    install(programs)
    with Node(tmp_path_factory.mktemp("node"), GPU, native=native_dir()) as node:
        node.start_agent()
        pool = PoolNode(node)
        pool.up()
        path = f"{programs}:{tools_python.parent}:/usr/local/bin:/usr/bin:/bin"
        environment = node.env | {"PATH": path, "HOME": os.environ.get("HOME", "/")}
        yield Tools(pool, tools_python, environment)
        pool.close()
