"""A number among a container's limits means the same in every cluster."""

from __future__ import annotations

from typing import Any

import pytest

from moiety.kube.dialects import gpu_limits, resolve
from moiety.kube.dialects.request import GpuRequest, RequestRefused, WebhookConfig
from moiety.kube.webhook.admission import AllocationMethod, ClusterView, admit
from moiety.model.share import Share

BY_CLAIMS = ClusterView()
BY_UNITS = ClusterView(
    by=AllocationMethod.UNITS, config=WebhookConfig(units=("moiety.dev/gpu-percent",))
)
BOTH = pytest.mark.parametrize("cluster", [BY_CLAIMS, BY_UNITS], ids=["claims", "units"])


def pod(*limits: dict[str, str]) -> dict[str, Any]:
    containers = [
        {"name": f"c{number}", "resources": {"limits": each}} for number, each in enumerate(limits)
    ]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers}}


def limits_of(cluster: ClusterView, asked: dict[str, Any]) -> dict[str, str]:
    """What the container asks for in the pod that is made."""
    verdict = admit(asked, cluster)
    assert not verdict.problem
    for change in verdict.patch:
        if change["path"] == "/spec/containers/0/resources":
            found: dict[str, str] = change["value"].get("limits", {})
            return found
    return dict(asked["spec"]["containers"][0]["resources"]["limits"])


def consumed(cluster: ClusterView, asked: dict[str, Any]) -> Any:
    """Count and percent of the claim that a pod gets."""
    (template,) = admit(asked, cluster).templates
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    exactly = request["exactly"]
    return exactly["count"], exactly["capacity"]["requests"]["compute"]


def test_percent_is_a_part_of_one_gpu_by_units_and_by_claims() -> None:
    half = pod({"moiety.dev/gpu-percent": "50"})
    assert limits_of(BY_UNITS, half) == {"moiety.dev/gpu-percent": "50"}
    assert limits_of(BY_CLAIMS, half) == {}
    assert consumed(BY_CLAIMS, half) == (1, "50")


def test_a_number_of_gpus_is_whole_ones_by_units_and_by_claims() -> None:
    two = pod({"moiety.dev/gpu": "2"})
    assert limits_of(BY_UNITS, two) == {"moiety.dev/gpu-percent": "200"}
    assert limits_of(BY_CLAIMS, two) == {"moiety.dev/gpu": "2"}  # the class makes a claim of it


@BOTH
def test_fifty_gpus_are_refused_with_what_may_be_meant(cluster: ClusterView) -> None:
    problem = admit(pod({"moiety.dev/gpu": "50"}), cluster).problem
    assert "50 whole GPUs" in problem
    assert "moiety.dev/gpu-percent: 50" in problem
    assert 'moiety.dev/gpu: "0.5"' in problem


@BOTH
@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"moiety.dev/gpu-percent": "101"}, "more than one GPU, which is 100"),
        ({"moiety.dev/gpu-percent": "0.5"}, "not a whole number"),
        ({"moiety.dev/gpu-percent": "50", "moiety.dev/gpu": "1"}, "one of them"),
        ({"moiety.dev/gpus": "1"}, "there are moiety.dev/gpu, moiety.dev/gpu-percent"),
        ({"moiety.dev/a100": "1"}, "no node has a resource moiety.dev/a100"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(cluster: ClusterView, limits: dict[str, str], said: str) -> None:
    assert said in admit(pod(limits), cluster).problem


@BOTH
def test_percent_beside_an_annotation_is_refused(cluster: ClusterView) -> None:
    asked = pod({"moiety.dev/gpu-percent": "50"})
    asked["metadata"]["annotations"] = {"moiety.dev/gpu": "0.5"}
    assert "asks for moiety.dev/gpu-percent: 50" in admit(asked, cluster).problem


@BOTH
def test_containers_may_each_say_it_in_their_own_way(cluster: ClusterView) -> None:
    asked = pod({"moiety.dev/gpu-percent": "50"}, {"moiety.dev/gpu": "1"}, {"moiety.dev/gpu": "0"})
    assert not admit(asked, cluster).problem


def test_resources_of_models_are_left_to_the_nodes_that_have_them() -> None:
    config = WebhookConfig(units=("moiety.dev/gpu-percent", "moiety.dev/a100-percent"))
    assert resolve.read(pod({"moiety.dev/a100-percent": "150"}), config) is None


def test_authors_of_units_are_told_what_their_number_means_now() -> None:
    asked = pod({"moiety.dev/gpu": "5"})
    (told,) = admit(asked, BY_UNITS).warnings
    assert "moiety.dev/gpu: 5 is 5 whole GPU(s)" in told
    assert "moiety.dev/gpu-percent: 5" in told
    assert gpu_limits.warnings(asked, BY_CLAIMS.config) == []


def test_an_init_container_that_asks_for_the_same_uses_the_share_before() -> None:
    asked = pod({"moiety.dev/gpu-percent": "50"})
    (main,) = asked["spec"]["containers"]
    asked["spec"]["initContainers"] = [{**main, "name": "load"}]
    found = resolve.read(asked, BY_CLAIMS.config)
    assert found is not None
    assert found.together == {"load", "c0"}
    assert set(found.by_container.values()) == {GpuRequest(Share(gpu=0.5))}


def test_a_number_that_was_no_percentage_is_not_said_to_be_one() -> None:
    with pytest.raises(RequestRefused) as no:
        gpu_limits.read(pod({"moiety.dev/gpu": "300"}), WebhookConfig())
    assert "percent" not in no.value.what
