from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.kube.cluster_gpus import Fleet, GpuKind
from moiety.kube.dialects.request import SPELLINGS, WebhookConfig
from moiety.kube.model import names, share_config
from moiety.kube.webhook import admission, review, webhook_config
from moiety.kube.webhook.admission import AllocationMethod, ClusterView, Verdict
from moiety.kube.webhook.review import NoReview
from moiety.model.share import Share

CLUSTER = ClusterView(fleet=Fleet(frozenset({GpuKind(80 << 30, "NVIDIA A100")})))
UNITS = ClusterView(
    by=AllocationMethod.UNITS, config=WebhookConfig(units=("moiety.dev/gpu-percent",))
)
EVERY = dataclasses.replace(CLUSTER, config=WebhookConfig(spellings=SPELLINGS))


def pod(limits: dict[str, str] | None = None, *more: str, **notes: str) -> dict[str, Any]:
    said = {f"moiety.dev/{key.replace('_', '-')}": text for key, text in notes.items()}
    containers: list[dict[str, Any]] = [{"name": "main", "image": "train"}]
    if limits is not None:
        containers[0]["resources"] = {"limits": limits}
    containers += [{"name": name, "image": "train"} for name in more]
    return {"metadata": {"name": "p", "annotations": said}, "spec": {"containers": containers}}


def patched(asked: dict[str, Any], verdict: Verdict) -> dict[str, Any]:
    """The object as the API server makes it of the patch."""
    assert not verdict.problem
    found: dict[str, Any] = json.loads(json.dumps(asked))
    for change in verdict.patch:
        assert change["op"] == "add"
        *path, last = change["path"].split("/")[1:]
        where: Any = found
        for part in path:
            where = where[int(part)] if isinstance(where, list) else where[part]
        if isinstance(where, list):
            where[int(last)] = change["value"]
        else:
            where[last] = change["value"]
    return found


def test_an_annotation_becomes_a_claim_of_the_container() -> None:
    asked = pod(gpu="0.5", memory="20Gi")
    verdict = admission.admit(asked, CLUSTER)
    new = patched(asked, verdict)
    (template,) = verdict.templates
    assert new["spec"]["resourceClaims"] == [
        {"name": "moiety-main", "resourceClaimTemplateName": template["metadata"]["name"]}
    ]
    assert new["spec"]["containers"][0]["resources"]["claims"] == [{"name": "moiety-main"}]
    assert new["metadata"]["labels"] == {names.SHARED: "claim"}
    understood = json.loads(new["metadata"]["annotations"][names.ASKED])
    assert share_config.decode(understood["main"]) == Share(gpu=0.5, memory_bytes=20 << 30)
    assert new["metadata"]["annotations"]["moiety.dev/gpu"] == "0.5"


def test_resources_of_another_system_are_taken_off() -> None:
    asked = pod({"nvshare.com/gpu": "1", "cpu": "2"})
    new = patched(asked, admission.admit(asked, EVERY))
    assert new["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2"}


@pytest.mark.parametrize("name", ["kai-scheduler", "own-scheduler", "default-scheduler"])
def test_the_name_of_a_scheduler_is_left_alone_unless_an_administrator_says_it_is_gone(
    name: str,
) -> None:
    asked = pod(gpu="0.5")
    asked["spec"]["schedulerName"] = name
    verdict = admission.admit(asked, CLUSTER)
    assert patched(asked, verdict)["spec"]["schedulerName"] == name
    assert any(name in each for each in verdict.warnings) == (name == "kai-scheduler")

    config = WebhookConfig(schedulers=("kai-scheduler",))
    verdict = admission.admit(asked, dataclasses.replace(CLUSTER, config=config))
    new = patched(asked, verdict)["spec"]["schedulerName"]
    assert new == ("default-scheduler" if name == "kai-scheduler" else name)


def test_by_units_the_container_gets_a_number_of_them_and_the_rest_is_an_annotation() -> None:
    asked = pod(gpu="0.5", memory_limit="2Gi")
    new = patched(asked, admission.admit(asked, UNITS))
    assert new["spec"]["containers"][0]["resources"]["limits"] == {"moiety.dev/gpu-percent": "50"}
    assert "resourceClaims" not in new["spec"]
    assert new["metadata"]["labels"] == {names.SHARED: "units"}
    understood = json.loads(new["metadata"]["annotations"][names.ASKED])
    assert share_config.decode(understood["main"]).memory_limit_bytes == 2 << 30


def test_containers_of_one_share_have_one_claim_and_others_one_each() -> None:
    asked = pod({}, "eval", gpu="0.5", container="main,eval")
    new = patched(asked, admission.admit(asked, CLUSTER))
    claims = [each["resources"]["claims"] for each in new["spec"]["containers"]]
    assert claims == [[{"name": "moiety-main"}], [{"name": "moiety-main"}]]
    asked = pod({"nvshare.com/gpu": "1"}, "eval")
    asked["spec"]["containers"][1]["resources"] = {"limits": {"nvshare.com/gpu": "1"}}
    verdict = admission.admit(asked, EVERY)
    new = patched(asked, verdict)
    assert [each["name"] for each in new["spec"]["resourceClaims"]] == [
        "moiety-main",
        "moiety-eval",
    ]
    assert len(verdict.templates) == 1


def test_claims_that_a_pod_has_stay() -> None:
    asked = pod(gpu="0.5")
    asked["spec"]["resourceClaims"] = [{"name": "moiety-main", "resourceClaimName": "own"}]
    asked["spec"]["containers"][0]["resources"] = {"claims": [{"name": "moiety-main"}]}
    new = patched(asked, admission.admit(asked, CLUSTER))
    assert [each["name"] for each in new["spec"]["resourceClaims"]] == [
        "moiety-main",
        "moiety-main-2",
    ]


def test_a_pod_that_asks_for_nothing_is_left_as_it_is() -> None:
    assert admission.admit(pod({"nvidia.com/gpu": "1"}), CLUSTER) == Verdict()


@pytest.mark.parametrize(
    ("asked", "cluster", "said"),
    [
        (pod(gpu="1.7"), CLUSTER, "more than one GPU"),
        (pod(memory="81Gi"), CLUSTER, "the largest has 80 GiB"),
        (pod(gpu="0.5", model="H200"), CLUSTER, "no node has a GPU of model H200"),
        (pod(memory="20Gi"), UNITS, "says only how much memory"),
        (pod({}, "b", gpu="0.5", container="main,b"), UNITS, "containers do not share"),
        (pod(gpu="0.5", asked="{}"), CLUSTER, "written by moiety only"),
        (pod(asked="{}"), CLUSTER, "written by moiety only"),
        (pod(gpu="0.5", resized="gpu=1"), CLUSTER, "written by moiety only"),
    ],
)
def test_a_refusal_says_what_is_wrong(
    asked: dict[str, Any], cluster: ClusterView, said: str
) -> None:
    verdict = admission.admit(asked, cluster)
    assert said in verdict.problem
    assert verdict.problem.startswith("moiety: ")
    assert not verdict.patch
    assert not verdict.templates


def test_who_gets_the_gpu_is_said_where_it_could_be_another() -> None:
    assert "main gets the GPU" in admission.admit(pod({}, "b", gpu="0.5"), CLUSTER).warnings[0]


def test_a_resize_is_checked_when_it_is_written() -> None:
    old = patched(pod(gpu="0.5"), admission.admit(pod(gpu="0.5"), CLUSTER))

    def resized(text: str) -> str:
        new = json.loads(json.dumps(old))
        new["metadata"]["annotations"][names.RESIZE] = text
        return admission.check_resize(new, old).problem

    assert not resized("gpu=0.6")
    assert "more than one GPU" in resized("gpu=6")
    assert "'other', which is no container" in resized("other:gpu=0.6")
    plain = pod()
    new = pod(resize="gpu=0.5")
    assert "has no share" in admission.check_resize(new, plain).problem
    assert not admission.check_resize(new, new).problem


def test_parameters_of_ours_in_a_claim_have_to_be_a_share() -> None:
    def spec(driver: str, parameters: Any) -> dict[str, Any]:
        return {"devices": {"config": [{"opaque": {"driver": driver, "parameters": parameters}}]}}

    good = share_config.encode(Share(gpu=0.5))
    assert not admission.check_claim(spec("gpu.moiety.dev", good)).problem
    assert not admission.check_claim(spec("gpu.nvidia.com", {"kind": "GpuConfig"})).problem
    assert "gpus" in admission.check_claim(spec("gpu.moiety.dev", good | {"gpus": 1})).problem
    assert not admission.check_claim({}).problem


# Reviews


def question(kind: str, body: Any, **more: Any) -> bytes:
    request = {"uid": "u1", "kind": {"kind": kind}, "operation": "CREATE", "object": body} | more
    return msgspec.json.encode({"request": request})


def test_an_answer_is_a_review_with_the_same_uid() -> None:
    asked = review.read(question("Pod", pod(gpu="0.5")))
    answer = review.answer(asked["uid"], review.decide(asked, CLUSTER))
    assert answer["response"]["uid"] == "u1"
    assert answer["response"]["allowed"]
    assert answer["response"]["patchType"] == "JSONPatch"
    asked = review.read(question("Pod", pod(gpu="7")))
    answer = review.answer(asked["uid"], review.decide(asked, CLUSTER))
    assert not answer["response"]["allowed"]
    assert "more than one GPU" in answer["response"]["status"]["message"]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"request": 1}', b'{"request": {"uid": 1}}', b"\xff"]
)
def test_what_is_no_review_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(NoReview):
        review.read(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "annotations", "spec", "containers", "name", "resources", "limits",
                 "moiety.dev/gpu", "nvshare.com/gpu", "devices", "config", "opaque", "driver"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)  # fmt: skip


@given(st.sampled_from(["Pod", "ResourceClaim", "ResourceClaimTemplate", "Node"]), JSON)
def test_any_object_is_answered_or_said_to_be_none(kind: str, body: Any) -> None:
    asked = review.read(question(kind, body))
    try:
        verdict = review.decide(asked, CLUSTER)
    except NoReview:
        return
    assert review.answer("u1", verdict)["response"]["uid"] == "u1"


# What the cluster tells


def test_settings_are_read_and_what_makes_no_sense_is_told_and_left_out() -> None:
    found = webhook_config.read(
        {
            "shares": "units",
            "gpu-memory": "80Gi",
            "spellings": "moiety kai",
            "schedulers": "kai-scheduler",
            "gpus-per-node": "8",
            "resources": "moiety.dev/gpu moiety.dev/a100-percent",
            "units": "10",
            "whole-gpus": "maybe",
            "metagpu-resources": "cnvrg.io/metagpu cnvrg.io/a100=A100",
            "colour": "red",
        },
        {"small": "gpu: 0.25\n# a quarter\nmemory: '10Gi'", "odd": "gpu: 7", "none": ""},
        Fleet(),
    )
    cluster = found.cluster
    assert (cluster.by, cluster.gpu_memory_bytes) == (AllocationMethod.UNITS, 80 << 30)
    assert cluster.nodes.gpus_per_node == 8
    assert cluster.config.units == ("moiety.dev/gpu-percent", "moiety.dev/a100-percent")
    assert cluster.config.schedulers == ("kai-scheduler",)
    assert cluster.config.spellings == ("moiety", "kai")
    assert cluster.config.metagpu_resources == {"cnvrg.io/metagpu": "", "cnvrg.io/a100": "A100"}
    assert cluster.config.sizes == {"small": {"gpu": "0.25", "memory": "10Gi"}}
    assert not cluster.config.whole_gpus
    said = " ".join(found.problems)
    for word in ("colour", "'units'", "maybe", "size odd", "size none"):
        assert word in said


def test_without_settings_all_is_as_usual() -> None:
    assert webhook_config.read({}, {}, Fleet()).cluster == ClusterView(config=WebhookConfig())
