"""Units that nodes offer: how many are left, and why a pod that asks for some waits."""

from __future__ import annotations

from typing import Any

import pytest

from moiety.kube.node_units import node_units, room, wanted

UNITS = "moiety.dev/gpu-percent"


def pod(*units: int, node: str = "", phase: str = "Pending", init: int = 0) -> dict[str, Any]:
    def container(number: int) -> dict[str, Any]:
        return {"resources": {"limits": {UNITS: str(number), "cpu": "1"}}}

    spec = {"nodeName": node, "containers": [container(each) for each in units]}
    if init:
        spec["initContainers"] = [container(init)]
    return {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": phase}}


def node(name: str, units: int) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"allocatable": {UNITS: str(units), "cpu": "8"}}}


def test_units_of_containers_add_up_and_those_that_end_before_are_there_in_turn() -> None:
    assert wanted(pod(20, 30)) == {UNITS: 50}
    assert wanted(pod(20, 30, init=10)) == {UNITS: 50}
    assert wanted(pod(20, 30, init=80)) == {UNITS: 80}
    sidecar = pod(20, init=10)
    sidecar["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    assert wanted(sidecar) == {UNITS: 30}
    assert wanted({"metadata": {"name": "p"}}) == {}


def test_units_of_pods_that_have_ended_or_are_elsewhere_are_free() -> None:
    there = [
        pod(30, node="a", phase="Running"),
        pod(40, node="a", phase="Succeeded"),
        pod(50, node="b", phase="Running"),
    ]
    assert [each.free for each in node_units([node("a", 100), node("b", 200)], there)] == [70, 150]


@pytest.mark.parametrize(
    ("asked", "nodes", "used", "said"),
    [
        (50, [], 0, "no node offers moiety.dev/gpu-percent"),
        (50, [node("a", 0)], 0, "no node offers moiety.dev/gpu-percent"),
        (300, [node("a", 200)], 0, "the largest node has 200, so it would wait for ever"),
        (50, [node("a", 200)], 160, "of 1 node(s) the roomiest, a, has 40 of 200 left"),
        (50, [node("a", 200)], 100, "something else keeps it"),
        (50, [node("a", 200)], None, "not yours to see"),
    ],
)
def test_a_pod_waits_for_a_reason(
    asked: int, nodes: list[dict[str, Any]], used: int | None, said: str
) -> None:
    pods = None if used is None else [pod(used, node="a", phase="Running")]
    assert said in room(pod(asked), node_units(nodes, pods))
