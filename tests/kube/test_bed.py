"""Whether the cluster is one: the rest of these tests stands on that."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from tests.kube import inside
from tests.kube.bed import Bed
from tests.kube.objects import device_claim, device_class, device_slice, pod
from tests.kube.programs import NODE_NAME

DRIVER = "bed.moiety.test"


def phase(bed: Bed, namespace: str, name: str) -> str:
    return str(bed.get("pod", name, "-n", namespace)["status"].get("phase"))


def test_a_pod_runs_and_says_so(bed: Bed, namespace: str) -> None:
    bed.apply(pod("says", "echo", "it runs", namespace=namespace))

    bed.until(lambda: phase(bed, namespace, "says") == "Succeeded", "the pod has run")

    assert bed.kubectl("logs", "says", "-n", namespace) == "it runs\n"


def test_commands_run_in_a_pod_that_runs(bed: Bed, namespace: str) -> None:
    bed.apply(pod("stays", "sleep", "3600", namespace=namespace))
    bed.until(lambda: phase(bed, namespace, "stays") == "Running", "the pod runs")

    said = bed.kubectl("exec", "stays", "-n", namespace, "--", "cat", "/proc/self/cgroup")

    assert f"/{bed.folder.name}/" in said


def test_pods_reach_the_api_server(bed: Bed, namespace: str) -> None:
    token = "/var/run/secrets/kubernetes.io/serviceaccount"
    ask = f"nc -w 30 {inside.SERVICE} 443 </dev/null && cat {token}/namespace"
    bed.apply(pod("asks", "sh", "-c", ask, namespace=namespace))

    bed.until(lambda: phase(bed, namespace, "asks") == "Succeeded", "the pod has asked")

    assert bed.kubectl("logs", "asks", "-n", namespace) == namespace


def test_pods_go_on_while_kubelet_and_containerd_are_killed(bed: Bed, namespace: str) -> None:
    bed.apply(pod("goes-on", "sleep", "3600", namespace=namespace))
    bed.until(lambda: phase(bed, namespace, "goes-on") == "Running", "the pod runs")
    before = bed.get("pod", "goes-on", "-n", namespace)["status"]["containerStatuses"][0]

    for name in ("kubelet", "containerd"):
        bed.kill(name, signal.SIGKILL)
    for name in ("containerd", "kubelet"):
        bed.start(name)
    bed.wait_for_node()

    ask = ("kubectl", "exec", "goes-on", "-n", namespace, "--", "true")
    bed.until(lambda: bed.call(*ask).returncode == 0, "commands run in it again")
    after = bed.get("pod", "goes-on", "-n", namespace)["status"]["containerStatuses"][0]
    assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)


def one_device() -> dict[str, Any]:
    """80 GiB, of which several claims may have parts."""
    policy = {"default": "80Gi", "validRange": {"min": "1Gi", "max": "80Gi", "step": "1Gi"}}
    return {
        "name": "gpu-0",
        "allowMultipleAllocations": True,
        "attributes": {"productName": {"string": "none (simgpu)"}},
        "capacity": {"memory": {"value": "80Gi", "requestPolicy": policy}},
    }


def test_the_scheduler_gives_two_claims_parts_of_one_device(bed: Bed, namespace: str) -> None:
    bed.apply(device_slice("bed-slice", DRIVER, NODE_NAME, [one_device()]), device_class(DRIVER))
    try:
        for name, memory in (("a", "50Gi"), ("b", "30Gi"), ("c", "1Gi")):
            bed.apply(device_claim(name, namespace, DRIVER, {"memory": memory}))
            # No driver is there that would prepare it: the pods stay where the scheduler put them.
            part = {"name": "gpu", "resourceClaimName": name}
            wanted = pod(name, "true", namespace=namespace, resourceClaims=[part])
            wanted["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
            bed.apply(wanted)
            if name != "c":
                placed = ("get", "pod", name, "-n", namespace, "-o", "jsonpath={.spec.nodeName}")
                bed.until(
                    lambda placed=placed: bool(bed.kubectl(*placed)),  # type: ignore[misc]
                    f"pod {name} is placed",
                )

        def given(name: str) -> Any:
            status = bed.get("resourceclaim", name, "-n", namespace).get("status", {})
            results = status.get("allocation", {}).get("devices", {}).get("results", [])
            return [(r["device"], r["consumedCapacity"]["memory"]) for r in results]

        def refused() -> str:
            conditions = bed.get("pod", "c", "-n", namespace)["status"].get("conditions", [])
            return "".join(c.get("message", "") for c in conditions if c["type"] == "PodScheduled")

        assert given("a") == [("gpu-0", "50Gi")]
        assert given("b") == [("gpu-0", "30Gi")]
        bed.until(lambda: "cannot allocate all claims" in refused(), "the third is refused")
        assert given("c") == []
    finally:
        bed.kubectl("delete", "pods", "--all", "--force", "-n", namespace)
        bed.kubectl("delete", "resourceslice/bed-slice", f"deviceclass/{DRIVER}")


def test_nodes_that_are_not_there_take_pods(bed: Bed, namespace: str) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "fake-0",
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kwok": "fake-0"},
        },
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        },
    }
    bed.start("kwok")
    try:
        bed.apply(node)
        wanted = pod("there", "true", namespace=namespace, nodeSelector={"kwok": "fake-0"})
        bed.apply(wanted)

        bed.until(lambda: phase(bed, namespace, "there") != "Pending", "the pod was taken")

        assert bed.get("pod", "there", "-n", namespace)["spec"]["nodeName"] == "fake-0"
    finally:
        bed.kubectl("delete", "pod", "there", "--force", "-n", namespace)
        bed.kubectl("delete", "node", "fake-0")
        bed.kill("kwok", signal.SIGTERM)


def test_what_a_killed_run_leaves_is_removed_by_the_next(tmp_path: Path) -> None:
    mine, lock = inside.make_scratch(tmp_path)
    killed, other = inside.make_scratch(tmp_path)
    for scratch in (mine, killed):
        inside.make_cgroups(scratch.name)
    os.close(other)

    inside.remove_stale(tmp_path)

    assert mine.exists()
    assert not killed.exists()
    assert any(folder.exists() for folder in inside.cgroups(mine.name))
    assert not any(folder.exists() for folder in inside.cgroups(killed.name))
    os.close(lock)
    inside.remove(mine)
