"""Shares follow their pods: who may use them, what they are called, and how large they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moiety.kube.client import CLAIMS, EVENTS, PODS
from moiety.kube.model import names
from moiety.kube.units import RESOURCE
from moiety.testing.kube_node import NAME, TEAM, KubeNode
from tests.support.kube_story import on_node

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def user_of(claim: str, pod: str, notes: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "metadata": {"name": pod, "annotations": notes or {}},
        "spec": {
            "nodeName": NAME,
            "resourceClaims": [{"name": "g", "resourceClaimName": claim}],
            "containers": [{"name": "main", "resources": {"claims": [{"name": "g"}]}}],
        },
    }


def reasons(node: KubeNode) -> list[tuple[str, str]]:
    return [(each["regarding"]["name"], each["reason"]) for each in node.api.all(EVENTS)]


def test_a_running_pod_gets_the_size_that_it_wishes_for_or_is_told_why_not(
    tmp_path: Path, native: Path
) -> None:
    async def story(node: KubeNode) -> None:
        node.allow("resize: true")
        claim = node.claim("train", {"gpu-0": 30})
        node.api.put(PODS, user_of("train", "train-pod"), TEAM)
        other = node.claim("other", {"gpu-0": 50})
        for each in (claim, other):
            assert not (await node.prepare(each)).error
        name = f"k8s-{claim['metadata']['uid']}"

        def written(reason: str) -> str:
            told = [each["note"] for each in node.api.all(EVENTS) if each["reason"] == reason]
            return "".join(told)

        wish = {names.RESIZE: "gpu=0.5 memory-limit=64Mi"}
        node.api.put(PODS, user_of("train", "train-pod", wish), TEAM)
        await node.until(
            lambda: written("Resized").startswith(f"{wish[names.RESIZE]}: its share"),
            "the wish is granted",
        )
        row = node.shares()[name]
        assert (row["share"]["gpu"], row["share"]["memory_limit_bytes"]) == (0.5, 64 << 20)
        assert row["labels"] == {
            "namespace": "team", "claim": "train", "pod": "train-pod", "container": "main",
        }  # fmt: skip
        node.api.put(PODS, user_of("train", "train-pod", {names.RESIZE: "gpu=0.6"}), TEAM)
        await node.until(
            lambda: written("ResizeRefused").startswith("gpu=0.6: refused: "), "the wish is refused"
        )
        assert "50 % of it are given already" in written("ResizeRefused")
        assert node.shares()[name]["share"]["gpu"] == 0.5
        assert ("train-pod", "Resized") in reasons(node)
        assert ("train-pod", "ResizeRefused") in reasons(node)

    on_node(tmp_path, native, "dra", story)


def test_a_grown_share_is_counted_by_the_scheduler_before_it_is_given(
    tmp_path: Path, native: Path
) -> None:
    async def story(node: KubeNode) -> None:
        node.allow("resize: true")
        claim = node.claim("train", {"gpu-0": 30}, memory="16Mi")
        whole = int(node.devices()["gpu-0"]["capacity"]["memory"]["value"])
        assert not (await node.prepare(claim)).error
        name = f"k8s-{claim['metadata']['uid']}"
        seen: list[tuple[str, float]] = []

        def capacity() -> tuple[str, int]:
            found = node.devices()["gpu-0"]["capacity"]
            return found["compute"]["value"], whole - int(found["memory"]["value"])

        async def wishes(wish: str) -> None:
            node.api.put(PODS, user_of("train", "train-pod", {names.RESIZE: wish}), TEAM)

        await wishes("gpu=0.6 memory=48Mi")
        await node.until(lambda: capacity() == ("70", 32 << 20), "it is counted")
        seen.append((capacity()[0], node.shares()[name]["share"]["gpu"]))
        await node.until(lambda: node.shares()[name]["share"]["gpu"] == 0.6, "it is given")
        assert seen == [("70", 0.3)]
        await wishes("gpu=0.2 memory=16Mi")
        await node.until(lambda: capacity() == ("100", 0), "what it had more is free")

        # The scheduler has placed another pod here, which is not prepared yet.
        node.claim("starts", {"gpu-0": 50})
        await wishes("gpu=0.6")
        await node.until(
            lambda: ("train-pod", "ResizeRefused") in reasons(node), "the wish is refused"
        )
        (note,) = (e["note"] for e in node.api.all(EVENTS) if e["reason"] == "ResizeRefused")
        assert "a pod that starts needs it: 50 % of gpu-0 are wanted" in note
        await node.until(lambda: capacity() == ("100", 0), "nothing more is counted")
        assert node.shares()[name]["share"]["gpu"] == 0.2

    on_node(tmp_path, native, "dra", story)


def test_each_pod_of_a_claim_may_wish_for_another_size(tmp_path: Path, native: Path) -> None:
    async def story(node: KubeNode) -> None:
        node.allow("resize: true")
        claim = node.claim("train", {"gpu-0": 30})
        made = node.api.put(PODS, user_of("train", "second"), TEAM)
        second = {"resource": "pods", "name": "second", "uid": made["metadata"]["uid"]}
        reserved = [*claim["status"]["reservedFor"], second]
        status = {**claim["status"], "reservedFor": reserved}
        claim = node.api.put(CLAIMS, {**claim, "status": status}, TEAM)
        assert not (await node.prepare(claim)).error
        name = f"k8s-{claim['metadata']['uid']}"

        async def wishes(pod: str, wish: str, part: float) -> None:
            node.api.put(PODS, user_of("train", pod, {names.RESIZE: wish}), TEAM)
            await node.until(lambda: node.shares()[name]["share"]["gpu"] == part, f"{pod} has it")

        await wishes("second", "gpu=0.5", 0.5)
        await wishes("train-pod", "gpu=0.4", 0.4)
        await wishes("second", "gpu=0.6", 0.6)

    on_node(tmp_path, native, "dra", story)


def test_a_claim_lets_in_the_pods_it_is_reserved_for_and_nobody_who_only_names_it(
    tmp_path: Path, native: Path
) -> None:
    async def story(node: KubeNode) -> None:
        claim = node.claim("train", {"gpu-0": 30})
        assert not (await node.prepare(claim)).error
        name = f"k8s-{claim['metadata']['uid']}"
        node.api.put(PODS, user_of("train", "thief"), TEAM)
        friend = node.api.put(PODS, user_of("train", "friend"), TEAM)
        uid = friend["metadata"]["uid"]
        found = node.api.get(CLAIMS, "train", TEAM)
        assert found is not None
        first = found["status"]["reservedFor"][0]["uid"]
        reserved = [*found["status"]["reservedFor"]]
        reserved.append({"resource": "pods", "name": "friend", "uid": uid})
        node.api.put(
            CLAIMS, {**found, "status": {**found["status"], "reservedFor": reserved}}, TEAM
        )
        await node.until(lambda: uid in node.shares()[name]["pods"], "the friend is let in")
        assert set(node.shares()[name]["pods"]) == {first, uid}

    on_node(tmp_path, native, "dra", story)


def test_units_get_the_name_of_their_pod_and_what_it_asked_for_beside_them(
    tmp_path: Path, native: Path
) -> None:
    async def story(node: KubeNode) -> None:
        asked = {
            "apiVersion": "resource.moiety.dev/v1alpha1",
            "kind": "ShareConfig",
            "gpu": {"request": "0.2"},
            "memory": {"limit": "64Mi"},
        }
        async for units in node.kubelet.units(RESOURCE):
            some = sorted(units)[:20]
            break
        (device,) = await node.kubelet.allocate(RESOURCE, some)
        name = device.partition("=")[2]
        body = {
            "metadata": {
                "name": "train",
                "annotations": {names.ASKED: json.dumps({"main": asked})},
            },
            "spec": {"nodeName": NAME, "containers": [{"name": "main"}]},
        }
        pod = node.api.put(PODS, body, TEAM)
        node.kubelet.has("train", "main", RESOURCE, some)
        uid = pod["metadata"]["uid"]
        await node.until(lambda: node.shares()[name]["pods"] == [uid], "the share has its pod")
        row = node.shares()[name]
        assert row["share"]["gpu"] == 0.2
        assert row["share"]["memory_limit_bytes"] == 64 << 20
        assert row["labels"] == {"namespace": "team", "pod": "train", "container": "main"}

    on_node(tmp_path, native, "plugin", story)
