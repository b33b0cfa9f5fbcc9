"""Pods with claims: what they ask for is what they get, and it outlives whatever is killed."""

from __future__ import annotations

import signal
import sys
from fractions import Fraction

import pytest

from moiety.kube import templates
from moiety.kube.cluster_gpus import Fleet, GpuKind
from moiety.kube.dialects.request import GpuRequest
from moiety.model.share import Share
from tests.kube.bed import Bed
from tests.kube.programs import NODE_NAME
from tests.kube.sharing import (
    LONG,
    MIB,
    RIGHT,
    Sharing,
    claim,
    claimant,
    work,
)

pytestmark = pytest.mark.usefixtures("nothing_stays")


@pytest.mark.slow
def test_two_pods_that_each_allocate_four_fifths_of_a_gpu_compute_right(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    for name, seed in (("one", 1), ("two", 2)):
        bed.apply(claim(name, namespace, compute=50))
        bed.apply(claimant(name, namespace, *work(103, LONG, seed=seed)))
    sharing.until_all_gave_way(namespace, "one", "two")

    for name in ("one", "two"):
        sharing.finish(namespace, name)


def test_a_limit_holds_in_the_container_and_for_what_is_executed_in_it(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    config = {"memory": {"limit": "32Mi"}}
    bed.apply(claim("small", namespace, compute=30, config=config))
    bed.apply(claimant("small", namespace, *work(16, LONG)))
    sharing.until_phase(namespace, "small", "Running")
    run = ("kubectl", "exec", "small", "-n", namespace, "--")

    within = bed.call(*run, *work(24, 2))
    beyond = bed.call(*run, *work(48, 2))

    assert (within.returncode, within.stdout) == (0, RIGHT)
    assert beyond.returncode == 1
    assert "cuMemAlloc_v2 failed with error 2" in beyond.stderr  # out of memory, as without us
    sharing.finish(namespace, "small")


def contend(bed: Bed, sharing: Sharing, namespace: str) -> dict[str, str]:
    """Two pods that take turns; their containers."""
    for name, seed in (("one", 1), ("two", 2)):
        bed.apply(claim(name, namespace, compute=40))
        bed.apply(claimant(name, namespace, *work(80, LONG, gpu_ms=5, seed=seed)))
    sharing.until_all_gave_way(namespace, "one", "two")
    return containers(bed, namespace)


def containers(bed: Bed, namespace: str) -> dict[str, str]:
    """By pod."""
    found = {}
    for each in bed.get("pods", "-n", namespace)["items"]:
        (status,) = each["status"]["containerStatuses"]
        assert status["restartCount"] == 0
        found[each["metadata"]["name"]] = status["containerID"]
    return found


@pytest.mark.slow
def test_pods_go_on_while_everything_around_them_is_killed(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    before = contend(bed, sharing, namespace)

    sharing.restart("node")
    sharing.wait_until_published()
    sharing.restart("agent")
    bed.kill("kubelet")
    bed.restart("containerd")
    bed.start("kubelet")
    bed.wait_for_node()
    sharing.restart("node", signal.SIGTERM)
    sharing.wait_until_published()

    bed.until(lambda: len(sharing.tenants()) == 2, "both are back with the new agent")
    assert len(sharing.shares()) == 2
    # What is new gets its share as well, from the driver that is new.
    bed.apply(claim("late", namespace, compute=20))
    bed.apply(claimant("late", namespace, *work(16, 2)))
    assert sharing.ended(namespace, "late") == (RIGHT, 0)
    assert before.items() <= containers(bed, namespace).items()
    for name in ("one", "two"):
        sharing.finish(namespace, name)


@pytest.mark.slow
def test_a_pod_that_is_deleted_in_the_middle_leaves_the_other_alone(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    contend(bed, sharing, namespace)

    bed.kubectl("delete", "pod", "one", "-n", namespace, "--grace-period=0", "--force")

    bed.until(lambda: len(sharing.shares()) == 1, "the share is taken back")
    sharing.finish(namespace, "two")


@pytest.mark.slow
def test_pods_go_on_without_the_api_server_and_new_ones_come_with_it(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    contend(bed, sharing, namespace)

    bed.kill("kube-apiserver")
    sharing.restart("agent")
    bed.until(lambda: len(sharing.tenants()) == 2, "both are back with the new agent")
    bed.start("kube-apiserver")
    bed.wait_for_api()

    bed.wait_for_node()
    bed.apply(claim("late", namespace, compute=20))
    bed.apply(claimant("late", namespace, *work(16, 2)))
    assert sharing.ended(namespace, "late") == (RIGHT, 0)
    for name in ("one", "two"):
        sharing.finish(namespace, name)


@pytest.mark.slow
def test_a_drained_node_has_nothing_left(bed: Bed, sharing: Sharing, namespace: str) -> None:
    contend(bed, sharing, namespace)
    try:
        bed.kubectl("drain", NODE_NAME, "--force", "--grace-period=1", "--ignore-daemonsets")

        bed.until(lambda: not sharing.leavings(), "all was taken back")
    finally:
        bed.kubectl("uncordon", NODE_NAME)


@pytest.mark.slow
def test_a_pod_that_does_not_fit_waits_with_a_reason_and_starts_when_it_does(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    for name, percent in (("big", 80), ("next", 30)):
        bed.apply(claim(name, namespace, compute=percent))
        bed.apply(claimant(name, namespace, *work(16, LONG)))
        if name == "big":
            sharing.until_phase(namespace, "big", "Running")

    def reason() -> str:
        conditions = bed.get("pod", "next", "-n", namespace)["status"].get("conditions", [])
        return "".join(c.get("message", "") for c in conditions if c["type"] == "PodScheduled")

    bed.until(lambda: "cannot allocate all claims" in reason(), "it says why it waits")
    sharing.finish(namespace, "big")
    bed.kubectl("delete", "pod", "big", "-n", namespace)
    sharing.until_phase(namespace, "next", "Running")
    sharing.finish(namespace, "next")


def test_parameters_that_are_wrong_are_said_when_the_claim_is_applied(
    sharing: Sharing, namespace: str
) -> None:
    said = sharing.refusal(claim("odd", namespace, compute=20, config={"colour": "red"}))
    assert "a ShareConfig cannot be read" in said
    assert "colour" in said


def test_a_part_of_the_memory_is_of_the_whole_gpu_where_a_share_grew(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    sharing.allow(**{namespace: "resize: true"})
    (device,) = sharing.devices()
    whole = device["attributes"]["memoryBytes"]["int"]
    bed.apply(claim("grows", namespace, compute=10, memory="8Mi"))
    bed.apply(claimant("grows", namespace, *work(8, LONG)))
    sharing.until_phase(namespace, "grows", "Running")
    wish = ("annotate", "pod", "grows", "-n", namespace, "moiety.dev/resize=memory=48Mi")
    bed.kubectl(*wish)
    bed.until(
        lambda: int(sharing.devices()[0]["capacity"]["memory"]["value"]) == whole - 40 * MIB,
        "the share has grown",
    )

    sizes = Fleet(frozenset({GpuKind(whole, "one"), GpuKind(2 * whole, "two")}))
    quarter = GpuRequest(Share(gpu=0.1), memory_part=Fraction(1, 4))
    made = claim("part", namespace, compute=0)
    made["spec"] = templates.template(quarter, sizes)["spec"]["spec"]
    bed.apply(made, claimant("part", namespace, *work(8, LONG)))
    sharing.until_phase(namespace, "part", "Running")
    kept = [row["share"]["memory_bytes"] for row in sharing.shares().values()]
    assert sorted(kept) == sorted([48 * MIB, whole // 4])

    for name in ("grows", "part"):
        sharing.finish(namespace, name)


def test_two_claims_to_no_time_that_grew_to_all_of_it_leave_none(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    sharing.allow(**{namespace: "resize: true"})
    for name, wish in (("one", "gpu=0.6"), ("two", "gpu=0.4")):
        bed.apply(claim(name, namespace, compute=0))
        bed.apply(claimant(name, namespace, *work(8, LONG)))
        sharing.until_phase(namespace, name, "Running")
        bed.kubectl("annotate", "pod", name, "-n", namespace, f"moiety.dev/resize={wish}")
    bed.until(
        lambda: sharing.devices()[0]["capacity"]["compute"]["value"] == "0", "no time is left"
    )

    for name, percent in (("late", 1), ("idle", 0)):
        bed.apply(claim(name, namespace, compute=percent))
        bed.apply(claimant(name, namespace, *work(8, LONG)))
    sharing.until_phase(namespace, "idle", "Running")
    assert "nodeName" not in bed.get("pod", "late", "-n", namespace)["spec"]

    bed.kubectl("delete", "pod", "late", "-n", namespace)
    for name in ("one", "two", "idle"):
        sharing.finish(namespace, name)


FAULT = (
    "import ctypes, sys; driver = ctypes.CDLL(sys.argv[1]); assert not driver.cuInit(0);"
    "assert not driver.simgpu_fault(0, 48, 0)"
)
"""GPU 0 reports memory errors that it could not correct"""


# The last one: with the usual settings the GPU takes no pods for five minutes after the error.
@pytest.mark.slow
def test_a_gpu_with_a_serious_error_takes_nobody_until_it_has_recovered(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    bed.kill("node")
    sharing.start_node("--recovery", "60s")
    sharing.wait_until_published()
    try:
        library = str(sharing.native / "simgpu" / "libcuda.so.1")
        variables = [f"{name}={value}" for name, value in sharing.env.items()]

        def taints() -> list[str]:
            return [each["key"] for gpu in sharing.devices() for each in gpu.get("taints", [])]

        def is_told() -> bool:  # by a driver that has just begun to listen
            bed.must("env", *variables, sys.executable, "-c", FAULT, library)
            return taints() == ["gpu.moiety.dev/unhealthy"]

        bed.until(is_told, "the slice says so")
        shown = sharing.kubectl_moiety("status").stdout
        bed.apply(claim("late", namespace, compute=20))
        bed.apply(claimant("late", namespace, *work(16, 2)))

        assert "gpu.moiety.dev/unhealthy" in shown
        bed.until(lambda: taints() == [], "it has recovered")
        assert sharing.ended(namespace, "late") == (RIGHT, 0)
    finally:
        sharing.options = ()
        sharing.restart("node")
