from __future__ import annotations

import json
from typing import Any

import pytest

from moiety.kube import cluster_report, explain, templates
from moiety.kube.cluster_gpus import Fleet, GpuKind
from moiety.kube.cluster_report import ClusterObjects
from moiety.kube.dialects.request import GpuRequest
from moiety.kube.model import names, share_config
from moiety.model.share import Share

GIB = 1 << 30
KIND = GpuKind(80 * GIB, "NVIDIA A100")
LARGE = GpuKind(141 * GIB, "NVIDIA H200")


def gpu_slice(*taints: str, node: str = "a") -> dict[str, Any]:
    device: dict[str, Any] = {
        "name": "gpu-0",
        "attributes": {"productName": {"string": "NVIDIA A100"}},
        "capacity": {"memory": {"value": "80Gi"}, "compute": {"value": "100"}},
    }
    if taints:
        device["taints"] = [{"key": each, "effect": "NoSchedule"} for each in taints]
    spec = {"driver": "gpu.moiety.dev", "pool": {"name": node}, "devices": [device]}
    return {"metadata": {"name": node}, "spec": spec}


def claim(name: str, gpu: float, memory: int = 0, node: str = "") -> dict[str, Any]:
    share = Share(gpu=gpu, memory_bytes=memory)
    made = templates.template(GpuRequest(share), Fleet(frozenset({KIND, LARGE})))["spec"]["spec"]
    found: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
        "spec": made,
    }
    if node:
        result = {
            "driver": "gpu.moiety.dev",
            "pool": node,
            "device": "gpu-0",
            "request": "gpu",
            "consumedCapacity": {"compute": str(int(gpu * 100)), "memory": str(memory)},
        }
        found["status"] = {"allocation": {"devices": {"results": [result]}}}
    return found


def pod(
    name: str, claim_name: str = "", phase: str = "Pending", node: str = "", **status: Any
) -> dict[str, Any]:
    asked = {"main": share_config.encode(Share(gpu=0.5))}
    found: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "annotations": {names.ASKED: json.dumps(asked)},
            "labels": {names.SHARED: "claim"},
        },
        "spec": {"containers": [{"name": "main"}], "nodeName": node},
        "status": {"phase": phase} | status,
    }
    if claim_name:
        found["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimTemplateName": "t"}]
        statuses = [{"name": "g", "resourceClaimName": claim_name}]
        found["status"]["resourceClaimStatuses"] = statuses
    return found


def said(found: dict[str, Any], seen: ClusterObjects, *events: dict[str, Any]) -> str:
    return explain.explain(found, seen, events).sentence


def test_what_shares_grew_by_is_not_free() -> None:
    grown = gpu_slice()
    (device,) = grown["spec"]["devices"]
    device["attributes"]["memoryBytes"] = {"int": 80 * GIB}
    device["capacity"] = {"memory": {"value": "70Gi"}, "compute": {"value": "60"}}
    (row,) = cluster_report.gpus(ClusterObjects(slices=[grown], claims=[claim("a", 0.3, node="a")]))
    assert row.memory_bytes == 80 * GIB
    assert (row.free_percent, row.free_bytes) == (30, 70 * GIB)


def test_a_gpu_shows_what_is_promised_of_it() -> None:
    seen = ClusterObjects([gpu_slice()], [claim("c", 0.5, 20 * GIB, "a"), claim("d", 0.3, 0, "a")])
    (row,) = cluster_report.gpus(seen)
    assert (row.percent, row.promised_bytes, row.pods) == (80, 20 * GIB, 2)
    assert (row.free_percent, row.free_bytes) == (20, 60 * GIB)


def test_a_pod_shows_what_it_asked_for_and_received() -> None:
    rows = [
        {"pod": "uid-p", "received": 0.25, "allocated_bytes": GIB},
        {"workload": "k8s-uid-c-0", "received": 0.2, "allocated_bytes": GIB},
        {"pod": "another", "received": 0.9, "allocated_bytes": 1},
    ]
    seen = ClusterObjects(
        [gpu_slice()], [claim("c", 0.5, 0, "a")], [pod("p", "c", "Running", "a")], rows
    )
    (row,) = cluster_report.pods(seen)
    assert row.gpus == ("gpu-0",)
    assert row.received == pytest.approx(0.45)
    assert row.allocated_bytes == 2 * GIB
    assert row.asked == {"main": "50 % of the GPU, priority normal"}


def test_pods_without_a_share_and_those_that_ended_are_not_shown() -> None:
    plain = {"metadata": {"name": "x", "namespace": "team"}, "spec": {"containers": []}}
    ended = pod("done", "c", "Succeeded", "a")
    assert cluster_report.pods(ClusterObjects(claims=[claim("c", 0.5)], pods=[plain, ended])) == []


def test_claims_of_others_do_not_count() -> None:
    other = claim("c", 0.5, 0, "a")
    other["status"]["allocation"]["devices"]["results"][0]["driver"] = "gpu.nvidia.com"
    (row,) = cluster_report.gpus(ClusterObjects([gpu_slice()], [other]))
    assert row.percent == 0


def test_units_are_shown_as_units() -> None:
    found = pod("p", phase="Running", node="a")
    found["metadata"]["annotations"] = {}
    found["spec"]["containers"] = [
        {"name": "main", "resources": {"limits": {"moiety.dev/gpu": "50"}}}
    ]
    (row,) = cluster_report.pods(ClusterObjects(pods=[found]))
    assert row.asked == {"main": "50 of moiety.dev/gpu"}
    sentence = said(found | {"status": {"phase": "Pending"}, "spec": found["spec"] | {
        "nodeName": ""}}, ClusterObjects([gpu_slice()], [claim("c", 0.5, 0, "a")]))  # fmt: skip
    assert "100 % of one GPU are wanted" in sentence


def test_a_pod_that_runs_is_said_to() -> None:
    seen = ClusterObjects([gpu_slice()], [claim("c", 0.5, 0, "a")])
    sentence = said(pod("p", "c", "Running", "a"), seen)
    assert sentence == (
        "team/p runs on a with its share of gpu-0 (main: 50 % of the GPU, priority normal)"
    )


def test_a_pod_that_waits_is_told_what_there_is_and_what_the_scheduler_says() -> None:
    seen = ClusterObjects([gpu_slice()], [claim("c", 0.5), claim("d", 0.8, 10 * GIB, "a")])
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    found = explain.explain(pod("p", "c", conditions=[condition]), seen)
    assert "50 % of one GPU are wanted" in found.sentence
    assert "gpu-0 of a, has 20 % and 70 GiB left" in found.sentence
    assert "the scheduler says: 0/1 nodes are available" in found.sentence
    assert found.scheduler == "0/1 nodes are available"


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (ClusterObjects([], [claim("c", 0.5)]), "no node offers GPUs"),
        (
            ClusterObjects([gpu_slice("gpu.moiety.dev/unhealthy")], [claim("c", 0.5)]),
            "GPUs are unwell",
        ),
        (ClusterObjects([gpu_slice()], [claim("c", 0.5)]), "has room, so something else keeps it"),
    ],
)
def test_other_reasons_to_wait_are_named(seen: ClusterObjects, expected: str) -> None:
    assert expected in said(pod("p", "c"), seen)


def test_a_claim_that_is_not_there_is_said_with_what_kept_it() -> None:
    seen = ClusterObjects([gpu_slice()])
    event = {"reason": "FailedResourceClaimCreation", "note": 'template "t" not found'}
    assert "waits for its claim to be made" in said(pod("p"), seen)
    assert 'template "t" not found' in said(pod("p"), seen, event)


def test_a_start_that_fails_is_said_with_the_nodes_reason() -> None:
    seen = ClusterObjects([gpu_slice()], [claim("c", 0.5, 0, "a")])
    event = {"reason": "FailedPrepareDynamicResources", "note": "the agent is away"}
    assert said(pod("p", "c", "Pending", "a"), seen, event) == (
        "team/p cannot start on a: the agent is away"
    )
    waiting = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    sentence = said(pod("p", "c", "Pending", "a", containerStatuses=[waiting]), seen)
    assert "container main waits: ImagePullBackOff" in sentence


def test_a_pod_that_asked_nobody_is_told_to_be_made_again() -> None:
    found = {
        "metadata": {"name": "p", "annotations": {"moiety.dev/gpu": "0.5"}},
        "spec": {"containers": [{"name": "main"}]},
    }
    result = explain.explain(found, ClusterObjects())
    assert "made when no webhook was registered" in result.sentence
    assert result.hint == "delete it and make it again"


def test_a_pod_that_asks_for_nothing_is_said_to() -> None:
    found = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}}
    assert said(found, ClusterObjects()) == "default/p asks for no share of a GPU"


def test_a_pod_in_words_that_are_not_read_is_told_who_can_change_that() -> None:
    found = {
        "metadata": {"name": "p", "namespace": "team", "annotations": {"gpu-fraction": "0.5"}},
        "spec": {"containers": [{"name": "main"}]},
    }
    result = explain.explain(found, ClusterObjects())
    assert "asks in the words of kai, which are not read in namespace team" in result.sentence
    assert "kubectl label namespace team moiety.dev/dialects=kai" in result.hint


def test_a_claim_that_does_not_exist_is_named() -> None:
    assert "waits for claim c, which does not exist" in said(
        pod("p", "c"), ClusterObjects([gpu_slice()])
    )


def test_what_no_gpu_has_is_not_waited_for() -> None:
    sentence = said(pod("p", "c"), ClusterObjects([gpu_slice()], [claim("c", 0.5, 81 * GIB)]))
    assert "50 % and 81 GiB of one GPU are wanted, which no GPU has" in sentence
    much = claim("c", 1.0)
    much["spec"]["devices"]["requests"][0]["exactly"]["capacity"]["requests"]["compute"] = "170"
    sentence = said(pod("p", "c"), ClusterObjects([gpu_slice()], [much]))
    assert "170 % of one GPU are wanted, which no GPU has" in sentence


def test_more_gpus_than_a_node_has_are_said_to_be() -> None:
    many = claim("c", 0.5)
    many["spec"]["devices"]["requests"][0]["exactly"]["count"] = 3
    sentence = said(pod("p", "c"), ClusterObjects([gpu_slice(), gpu_slice(node="b")], [many]))
    assert "3 GPUs of one node are wanted, and at most 1 have room" in sentence


def test_a_selector_that_takes_no_gpu_is_shown() -> None:
    chosen = claim("c", 0.5)
    expression = 'device.attributes["gpu.moiety.dev"].productName == "B999"'
    request = chosen["spec"]["devices"]["requests"][0]["exactly"]
    request["selectors"] = [{"cel": {"expression": expression}}]
    assert f"its selector takes none ({expression})" in said(
        pod("p", "c"), ClusterObjects([gpu_slice()], [chosen])
    )
