"""What of a cluster is seen with few rights, and what is said of the rest."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moiety.kube import cluster_report, explain
from moiety.kube.client import CLAIMS, NODES, PODS, SLICES, ApiClient
from moiety.kube.cluster_look import look
from moiety.kube.cluster_report import ClusterObjects
from moiety.model.errors import ClusterRefusal
from moiety.testing.apiserver import ApiServer

SYSTEM = "moiety-system"
AGENT = {
    "metadata": {"name": "moiety-node-x", "labels": {"app.kubernetes.io/name": "moiety-node"}},
    "spec": {"nodeName": "a"},
}
ASKED = '{"main": {"apiVersion": "resource.moiety.dev/v1alpha1", "kind": "ShareConfig"}}'
Allowed = Callable[[str], bool]


def everything(path: str) -> bool:
    return bool(path)


def editor(path: str) -> bool:
    """What ClusterRole edit allows in namespace team."""
    return "/namespaces/team/" in path


def no_claims(path: str) -> bool:
    return "/namespaces/team/pods" in path


def waiting() -> dict[str, Any]:
    status = {"name": "g", "resourceClaimName": "its-claim"}
    return {
        "metadata": {"name": "mine", "uid": "u", "annotations": {"moiety.dev/asked": ASKED}},
        "spec": {"containers": [{"name": "main"}], "resourceClaims": [{"name": "g"}]},
        "status": {"phase": "Pending", "resourceClaimStatuses": [status]},
    }


def seen_with(
    folder: Path, allowed: Allowed, namespace: str | None = None, own: str = "team"
) -> ClusterObjects:
    kubectl = folder / "kubectl"
    kubectl.write_text("#!/bin/sh\necho '[]'\n")
    kubectl.chmod(0o755)
    request = {
        "name": "gpu",
        "exactly": {
            "deviceClassName": "gpu.moiety.dev",
            "capacity": {"requests": {"compute": "50"}},
        },
    }

    async def tell() -> ClusterObjects:
        async with ApiServer() as server:
            server.put(PODS, waiting(), "team")
            server.put(PODS, {**waiting(), "metadata": {"name": "theirs"}}, "other")
            server.put(PODS, AGENT, SYSTEM)
            spec = {"devices": {"requests": [request]}}
            server.put(CLAIMS, {"metadata": {"name": "its-claim"}, "spec": spec}, "team")
            device = {"name": "gpu-0", "capacity": {"memory": {"value": "80Gi"}}}
            pool = {"driver": "gpu.moiety.dev", "pool": {"name": "a"}, "devices": [device]}
            server.put(SLICES, {"metadata": {"name": "a"}, "spec": pool})
            server.fail = lambda _, path: 0 if allowed(path) else 403
            own_access = dataclasses.replace(server.access, namespace=own)
            async with ApiClient(own_access, patience_s=0.1) as client:
                return await look(client, SYSTEM, [], namespace)

    return asyncio.run(tell())


@pytest.fixture(autouse=True)
def _kubectl_is_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def test_an_administrator_sees_all_and_is_told_of_nothing_left_out(tmp_path: Path) -> None:
    seen = seen_with(tmp_path, everything)
    assert {each["metadata"]["name"] for each in seen.pods} == {"mine", "theirs", "moiety-node-x"}
    assert (len(seen.slices), len(seen.claims), seen.silent, seen.left_out) == (1, 1, {}, {})


def test_an_editor_sees_the_pods_of_the_namespace_and_what_is_left_out(tmp_path: Path) -> None:
    seen = seen_with(tmp_path, editor)
    assert [each["metadata"]["name"] for each in seen.pods] == ["mine"]
    assert (len(seen.slices), len(seen.claims)) == (0, 1)
    assert "only namespace team is shown" in seen.left_out["pods"]
    assert "ResourceSlices" in seen.left_out["gpus"]
    assert SYSTEM in seen.left_out["received"]
    assert all("\n" not in each for each in seen.left_out.values())


def test_gpus_are_not_shown_where_only_some_claims_on_them_are_known(tmp_path: Path) -> None:
    def some(path: str) -> bool:
        return editor(path) or path.endswith("/resourceslices")

    seen = seen_with(tmp_path, some)
    assert seen.slices == []
    assert "what is promised" in seen.left_out["gpus"]


def test_one_namespace_that_is_named_is_not_said_to_be_less(tmp_path: Path) -> None:
    seen = seen_with(tmp_path, editor, "team", own="default")
    assert [each["metadata"]["name"] for each in seen.pods] == ["mine"]
    assert "pods" not in seen.left_out


@pytest.mark.parametrize("namespace", [None, "other"])
def test_a_user_without_any_rights_is_told_what_to_type(
    tmp_path: Path, namespace: str | None
) -> None:
    with pytest.raises(ClusterRefusal) as no:
        seen_with(tmp_path, editor, namespace, own="other")
    assert "-n NAMESPACE" in no.value.hint


def test_an_editor_s_pod_that_waits_is_explained_without_what_is_not_known(
    tmp_path: Path,
) -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    for allowed in (editor, no_claims):
        seen = seen_with(tmp_path, allowed, "team")
        found = waiting()
        found["metadata"]["namespace"] = "team"
        found["status"]["conditions"] = [condition]
        said = explain.explain(found, seen)
        assert said.sentence.startswith("team/mine waits for a GPU (main: ")
        assert "which GPUs have room is not yours to see" in said.sentence
        assert "the scheduler says: 0/1 nodes are available" in said.sentence
        assert len(said.left_out) == (2 if allowed is editor else 3)
    assert cluster_report.gpus(seen) == []


def test_without_slices_a_pod_waits_for_the_units_of_nodes(tmp_path: Path) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\necho '[]'\n")
    kubectl.chmod(0o755)

    def units(number: int, node: str = "") -> dict[str, Any]:
        limits = {"moiety.dev/gpu-percent": str(number)}
        spec = {"nodeName": node, "containers": [{"name": "c", "resources": {"limits": limits}}]}
        return {"spec": spec, "status": {"phase": "Running" if node else "Pending"}}

    async def tell(allowed: Allowed) -> ClusterObjects:
        async with ApiServer() as server:
            server.put(PODS, {"metadata": {"name": "big"}, **units(80, "a")}, "other")
            server.put(PODS, {"metadata": {"name": "next"}, **units(30)}, "team")
            status = {"allocatable": {"moiety.dev/gpu-percent": "100"}}
            server.put(NODES, {"metadata": {"name": "a"}, "status": status})
            server.fail = lambda _, path: 0 if allowed(path) else 403
            async with ApiClient(server.access, patience_s=0.1) as client:
                return await look(client, SYSTEM, [], "team")

    def said(allowed: Allowed) -> str:
        seen = asyncio.run(tell(allowed))
        (pod,) = seen.pods
        return explain.explain(pod, seen).sentence

    assert "of 1 node(s) the roomiest, a, has 20 of 100 left" in said(everything)
    assert "which nodes have units left is not yours to see" in said(
        lambda path: "nodes" not in path
    )
