"""With `--binding-checks`, a pod that its node would not prepare is scheduled again, not bound."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from moiety.kube.resource_slices import ADMITTED
from tests.kube.bed import Bed
from tests.kube.sharing import LONG, Sharing, claim, claimant, work

pytestmark = pytest.mark.usefixtures("checked", "nothing_stays")


@pytest.fixture(scope="module")
def checked(sharing: Sharing) -> Iterator[None]:
    """The scheduler asks the node before it binds a pod."""
    sharing.bed.kill("node", signal.SIGTERM)
    sharing.start_node("--binding-checks")
    sharing.bed.until(
        lambda: all(each.get("bindingConditions") == [ADMITTED] for each in sharing.devices()),
        "the devices have their conditions",
    )
    yield
    sharing.options = ()


def status_of(bed: Bed, namespace: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = bed.get("resourceclaim", name, "-n", namespace).get("status") or {}
    return found


def allocated_at(bed: Bed, namespace: str, name: str) -> str:
    """When the scheduler gave a claim what it has; empty: it has nothing now."""
    allocation = status_of(bed, namespace, name).get("allocation") or {}
    return str(allocation.get("allocationTimestamp") or "")


def test_a_pod_that_is_admitted_is_bound_and_runs(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    bed.apply(claim("fine", namespace, compute=20), claimant("fine", namespace, *work(8, LONG)))
    sharing.until_phase(namespace, "fine", "Running")
    (device,) = status_of(bed, namespace, "fine")["devices"]
    assert [each["type"] for each in device["conditions"]] == [ADMITTED]
    sharing.finish(namespace, "fine")


def test_a_pod_that_is_refused_goes_back_to_scheduling_and_frees_its_gpu(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    sharing.bed.kill("webhook", signal.SIGTERM)
    try:
        made = claim("past", namespace, compute=60, config={"latency": True})
        bed.apply(made, claimant("past", namespace, *work(8, LONG)))
        listed = ("events", "-n", namespace, "--field-selector", "involvedObject.name=past")

        def told() -> str:
            return "\n".join(each["message"] for each in bed.get(*listed)["items"])

        bed.until(lambda: "no program of the latency class" in told(), "the scheduler says why")
    finally:
        sharing.start_webhook()
    assert "nodeName" not in bed.get("pod", "past", "-n", namespace)["spec"]
    assert sharing.shares() == {}
    first = allocated_at(bed, namespace, "past")
    bed.until(lambda: allocated_at(bed, namespace, "past") != first, "the claim is taken back")

    sharing.allow(**{namespace: "latency: true"})
    sharing.until_phase(namespace, "past", "Running")
    sharing.finish(namespace, "past")
