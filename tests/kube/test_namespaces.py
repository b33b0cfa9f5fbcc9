"""What a namespace may not have, neither the webhook nor a node gives it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kube.bed import Bed
from tests.kube.sharing import LONG, Sharing, asking, claim, claimant, work

pytestmark = pytest.mark.usefixtures("nothing_stays")


def sharer(name: str, namespace: str, gpu: str, **notes: str) -> dict[str, Any]:
    """A pod that asks for a part of a GPU; `notes` are more annotations."""
    asked = {"moiety.dev/gpu": gpu, **{f"moiety.dev/{key}": text for key, text in notes.items()}}
    return asking(name, namespace, *work(8, LONG), annotations=asked)


def notes_of(bed: Bed, namespace: str, name: str, reason: str) -> str:
    """The notes of a pod's Events of one reason."""
    selector = f"regarding.name={name},reason={reason}"
    listed = ("events.v1.events.k8s.io", "-n", namespace, "--field-selector", selector)
    return "\n".join(each["note"] for each in bed.get(*listed)["items"])


@pytest.fixture
def no_webhook(sharing: Sharing) -> Iterator[None]:
    """The webhook is away: what is made now it has not seen."""
    sharing.bed.kill("webhook", signal.SIGTERM)
    yield
    sharing.start_webhook()


def test_a_pod_is_refused_what_its_namespace_may_not_have_until_it_may(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    first = sharer("first", namespace, "0.2", latency="true")
    assert f"namespace {namespace} may have no program of the latency" in sharing.refusal(first)
    high = sharer("high", namespace, "0.2", priority="high")
    assert "normal at most, not high" in sharing.refusal(high)

    sharing.allow(**{namespace: "latency: true"})

    bed.apply(first)
    sharing.until_phase(namespace, "first", "Running")
    sharing.finish(namespace, "first")


@pytest.mark.usefixtures("no_webhook")
def test_what_passed_the_webhook_is_not_prepared_by_the_node(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    wanted = claim("past", namespace, compute=0, config={"latency": True})
    bed.apply(wanted, claimant("past", namespace, *work(8, 1)))

    def said() -> str:
        return notes_of(bed, namespace, "past", "FailedPrepareDynamicResources")

    bed.until(lambda: "no program of the latency class" in said(), "an Event says why")
    assert sharing.phase(namespace, "past") == "Pending"
    assert sharing.shares() == {}
    bed.kubectl("delete", "pod", "past", "-n", namespace, "--grace-period=0", "--force")


def test_a_namespace_has_no_more_than_its_sum(bed: Bed, sharing: Sharing, namespace: str) -> None:
    sharing.allow(**{namespace: "gpu: 0.5"})
    bed.apply(sharer("one", namespace, "0.4"))
    sharing.until_phase(namespace, "one", "Running")

    said = sharing.refusal(sharer("two", namespace, "0.2"))
    assert "may have 50 % in all; 40 % of it are guaranteed already" in said
    assert "40 % of it" in sharing.refusal(claim("three", namespace, compute=20))

    sharing.bed.kill("webhook", signal.SIGTERM)
    try:
        bed.apply(claim("past", namespace, compute=20), claimant("past", namespace, *work(8, 1)))

        def answer() -> str:
            return notes_of(bed, namespace, "past", "FailedPrepareDynamicResources")

        bed.until(lambda: "40 % of it are guaranteed already" in answer(), "an Event says why")
    finally:
        sharing.start_webhook()
    bed.kubectl("delete", "pod", "one", "-n", namespace)
    # There is room now, and the kubelet tries again by itself.
    sharing.until_phase(namespace, "past", "Running", "Succeeded")


def test_pods_of_a_controller_are_made_up_to_the_sum(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    sharing.allow(**{namespace: "gpu: 0.5"})
    template = sharer("x", namespace, "0.2")
    for key in ("apiVersion", "kind"):
        del template[key]
    for key in ("name", "namespace"):
        del template["metadata"][key]
    template["metadata"]["labels"] = {"app": "many"}
    template["spec"]["restartPolicy"] = "Always"
    bed.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "many", "namespace": namespace},
            "spec": {
                "replicas": 6,
                "selector": {"matchLabels": {"app": "many"}},
                "template": template,
            },
        }
    )

    def running() -> int:
        listed = bed.get("pods", "-n", namespace)["items"]
        return sum(each["status"].get("phase") == "Running" for each in listed)

    bed.until(lambda: running() == 2, "two pods run")
    failed = ("events", "-n", namespace)
    bed.until(
        lambda: any(
            "may have 50 % in all" in each["message"] for each in bed.get(*failed)["items"]
        ),
        "the others are refused with the reason",
    )
    assert running() == 2
    bed.kubectl("delete", "replicaset", "many", "-n", namespace)


def test_a_namespace_without_the_right_does_not_resize(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    bed.apply(sharer("train", namespace, "0.3"))
    sharing.until_phase(namespace, "train", "Running")
    wish = ("annotate", "pod", "train", "-n", namespace, "--overwrite")

    done = bed.call("kubectl", *wish, "moiety.dev/resize=gpu=0.9")
    assert "may not change shares of running pods" in done.stderr

    sharing.bed.kill("webhook", signal.SIGTERM)
    try:
        bed.kubectl(*wish, "moiety.dev/resize=gpu=0.9")
        bed.until(
            lambda: "may not change shares" in notes_of(bed, namespace, "train", "ResizeRefused"),
            "an Event says why",
        )
    finally:
        sharing.start_webhook()
    (row,) = sharing.shares().values()
    assert row["share"]["gpu"] == 0.3
    sharing.finish(namespace, "train")
