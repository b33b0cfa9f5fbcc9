"""A cluster for all tests of a run, and a namespace for each."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moiety.testing.native import native_dir
from tests.kube import bed as beds
from tests.kube import images, setup


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


def pod(name: str, *command: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """A pod with one container of busybox that runs `command` once; `spec` adds to the pod's."""
    container = {"name": "main", "image": images.BUSYBOX, "command": list(command)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        }
        | spec,
    }


@pytest.fixture(scope="session")
def native() -> Path:
    """The folder with libmoiety.so and simgpu/."""
    folder = native_dir()
    if folder is None:
        pytest.skip("the native libraries are not built: make test-kube builds them")
    return folder
