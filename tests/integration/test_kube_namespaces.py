"""What an administrator does not allow a namespace, its pods do not get on a node either."""

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
KIND = {"apiVersion": "resource.moiety.dev/v1alpha1", "kind": "ShareConfig"}


def notes_of(node: KubeNode, reason: str) -> list[str]:
    return [each["note"] for each in node.api.all(EVENTS) if each["reason"] == reason]


def test_a_claim_of_a_class_that_its_namespace_has_not_is_not_prepared(
    tmp_path: Path, native: Path
) -> None:
    async def story(node: KubeNode) -> None:
        first = node.claim("first", {"gpu-0": 0}, config={**KIND, "latency": True})
        said = (await node.prepare(first)).error
        assert "namespace team may have no program of the latency class" in said
        assert "moiety-namespaces" in said
        high = node.claim("high", {"gpu-0": 10}, config={**KIND, "priority": "high"})
        assert "normal at most, not high" in (await node.prepare(high)).error
        assert (node.shares(), node.written_down()) == ({}, set())
        node.allow("latency: true")
        assert not (await node.prepare(first)).error

    on_node(tmp_path, native, "dra", story)


def test_a_claim_beyond_the_sum_of_its_namespace_is_not_prepared(
    tmp_path: Path, native: Path
) -> None:
    async def story(node: KubeNode) -> None:
        node.allow("gpu: 0.5\nmemory: 32Mi")
        elsewhere = node.claim("elsewhere", {"gpu-0": 20})
        results = elsewhere["status"]["allocation"]["devices"]["results"]
        results[0]["pool"] = "node-b"
        node.api.put(CLAIMS, elsewhere, TEAM)
        assert not (await node.prepare(node.claim("fits", {"gpu-0": 30}))).error
        said = (await node.prepare(node.claim("more", {"gpu-0": 10}))).error
        assert "may have 50 % in all; 50 % of it are guaranteed already" in said
        said = (await node.prepare(node.claim("kept", {"gpu-0": 0}, memory="48Mi"))).error
        assert "48 MiB cannot be kept for namespace team" in said
        assert len(node.shares()) == 1

    on_node(tmp_path, native, "dra", story)


def test_of_claims_that_exceed_the_sum_together_the_oldest_are_prepared(
    tmp_path: Path, native: Path
) -> None:
    async def story(node: KubeNode) -> None:
        node.allow("gpu: 0.5")

        def made(name: str, second: int) -> Any:
            claim = node.claim(name, {"gpu-0": 30})
            claim["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second:02}Z"
            return node.api.put(CLAIMS, claim, TEAM)

        young, old = made("young", 2), made("old", 1)
        assert "30 % of it are guaranteed already" in (await node.prepare(young)).error
        assert not (await node.prepare(old)).error

        # An older claim that comes late does not count before one that a pod has.
        late = made("late", 0)
        assert "30 % of it are guaranteed already" in (await node.prepare(late)).error
        await node.unprepare(old)
        node.api.remove(CLAIMS, "old", TEAM)
        user = node.api.get(PODS, "young-pod", TEAM)
        assert user is not None
        node.api.put(PODS, {**user, "status": {"phase": "Running"}}, TEAM)
        assert "30 % of it are guaranteed already" in (await node.prepare(late)).error

    on_node(tmp_path, native, "dra", story)


def test_without_the_rules_nothing_new_is_given(tmp_path: Path, native: Path) -> None:
    async def story(node: KubeNode) -> None:
        known = node.claim("known", {"gpu-0": 30})
        assert not (await node.prepare(known)).error
        node.api.fail = lambda _, path: 403 if "configmaps" in path else 0
        assert "configmaps" in (await node.prepare(node.claim("new", {"gpu-0": 30}))).error
        assert not (await node.prepare(known)).error

    on_node(tmp_path, native, "dra", story)


def using(claim: str, wish: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{claim}-pod", "annotations": {names.RESIZE: wish}},
        "spec": {
            "nodeName": NAME,
            "resourceClaims": [{"name": "g", "resourceClaimName": claim}],
            "containers": [{"name": "main", "resources": {"claims": [{"name": "g"}]}}],
        },
    }


def test_a_share_changes_only_as_far_as_its_namespace_may(tmp_path: Path, native: Path) -> None:
    async def story(node: KubeNode) -> None:
        claim = node.claim("train", {"gpu-0": 30})
        name = f"k8s-{claim['metadata']['uid']}"
        assert not (await node.prepare(claim)).error

        async def refused(wish: str, why: str) -> None:
            before = len(notes_of(node, "ResizeRefused"))
            node.api.put(PODS, using("train", wish), TEAM)
            await node.until(
                lambda: len(notes_of(node, "ResizeRefused")) > before, f"{wish} is answered"
            )
            assert any(why in note for note in notes_of(node, "ResizeRefused"))
            assert node.shares()[name]["share"]["gpu"] == 0.3

        await refused("gpu=0.6", "may not change shares of running pods")
        node.allow("resize: true")
        await refused("latency=true", "no program of the latency class")
        node.allow("resize: true\ngpu: 1")
        await refused("gpu=0.7", "cannot grow beyond what its pod was admitted with")
        node.api.put(PODS, using("train", "gpu=0.2"), TEAM)
        await node.until(lambda: node.shares()[name]["share"]["gpu"] == 0.2, "it is smaller")
        node.api.put(PODS, using("train", "gpu=0.3"), TEAM)
        await node.until(lambda: node.shares()[name]["share"]["gpu"] == 0.3, "it is as before")

    on_node(tmp_path, native, "dra", story)


def test_units_without_the_webhooks_word_have_no_class_that_is_not_allowed(
    tmp_path: Path, native: Path
) -> None:
    async def story(node: KubeNode) -> None:
        async for units in node.kubelet.units(RESOURCE):
            some = sorted(units)[:20]
            break
        (device,) = await node.kubelet.allocate(RESOURCE, some)
        name = device.partition("=")[2]
        asked = {"main": {**KIND, "gpu": {"request": "0.2"}, "latency": True}}
        body = {
            "metadata": {"name": "train", "annotations": {names.ASKED: json.dumps(asked)}},
            "spec": {"nodeName": NAME, "containers": [{"name": "main"}]},
        }
        pod = node.api.put(PODS, body, TEAM)
        node.kubelet.has("train", "main", RESOURCE, some)
        uid = pod["metadata"]["uid"]
        await node.until(lambda: node.shares()[name]["pods"] == [uid], "the share has its pod")
        share = node.shares()[name]["share"]
        assert not share["latency"]
        assert share["gpu"] is None
        assert "latency class" in "".join(notes_of(node, "Refused"))

    on_node(tmp_path, native, "plugin", story)
