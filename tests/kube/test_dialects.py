"""Pods that say in words what they want: each spelling is a share, and what is wrong is refused."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from moiety.kube.model.quantity import parse_bytes
from tests.kube.bed import Bed
from tests.kube.objects import pod
from tests.kube.sharing import LONG, RIGHT, Sharing, asking, claim, claimant, work

HALF = {"annotations": {"moiety.dev/gpu": "0.5"}}
pytestmark = pytest.mark.usefixtures("nothing_stays")


@pytest.fixture
def opted_in(bed: Bed, namespace: str) -> str:
    """A namespace in which the words of every system are read."""
    bed.kubectl("label", "namespace", namespace, "moiety.dev/dialects=all")
    return namespace


@pytest.mark.parametrize(
    "asked",
    [HALF, pytest.param({"limits": {"nvshare.com/gpu": "1"}}, marks=pytest.mark.slow)],
    ids=["annotation", "nvshare"],
)
def test_two_pods_that_each_allocate_four_fifths_of_a_gpu_compute_right(
    bed: Bed, sharing: Sharing, opted_in: str, asked: dict[str, Any]
) -> None:
    namespace = opted_in
    for name, seed in (("one", 1), ("two", 2)):
        bed.apply(asking(name, namespace, *work(103, LONG, seed=seed), **asked))
    sharing.until_all_gave_way(namespace, "one", "two")

    for name in ("one", "two"):
        sharing.finish(namespace, name)


@pytest.mark.parametrize(
    ("asked", "gpu", "limit"),
    [
        (
            {"annotations": {"moiety.dev/gpu": "0.3", "moiety.dev/memory-limit": "32Mi"}},
            0.3,
            "32Mi",
        ),
        ({"labels": {"sharedgpu/gpu_request": "0.4", "sharedgpu/gpu_limit": "1"}}, 0.4, None),
        ({"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "32"}}, None, "32Mi"),
        ({"annotations": {"gpu-fraction": "0.5"}}, 0.5, "50%"),
        ({"limits": {"cnvrg.io/metagpu": "25"}}, 0.25, "25%"),
        ({"limits": {"moiety.dev/gpu": "1"}}, 1.0, None),
        ({"limits": {"moiety.dev/gpu-percent": "30"}}, 0.3, None),
    ],
    ids=["moiety", "kubeshare", "hami", "kai", "metagpu", "extended resource", "percent"],
)
def test_a_pod_gets_the_share_that_it_asks_for(
    bed: Bed,
    sharing: Sharing,
    opted_in: str,
    asked: dict[str, Any],
    gpu: float | None,
    limit: str | None,
) -> None:
    namespace = opted_in
    bed.apply(asking("asks", namespace, *work(8, LONG), **asked))
    sharing.until_phase(namespace, "asks", "Running")

    (share,) = (row["share"] for row in sharing.shares().values())

    assert (share["gpu"] or None) == gpu
    if limit and limit.endswith("%"):
        (gpu_has,) = (int(each["capacity"]["memory"]["value"]) for each in sharing.devices())
        assert share["memory_limit_bytes"] == gpu_has * int(limit[:-1]) // 100
    elif limit:
        assert share["memory_limit_bytes"] == parse_bytes(limit)
    sharing.finish(namespace, "asks")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"annotations": {"moiety.dev/gpu": "1.7"}}, "more than one GPU"),
        (
            {"annotations": {"moiety.dev/memory": "1Ti"}},
            "1 TiB are to stay on a GPU",
        ),
        (
            {"annotations": {"moiety.dev/gpu": "0.5", "moiety.dev/memory-limit": "1Ti"}},
            "a limit of 1 TiB limits nothing",
        ),
        ({"annotations": {"moiety.dev/memory": "20GiB"}}, "did you mean Gi"),
        ({"limits": {"moiety.dev/gpux": "50"}}, "no node has a resource moiety.dev/gpux"),
        ({**HALF, "limits": {"nvshare.com/gpu": "1"}}, "asked for twice"),
        ({"annotations": {"moiety.dev/gpu": "0.5", "moiety.dev/model": "B999"}}, "B999"),
        ({"limits": {"moiety.dev/gpu": "50"}}, "50 % of one GPU is moiety.dev/gpu-percent: 50"),
        ({"limits": {"moiety.dev/gpu": "2"}}, "no node has more than 1"),
        ({"limits": {"moiety.dev/gpu-percent": "101"}}, "more than one GPU"),
        (
            {"annotations": {"moiety.dev/gpu": "0.1", "moiety.dev/gpus": "5"}},
            "asks for 5 GPUs of one node, and no node has more than 1",
        ),
    ],
    ids=[
        "1.7",
        "too much memory",
        "too high a limit",
        "unit",
        "unknown resource",
        "contradicting",
        "no such model",
        "units of before",
        "two whole GPUs",
        "101 percent",
        "parts of five GPUs",
    ],
)
def test_what_cannot_be_is_refused_when_it_is_applied(
    sharing: Sharing, opted_in: str, asked: dict[str, Any], said: str
) -> None:
    assert said in sharing.refusal(asking("odd", opted_in, "true", **asked))


def test_words_of_another_system_are_left_alone_where_nobody_opted_in(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "32"}
    theirs = asking("theirs", namespace, "true", limits=limits)
    theirs["spec"]["schedulerName"] = "hami-scheduler"
    bed.apply(theirs)
    ours = asking("ours", namespace, "true", **HALF)
    ours["spec"]["schedulerName"] = "own-scheduler"
    bed.apply(ours)

    spec = bed.get("pod", "theirs", "-n", namespace)["spec"]
    assert spec["containers"][0]["resources"]["limits"] == limits
    assert spec["schedulerName"] == "hami-scheduler"
    assert "resourceClaims" not in spec
    said = sharing.kubectl_moiety("explain", "-n", namespace, "theirs").stdout
    assert f"in the words of hami, which are not read in namespace {namespace}" in said
    spec = bed.get("pod", "ours", "-n", namespace)["spec"]
    assert spec["resourceClaims"]
    assert spec["schedulerName"] == "own-scheduler"
    bed.kubectl("label", "namespace", namespace, "moiety.dev/dialects=hamy")
    refused = sharing.refusal(asking("late", namespace, "true", limits=limits))
    assert "there is no dialect hamy" in refused


def test_containers_of_a_pod_that_ask_have_shares_of_their_own_or_one_together(
    bed: Bed, sharing: Sharing, opted_in: str
) -> None:
    namespace = opted_in
    nvshare, ours = {"limits": {"nvshare.com/gpu": "1"}}, {"moiety.dev/gpu": "0.2"}
    named = {**ours, "moiety.dev/container": "main,other"}
    each = asking("each", namespace, *work(8, LONG), **nvshare)
    together = asking("together", namespace, *work(8, LONG), annotations=named)
    for made in (each, together):
        (main,) = made["spec"]["containers"]
        made["spec"]["containers"].append({**main, "name": "other"})
    before = asking("before", namespace, *work(8, LONG), **nvshare)
    beside = asking("beside", namespace, *work(8, LONG), **nvshare)
    for made, more in ((before, {"command": work(8, 2)}), (beside, {"restartPolicy": "Always"})):
        (main,) = made["spec"]["containers"]
        made["spec"]["initContainers"] = [{**main, "name": "init", **more}]

    bed.apply(each, together, before, beside)

    for name in ("each", "together", "before", "beside"):
        sharing.until_phase(namespace, name, "Running")

    def shares() -> list[str]:
        labels = (row["labels"] for row in sharing.shares().values())
        return sorted(found["pod"] for found in labels if "pod" in found)

    # What runs beside the others has its own; what runs before one that asks the same has not.
    wanted = ["before", "beside", "beside", "each", "each", "together"]
    bed.until(lambda: shares() == wanted, "each has its share")
    bed.until(lambda: len(sharing.tenants()) == 7, "all that run are on the GPU")


@pytest.mark.slow
def test_a_claim_that_two_pods_name_is_one_share(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    bed.apply(claim("both", namespace, compute=30))
    for name, seed in (("one", 1), ("two", 2)):
        bed.apply(claimant(name, namespace, *work(16, LONG, seed=seed), claims="both"))
    for name in ("one", "two"):
        sharing.until_phase(namespace, name, "Running")

    bed.until(lambda: len(sharing.tenants()) == 2, "both are on the GPU")

    assert [row["share"]["gpu"] for row in sharing.shares().values()] == [0.3]
    for name in ("one", "two"):
        sharing.finish(namespace, name)


def test_whatever_waits_says_why_in_a_sentence(bed: Bed, sharing: Sharing, namespace: str) -> None:
    other = claim("other", namespace, compute=10)
    expression = 'device.attributes["gpu.moiety.dev"].productName == "B999"'
    (request,) = other["spec"]["devices"]["requests"]
    request["exactly"]["selectors"] = [{"cel": {"expression": expression}}]
    bed.apply(other, claim("large", namespace, compute=10, memory="1Ti"))
    more = claim("more", namespace, compute=10, config={"gpu": {"request": "0.5"}})
    bed.apply(claim("much", namespace, compute=170), more)
    expected = {
        "other": f"its selector takes none ({expression})",
        "large": "10 % and 1 TiB of one GPU are wanted, which no GPU has",
        "much": "170 % of one GPU are wanted, which no GPU has",
        "more": "its parameters ask for 50 % of the GPU, and it consumes 10 % of one",
        "none": "waits for claim none, which does not exist",
    }
    for name in expected:
        bed.apply(claimant(name, namespace, "true"))

    def said(name: str) -> str:
        return sharing.kubectl_moiety("explain", "-n", namespace, name).stdout

    for name, reason in expected.items():
        bed.until(lambda: reason in said(name), f"{name} says why")  # noqa: B023


def test_pods_without_a_wish_do_not_need_the_webhook(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    asks = asking("asks", namespace, *work(8, 2), **HALF)
    whole = asking("whole", namespace, "true", limits={"nvidia.com/gpu": "1"})
    bed.kill("webhook", signal.SIGKILL)

    bed.apply(pod("plain", "echo", "it runs", namespace=namespace), whole)
    refused = sharing.refusal(asks)
    sharing.start_webhook()
    bed.apply(asks)

    assert "pods.moiety.dev" in refused
    assert sharing.ended(namespace, "plain") == ("it runs\n", 0)
    assert sharing.ended(namespace, "asks") == (RIGHT, 0)
    left = bed.get("pod", "whole", "-n", namespace)["spec"]
    assert left["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert "resourceClaims" not in left
