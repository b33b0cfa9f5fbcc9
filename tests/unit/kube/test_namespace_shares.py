"""What claims and pods with units count in the sum of their namespace."""

from __future__ import annotations

import json
from typing import Any

from moiety.kube import namespace_shares
from moiety.kube.model import names
from moiety.model.share import NOTHING_ASKED, Priority, Share

DRIVER = "gpu.moiety.dev"
GIB = 1 << 30


def exactly(count: int = 1, device_class: str = DRIVER, **capacity: str) -> dict[str, Any]:
    return {
        "deviceClassName": device_class,
        "count": count,
        "capacity": {"requests": capacity},
    }


def spec(*requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"devices": {"requests": list(requests), **more}}


def test_a_claim_asks_for_its_capacity_on_each_device_and_whole_gpus_if_it_does_not_say() -> None:
    two = {"name": "a", "exactly": exactly(2, compute="50", memory="4Gi")}
    assert namespace_shares.of_spec(spec(two)) == [Share(gpu=0.5, memory_bytes=4 * GIB)] * 2
    whole = {"name": "a", "exactly": {"deviceClassName": DRIVER}}
    assert namespace_shares.of_spec(spec(whole)) == [Share(gpu=1.0)]
    nothing = {"name": "a", "exactly": exactly(compute="0")}
    assert namespace_shares.of_spec(spec(nothing)) == [NOTHING_ASKED]
    assert (
        namespace_shares.of_spec(spec({"name": "a", "exactly": exactly(device_class="x.y")})) == []
    )
    assert namespace_shares.of_spec({}) == []


def test_of_alternatives_the_largest_counts() -> None:
    either = {"name": "a", "firstAvailable": [exactly(compute="20"), exactly(compute="70")]}
    assert namespace_shares.of_spec(spec(either)) == [Share(gpu=0.7)]


def test_an_allocated_claim_counts_with_what_it_consumes_of_our_devices() -> None:
    def result(driver: str, **consumed: str) -> dict[str, Any]:
        return {"driver": driver, "consumedCapacity": consumed}

    results = [result(DRIVER, compute="30", memory="1Gi"), result("gpu.nvidia.com")]
    claim = {
        "spec": spec({"name": "a", "exactly": exactly(compute="90", device_class="own")}),
        "status": {"allocation": {"devices": {"results": results}}},
    }
    assert namespace_shares.is_allocated(claim)
    assert namespace_shares.of_claim(claim) == [Share(gpu=0.3, memory_bytes=GIB)]


def test_parameters_say_classes_and_no_amounts() -> None:
    kind = {"apiVersion": "resource.moiety.dev/v1alpha1", "kind": "ShareConfig"}
    opaque = {"driver": DRIVER, "parameters": {**kind, "priority": "high", "gpu": {"limit": "1"}}}
    found = namespace_shares.classes_of(
        spec(config=[{"opaque": opaque}, {"opaque": {"driver": "x"}}])
    )
    assert found == [Share(priority=Priority.HIGH)]
    broken = {"driver": DRIVER, "parameters": {"kind": "Banana"}}
    assert namespace_shares.classes_of(spec(config=[{"opaque": broken}])) == []


def test_units_are_whole_gpus_and_a_rest() -> None:
    def pod(*limits: dict[str, str], **status: Any) -> dict[str, Any]:
        containers = [{"name": str(i), "resources": {"limits": x}} for i, x in enumerate(limits)]
        return {"metadata": {}, "spec": {"containers": containers}, "status": status}

    mine = {"moiety.dev/gpu-percent": "150", "cpu": "2"}
    assert namespace_shares.of_pod_units(pod(mine, {})) == [Share(gpu=1.0), Share(gpu=0.5)]
    assert namespace_shares.of_pod_units(pod(mine, phase="Succeeded")) == []
    assert namespace_shares.of_pod_units(pod({"moiety.dev/gpu": "2"})) == [Share(gpu=1.0)] * 2
    claimed = pod({"moiety.dev/gpu": "1"}, extendedResourceClaimStatus={"resourceClaimName": "x"})
    assert namespace_shares.of_pod_units(claimed) == []
    assert namespace_shares.of_pod_units(pod({"cpu": "2"})) == []


def test_memory_beside_units_counts_as_the_webhook_understood_it() -> None:
    kind = {"apiVersion": "resource.moiety.dev/v1alpha1", "kind": "ShareConfig"}
    asked = json.dumps({"main": {**kind, "memory": {"request": "2Gi"}}})
    pod: dict[str, Any] = {
        "metadata": {"annotations": {names.ASKED: asked}},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {names.PERCENT: "50"}}}]},
    }
    assert namespace_shares.of_pod_units(pod) == [Share(gpu=0.5), Share(memory_bytes=2 * GIB)]
    pod["metadata"]["annotations"][names.ASKED] = "nonsense"
    assert namespace_shares.of_pod_units(pod) == [Share(gpu=0.5)]


def test_an_init_container_has_the_units_of_the_containers_after_it() -> None:
    kind = {"apiVersion": "resource.moiety.dev/v1alpha1", "kind": "ShareConfig"}

    def container(name: str, units: int, **more: str) -> dict[str, Any]:
        return {"name": name, "resources": {"limits": {names.PERCENT: str(units)}}, **more}

    asked = {each: {**kind, "memory": {"request": f"{size}Gi"}} for each, size in
             (("load", 3), ("main", 2))}  # fmt: skip
    pod: dict[str, Any] = {
        "metadata": {"annotations": {names.ASKED: json.dumps(asked)}},
        "spec": {
            "initContainers": [container("load", 50)],
            "containers": [container("main", 50)],
        },
    }
    assert namespace_shares.of_pod_units(pod) == [Share(gpu=0.5), Share(memory_bytes=3 * GIB)]
    pod["spec"]["initContainers"].insert(0, container("side", 20, restartPolicy="Always"))
    assert namespace_shares.of_pod_units(pod)[0] == Share(gpu=0.7)
