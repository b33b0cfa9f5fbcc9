"""One real Slurm and one pool for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.slurm.install import install
from moiety.testing.node import Node
from tests.slurm.side import Side
from tests.support.native import native_dir
from tests.support.pool_node import PoolNode
from tests.support.slurm_oracle import FIRST_JOB, Oracle, missing

GPU = "8xA100-80:memory=96MiB"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these run only when asked for."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slurm)


@pytest.fixture(scope="session", autouse=True)
def allowed() -> None:
    """Skip all of them, with the reason, where there is no Slurm."""
    if lacking := missing():
        pytest.skip(f"{' and '.join(lacking)} not installed: make test-slurm installs Slurm")
    if os.geteuid() != 0:
        pytest.skip("real Slurm is started as root here, and this is not root")


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Real Slurm; its node has the GPUs of ours."""
    found = Oracle(tmp_path_factory.mktemp("oracle"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolNode]:
    """A pool on simgpu."""
    with Node(tmp_path_factory.mktemp("node"), GPU, native=native_dir()) as node:
        node.start_agent()
        found = PoolNode(node)
        found.up()
        found.submit("true", array=f"1-{FIRST_JOB - 1}", hold=True)
        found.node.cli("cancel", "1")
        yield found
        found.close()


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with our programs."""
    folder = tmp_path_factory.mktemp("programs")
    install(folder)
    return folder


@pytest.fixture
def theirs(oracle: Oracle, tmp_path: Path) -> Side:
    """Real Slurm, for one test."""
    oracle.mend()  # on a busy machine a signal may come before what it is to end
    return Side(tmp_path / "theirs", oracle.environment)


@pytest.fixture
def ours(pool: PoolNode, programs: Path, tmp_path: Path) -> Side:
    """A pool, for one test."""
    env = dict(pool.node.env) | {"PATH": f"{programs}:/usr/bin:/bin"}
    return Side(tmp_path / "ours", env)
