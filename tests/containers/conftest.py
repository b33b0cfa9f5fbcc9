"""Images, runtimes and shares for the tests in containers."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moiety.testing.node import Node
from tests.containers import images, setup
from tests.containers.runtimes import Podman
from tests.support.native import native_dir

GPU = "A100-80:memory=256MiB,link=4GB/s"
CAP_SYS_ADMIN = 21


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these run only when asked for."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.containers)


@pytest.fixture(scope="session", autouse=True)
def allowed() -> None:
    """Skip all of them, with the reason, where containers cannot be started."""
    if missing := setup.missing_runtimes():
        pytest.skip(f"{' and '.join(missing)} not installed: make test-containers installs them")
    status = Path("/proc/self/status").read_text()
    mine = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    if os.geteuid() != 0 or not int(mine, 16) >> CAP_SYS_ADMIN & 1:
        pytest.skip("these tests start containers as root, and this is not root")
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("programs for other C libraries need zig: make test-containers installs it")


@pytest.fixture(scope="session")
def native() -> Path:
    """The folder with libmoiety.so and simgpu/, built for old systems."""
    folder = native_dir()
    if folder is None or not (folder / "libmoiety.so").exists():
        pytest.skip("the native libraries are not built: make test-containers builds them")
    return folder


@pytest.fixture(scope="session")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """Podman with images and containers of its own."""
    found = Podman(tmp_path_factory.mktemp("podman"))
    yield found
    found.close()
    shutil.rmtree(found.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def rootfs(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of an image with this machine's glibc."""
    return images.with_worker(images.of_host(tmp_path_factory.mktemp("host")), native)


@pytest.fixture(scope="session")
def image(podman: Podman, rootfs: Path) -> str:
    """An image with this machine's glibc."""
    return podman.image("host", rootfs)


@pytest.fixture(scope="session")
def old_image(podman: Podman, native: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image with a glibc that is in several libraries."""
    package = images.old_glibc()
    if package is None:
        pytest.skip(f"libc6 of {setup.OLD_SUITE} is not to be had here")
    files = images.of_package(tmp_path_factory.mktemp("old"), package)
    return podman.image("old", images.with_worker(files, native))


@pytest.fixture(scope="session")
def musl_image(podman: Podman, native: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image as Alpine is: musl, and a program for it."""
    package = setup.package("musl")
    if package is None:
        pytest.skip("the package musl is not to be had here")
    files = images.of_package(tmp_path_factory.mktemp("musl"), package)
    return podman.image("musl", images.with_worker(files, native, images.MUSL))


@pytest.fixture
def node(tmp_path: Path, native: Path) -> Iterator[Node]:
    """A small GPU with an agent, whose state containers with other users may open, too."""
    with Node(tmp_path, GPU, native=native) as found:
        found.start_agent("--turn-min", "20ms")
        state = found.directory / "gpu"
        state.chmod(0o777)
        for file in state.iterdir():
            file.chmod(0o666)
        yield found


class Shares:
    """Makes shares with names that nobody else has, and removes them."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.made: dict[str, str] = {}
        """what the command printed, by name"""

    def make(self, *options: str) -> str:
        """One share with its specification where runtimes look; its name."""
        name = f"test-{secrets.token_hex(4)}"
        done = self.node.cli("container", "spec", "--name", name, *options)
        assert done.returncode == 0, done.stderr
        self.made[name] = done.stdout
        return name

    def spec(self, name: str) -> Any:
        """Its specification."""
        (row,) = [row for row in self.node.json("container", "ls") if row["name"] == name]
        return json.loads(Path(row["spec"]).read_text())

    def by_hand(self, name: str) -> list[str]:
        """The options that do without a specification."""
        line = self.made[name].splitlines()[-1]
        assert line.startswith("docker run ")
        assert line.endswith(" IMAGE")
        return line.split()[2:-1]

    def close(self) -> None:
        """Remove them, also where the agent is gone."""
        for name in self.made:
            self.node.cli("container", "rm", "--force", name)
            Path(f"/etc/cdi/moiety-{name}.json").unlink(missing_ok=True)


@pytest.fixture
def shares(node: Node) -> Iterator[Shares]:
    """Shares that are gone after the test."""
    found = Shares(node)
    yield found
    found.close()


@pytest.fixture
def device(shares: Shares) -> Callable[..., list[str]]:
    """Options that give a container a new share."""

    def make(*options: str) -> list[str]:
        return ["--device", f"moiety.dev/gpu={shares.make(*options)}"]

    return make
