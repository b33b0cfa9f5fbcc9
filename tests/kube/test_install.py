"""From the image to nothing left: installed, upgraded under running pods, and taken away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube import product
from tests.kube.bed import Bed
from tests.kube.installing import Installation
from tests.kube.programs import NODE_NAME
from tests.kube.sharing import LONG, RESOURCE, RIGHT, Sharing, asking, work

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
HALF = {"annotations": {"moiety.dev/gpu": "0.5"}}
LIBRARIES = Path("/var/lib/moiety/native")


@pytest.fixture(scope="module")
def images(bed: Bed, native: Path) -> Sharing:
    """The product's image as `latest`, another build of it as `next`, and a worker."""
    if why := product.can_be_made():
        pytest.skip(why)
    archive = product.image()
    bed.import_image(archive)
    bed.import_image(product.next_image(archive, bed.folder / "next.tar", "next"))
    found = Sharing(bed, native)
    found.import_worker()
    return found


@pytest.fixture(params=["dra", "plugin"])
def installed(request: pytest.FixtureRequest, bed: Bed, images: Sharing) -> Iterator[Installation]:
    """One overlay, installed."""
    del images
    found = Installation(bed, request.param)
    found.apply()
    yield found
    found.clean()


def running(bed: Bed, namespace: str) -> dict[str, tuple[str, int]]:
    """The container of each pod, and how often it was started again."""
    found = {}
    for each in bed.get("pods", "-n", namespace)["items"]:
        (status,) = each["status"]["containerStatuses"]
        found[each["metadata"]["name"]] = (status["containerID"], status["restartCount"])
    return found


def units(bed: Bed) -> Any:
    """What the node offers."""
    return bed.get("node", NODE_NAME)["status"]["allocatable"].get(RESOURCE)


def test_it_is_installed_upgraded_under_running_pods_and_leaves_nothing(
    bed: Bed, images: Sharing, installed: Installation, namespace: str
) -> None:
    if installed.overlay == "plugin":
        bed.until(lambda: units(bed) == "100", "the node offers units")
    for name, seed in (("one", 1), ("two", 2)):
        bed.apply(asking(name, namespace, *work(51, LONG, gpu_ms=5, seed=seed), **HALF))
    for name in ("one", "two"):
        images.until_phase(namespace, name, "Running")
    bed.until(lambda: len(installed.evicted()) == 2, "both had to give way")
    bed.until(lambda: 'pod="one"' in installed.metrics(), "metrics name the pods")
    before = running(bed, namespace)
    old, libraries = installed.node_pod(), sorted(LIBRARIES.iterdir())

    installed.apply("next")

    assert installed.node_pod() != old
    assert set(libraries) < set(LIBRARIES.iterdir()), "what pods have mounted stays"
    bed.until(lambda: installed.tenants() == 2, "both are back with the new agent")
    assert running(bed, namespace) == before
    images.finish(namespace, "one")
    # What comes after the upgrade gets its share from the new build.
    bed.kubectl("delete", "pod", "one", "-n", namespace)
    bed.apply(asking("late", namespace, *work(51, 2), **HALF))
    assert images.ended(namespace, "late") == (RIGHT, 0)
    images.finish(namespace, "two")

    bed.kubectl("delete", "pods", "--all", "-n", namespace)
    installed.uninstall()

    bed.until(lambda: not installed.objects(), "no object is left")
    assert installed.files() == []
    # It asks nobody any more: who wants a share is a pod as every other.
    bed.apply(asking("plain", namespace, "true", **HALF))
    assert images.ended(namespace, "plain") == ("", 0)
