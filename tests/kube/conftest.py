"""A cluster for all tests of a run, moiety on it for a file's, and a namespace for each."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube import bed as beds
from tests.kube import setup
from tests.kube.sharing import Sharing
from tests.support.native import native_dir


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these run only when asked for; a cluster takes longer to come up than a test."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.kube)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def bed() -> beds.Bed:
    """The cluster. It ends with the namespaces that it is in."""
    if lacking := setup.missing():
        pytest.skip(f"not here: {', '.join(lacking)} (make kube-bed sets them up)")
    if beds.found() is None:
        pytest.skip("make test-kube runs these, in a network of their own")
    return beds.up()


@pytest.fixture
def namespace(bed: beds.Bed) -> Iterator[str]:
    """A namespace of Kubernetes, in which pods can be made."""
    name = f"test-{secrets.token_hex(4)}"
    bed.kubectl("create", "namespace", name)
    account = ("get", "serviceaccount", "default", "-n", name)
    bed.until(lambda: bed.call("kubectl", *account).returncode == 0, "pods can be made")
    yield name
    bed.call("kubectl", "delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def native() -> Path:
    """The folder with libmoiety.so and simgpu/."""
    folder = native_dir()
    if folder is None:
        pytest.skip("the native libraries are not built: make test-kube builds them")
    return folder


@pytest.fixture(scope="module")
def sharing(bed: beds.Bed, native: Path) -> Iterator[Sharing]:
    """Agent, driver and webhook for all tests of a file."""
    found = Sharing(bed, native)
    found.import_worker()
    found.install("dra")
    found.start_agent()
    found.start_node()
    found.wait_until_published()
    found.start_webhook()
    yield found
    found.uninstall()


@pytest.fixture
def nothing_stays(sharing: Sharing, namespace: str) -> Iterator[None]:
    """After the test, when its pods are gone, nothing of them is left on the node."""
    yield
    sharing.remove_pods(namespace)
