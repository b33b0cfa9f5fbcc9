"""What no node can hold is refused; what is only taken, or not known, is not."""

from __future__ import annotations

from typing import Any

import pytest

from moiety.kube.cluster_gpus import Fleet, GpuKind
from moiety.kube.dialects.request import WebhookConfig
from moiety.kube.webhook.admission import AllocationMethod, ClusterView, admit
from moiety.kube.webhook.cluster_cache import largest, offered
from moiety.kube.webhook.node_capacity import NodeCapacity

A100, T4 = GpuKind(80 << 30, "NVIDIA A100"), GpuKind(14 << 30, "Tesla T4")
FLEET = Fleet(frozenset({A100, T4}), frozenset({(A100, A100), (T4, T4, T4, T4)}))
NAMED = "moiety.dev/a100-percent"


def by_claims(fleet: Fleet = FLEET, gpus_per_node: int = 0) -> ClusterView:
    return ClusterView(fleet=fleet, nodes=NodeCapacity(gpus_per_node=gpus_per_node))


def by_units(**has: int) -> ClusterView:
    names = {f"moiety.dev/{key}-percent": number for key, number in has.items()}
    config = WebhookConfig(units=("moiety.dev/gpu-percent", NAMED))
    return ClusterView(
        by=AllocationMethod.UNITS, config=config, fleet=Fleet(), nodes=NodeCapacity(names)
    )


def pod(*limits: dict[str, str], **notes: str) -> dict[str, Any]:
    containers = [
        {"name": f"c{number}", "resources": {"limits": each}}
        for number, each in enumerate(limits or ({},))
    ]
    said = {f"moiety.dev/{key}": text for key, text in notes.items()}
    return {"metadata": {"name": "p", "annotations": said}, "spec": {"containers": containers}}


@pytest.mark.parametrize(
    ("asked", "cluster", "said"),
    [
        (pod({"moiety.dev/gpu": "5"}), by_claims(), "no node has more than 4"),
        (pod({"moiety.dev/gpu": "5"}), by_units(gpu=400), "no node has more than 4"),
        (pod(gpu="0.5", gpus="5"), by_claims(), "5 GPUs of one node, and no node has more than 4"),
        (pod(gpu="1", gpus="5"), by_units(gpu=400), "no node has more than 4"),
        (pod(gpu="0.5", gpus="3", model="A100"), by_claims(), "more than 2 that fit"),
        (pod(gpu="0.5", gpus="3", memory="20Gi"), by_claims(), "more than 2 that fit"),
        (pod({NAMED: "300"}), by_units(gpu=400, a100=200), "more than the 200 of the largest node"),
        (pod({NAMED: "1k"}), by_units(gpu=400, a100=200), "1000 is more than the 200"),
        (
            pod(*[{"moiety.dev/gpu-percent": "90"}] * 5),
            by_claims(),
            "450 % of GPUs together, and no node has more than 4",
        ),
    ],
)
def test_what_no_node_can_hold_is_refused(
    asked: dict[str, Any], cluster: ClusterView, said: str
) -> None:
    assert said in admit(asked, cluster).problem


def test_a_refused_number_of_gpus_names_the_percentage() -> None:
    for cluster in (by_claims(), by_units(gpu=400)):
        problem = admit(pod({"moiety.dev/gpu": "10"}), cluster).problem
        assert "10 % of one GPU is moiety.dev/gpu-percent: 10" in problem


@pytest.mark.parametrize(
    ("asked", "cluster"),
    [
        (pod({"moiety.dev/gpu": "4"}), by_claims()),
        (pod({"moiety.dev/gpu": "4"}), by_units(gpu=400)),
        (pod(gpu="0.5", gpus="4"), by_claims()),
        (pod({"moiety.dev/gpu": "9"}), by_claims(Fleet())),
        (pod({"moiety.dev/gpu": "9"}), by_units()),
        (pod({"moiety.dev/gpu": "8"}), by_claims(gpus_per_node=8)),
        (pod(*[{"moiety.dev/gpu-percent": "80"}] * 5), by_claims()),
        (pod({NAMED: "200"}), by_units(gpu=400, a100=200)),
    ],
)
def test_what_a_node_can_hold_or_none_is_known_to_hold_is_admitted(
    asked: dict[str, Any], cluster: ClusterView
) -> None:
    assert not admit(asked, cluster).problem


def test_init_containers_do_not_count_with_what_runs_after_them() -> None:
    asked = pod({"moiety.dev/gpu-percent": "80"}, {"moiety.dev/gpu-percent": "80"})
    first, second = asked["spec"]["containers"]
    small = by_claims(Fleet(frozenset({T4}), frozenset({(T4,)})))
    asked["spec"] = {"containers": [first], "initContainers": [second]}
    assert not admit(asked, small).problem
    asked["spec"]["initContainers"] = [{**second, "restartPolicy": "Always"}]
    assert "160 % of GPUs together" in admit(asked, small).problem


def test_containers_of_one_share_count_once() -> None:
    asked = pod({}, {}, gpu="0.8", container="c0,c1")
    assert not admit(asked, by_claims(Fleet(frozenset({T4}), frozenset({(T4,)})))).problem


def test_the_largest_node_is_found_by_each_resource() -> None:
    capacity = {"cpu": "8", "moiety.dev/gpu-percent": "400", NAMED: "0"}
    assert offered({"status": {"capacity": capacity}}) == {"moiety.dev/gpu-percent": 400}
    assert offered({}) == {}
    assert largest([{"a": 1, "b": 5}, {"a": 3}]) == {"a": 3, "b": 5}
