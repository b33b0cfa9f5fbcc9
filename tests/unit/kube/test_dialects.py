from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.kube.dialects import resolve, table
from moiety.kube.dialects.request import RequestRefused, WebhookConfig
from moiety.model.share import Priority, Share

DOCS = Path(__file__).resolve().parents[3] / "docs"
CONFIG = table.CONFIG


def limited(name: str, limits: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "train", "resources": {"limits": limits}, **more}


def pod(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    labels: dict[str, str] | None = None,
    **annotations: str,
) -> dict[str, Any]:
    notes = {f"moiety.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    spec: dict[str, Any] = {"containers": list(containers) or [limited("main", {})]}
    if init:
        spec["initContainers"] = list(init)
    return {"metadata": {"annotations": notes, "labels": labels or {}}, "spec": spec}


def refused(found: dict[str, Any], told: WebhookConfig = CONFIG) -> str:
    with pytest.raises(RequestRefused) as caught:
        resolve.read(found, told)
    assert "\n" not in caught.value.what
    return caught.value.what


@pytest.mark.parametrize("row", table.ROWS, ids=lambda row: " ".join(row.written))
def test_each_row_of_the_page_is_what_the_code_understands(row: table.Example) -> None:
    page = (DOCS / "kubernetes-dialects.md").read_text()
    said = "<br>".join(f"`{each}`" for each in row.written)
    assert f"| {row.system} | {said} | {row.means} |" in page.splitlines()


def test_the_page_has_no_other_rows() -> None:
    assert table.markdown() in (DOCS / "kubernetes-dialects.md").read_text()


def test_a_pod_that_asks_for_nothing_is_left_alone() -> None:
    assert resolve.read(pod(), CONFIG) is None
    assert resolve.read({}, CONFIG) is None
    assert resolve.read(pod(limited("main", {"cpu": "2", "nvidia.com/gpu": "1"})), CONFIG) is None


def test_whole_gpus_are_shared_where_the_cluster_says_so() -> None:
    asks = resolve.read(
        pod(limited("main", {"nvidia.com/gpu": "2"})),
        WebhookConfig(spellings=("moiety", "hami"), whole_gpus=True),
    )
    assert asks is not None
    assert asks.by_container["main"].share == Share(gpu=1.0)
    assert asks.by_container["main"].gpus == 2


OTHERS = {
    "nvshare": pod(limited("main", {"nvshare.com/gpu": "1"})),
    "kubeshare": pod(labels={"sharedgpu/gpu_limit": "0.5"}),
    "hami": pod(limited("main", {"nvidia.com/gpumem": "30"})),
    "kai": {**pod(), "metadata": {"annotations": {"gpu-fraction": "0.5"}}},
    "metagpu": pod(limited("main", {"cnvrg.io/metagpu": "1"})),
}


@pytest.mark.parametrize("spelling", OTHERS)
def test_words_of_another_system_are_read_only_where_somebody_opted_in(spelling: str) -> None:
    asked = OTHERS[spelling]
    assert resolve.read(asked, WebhookConfig()) is None
    assert resolve.unread(asked, WebhookConfig()) == [spelling]
    opted_in = WebhookConfig(spellings=("moiety", spelling))
    assert resolve.read(asked, opted_in) is not None
    assert resolve.unread(asked, opted_in) == []


def test_all_that_annotations_say_is_read() -> None:
    asks = resolve.read(
        pod(gpu="0.5", gpu_limit="800m", memory="1Gi", memory_limit="2Gi", priority="low"), CONFIG
    )
    assert asks is not None
    assert asks.by_container["main"].share == Share(
        gpu=0.5,
        gpu_limit=0.8,
        memory_bytes=1 << 30,
        memory_limit_bytes=2 << 30,
        priority=Priority.LOW,
    )


def test_an_annotation_means_the_first_container_or_the_one_that_it_names() -> None:
    two = (limited("main", {}), limited("proxy", {}))

    def who(**notes: str) -> list[str]:
        asks = resolve.read(pod(*two, gpu="0.5", **cast("Any", notes)), CONFIG)
        assert asks is not None
        return list(asks.by_container)

    assert who() == ["main"]
    assert who(container="proxy") == ["proxy"]
    assert who(container="proxy, main") == ["main", "proxy"]
    asked = pod(*two, gpu="0.5")
    asked["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] = "proxy"
    asks = resolve.read(asked, CONFIG)
    assert asks is not None
    assert list(asks.by_container) == ["proxy"]


def test_containers_that_an_annotation_names_have_one_share_between_them() -> None:
    asks = resolve.read(pod(limited("a", {}), limited("b", {}), gpu="0.5", container="a,b"), CONFIG)
    assert asks is not None
    assert asks.together == {"a", "b"}


def test_two_containers_that_each_ask_have_a_share_each() -> None:
    asks = resolve.read(
        pod(limited("a", {"nvshare.com/gpu": "1"}), limited("b", {"nvshare.com/gpu": "1"})), CONFIG
    )
    assert asks is not None
    assert list(asks.by_container) == ["a", "b"]
    assert asks.together == frozenset()


def test_an_init_container_that_asks_for_the_same_uses_the_share_before() -> None:
    limits = {"cnvrg.io/metagpu": "30"}
    asks = resolve.read(pod(limited("main", limits), init=(limited("load", limits),)), CONFIG)
    assert asks is not None
    assert asks.together == {"load", "main"}


def test_a_sidecar_has_a_share_of_its_own() -> None:
    limits = {"cnvrg.io/metagpu": "30"}
    sidecar = limited("side", limits, restartPolicy="Always")
    asks = resolve.read(pod(limited("main", limits), init=(sidecar,)), CONFIG)
    assert asks is not None
    assert list(asks.by_container) == ["side", "main"]
    assert asks.together == frozenset()


def test_an_init_container_that_asks_for_something_else_has_a_share_of_its_own() -> None:
    main = limited("main", {"cnvrg.io/metagpu": "30"})
    init = limited("load", {"cnvrg.io/metagpu": "10"})
    asks = resolve.read(pod(main, init=(init,)), CONFIG)
    assert asks is not None
    assert asks.together == frozenset()
    assert asks.by_container["load"] != asks.by_container["main"]


def test_dialects_that_say_the_same_are_one_wish() -> None:
    asks = resolve.read(pod(limited("main", {"nvshare.com/gpu": "1"}), gpu="0.1"), CONFIG)
    assert asks is not None
    assert asks.by_container["main"].share == Share(gpu=0.1)
    assert asks.resources == {"nvshare.com/gpu"}
    assert asks.spellings == ("moiety", "nvshare")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (pod(limited("main", {"nvshare.com/gpu": "1"}), gpu="0.5"), "asked for twice"),
        (
            pod(limited("a", {}), limited("b", {"nvshare.com/gpu": "1"}), gpu="0.1"),
            "for different containers",
        ),
        (pod(limited("main", {"nvidia.com/gpu": "1"}), gpu="0.5"), "asks for nvidia.com/gpu: 1"),
        (pod(limited("main", {"moiety.dev/gpu": "1"}), gpu="0.5"), "asks for moiety.dev/gpu: 1"),
        (pod(gpu="0"), "above 0"),
        (pod(gpu="-0.5"), "above 0"),
        (pod(gpu="half"), "is not a quantity"),
        (pod(gpu=""), "is empty"),
        (pod(gpu="0.5", gpu_limit="0.3"), "cannot be guaranteed"),
        (pod(memory="2Gi", memory_limit="1Gi"), "cannot be kept"),
        (pod(gpu="0.5", latency="yes"), "neither"),
        (pod(gpu="0.5", priority="urgent"), "there is no priority"),
        (pod(gpu="0.5", gpus="0"), "not from 1 to 16"),
        (pod(gpu="0.5", gpus="99"), "not from 1 to 16"),
        (pod(gpu="0.5", container="nobody"), "names 'nobody'"),
        (pod(gpu="0.5", container=","), "is empty"),
        (pod(gpu="0.5", gpu_limt="1"), "did you mean moiety.dev/gpu-limit?"),
        (pod(limited("main", {"moiety.dev/gpu": "0.5"})), "is not a whole number"),
        (pod(limited("main", {"nvshare.com/memory": "1"})), "no resource nvshare.com/memory"),
        (pod(limited("main", {"nvidia.com/gpumem": "3Q"})), "does not know"),
        (
            pod(limited("main", {"nvidia.com/gpumem": "30", "nvidia.com/gpumem-percentage": "5"})),
            "both say how much memory",
        ),
        (pod(labels={"sharedgpu/gpu_limit": "0.5", "sharedgpu/gpu": "1"}), "has no sharedgpu/gpu"),
        (pod(labels={"sharedgpu/gpu_request": "0.5"}), "is missing"),
        (
            pod(labels={"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "0.4"}),
            "at most the limit",
        ),
        (pod(labels={"sharedgpu/gpu_limit": "1.5"}), "the same whole number"),
        (pod(labels={"sharedgpu/gpu_limit": "1", "sharedgpu/priority": "101"}), "from 0 to 100"),
        (
            pod(limited("main", {"cnvrg.io/metagpu": "1", "cnvrg.io/metagpu-a100": "1"})),
            "one of them",
        ),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_with_the_reason(asked: dict[str, Any], said: str) -> None:
    assert said in refused(asked)


def test_fractions_and_whole_gpus_do_not_go_together() -> None:
    asked = pod(limited("main", {"nvidia.com/gpu": "1"}))
    asked["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    assert "asks for whole GPUs" in refused(asked)


def test_a_request_that_is_not_the_limit_is_refused() -> None:
    asked = pod(limited("main", {"nvshare.com/gpu": "1"}))
    asked["spec"]["containers"][0]["resources"]["requests"] = {"nvshare.com/gpu": "0"}
    assert "have to be the same" in refused(asked)


TEXTS = st.sampled_from(["", "0", "1", "0.5", "1.7", "-1", "20Gi", "true", "low", "main", "x,y"])


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "moiety.dev/gpu",
                "moiety.dev/memory",
                "moiety.dev/gpu-limit",
                "moiety.dev/template",
                "moiety.dev/container",
                "moiety.dev/gpus",
                "gpu-fraction",
                "gpu-memory",
                "gpu-fraction-num-devices",
                "sharedgpu/gpu_limit",
                "sharedgpu/gpu_request",
                "sharedgpu/gpu_mem",
            ]
        ),
        TEXTS,
    ),
    st.dictionaries(
        st.sampled_from(
            [
                "nvidia.com/gpu",
                "nvidia.com/gpumem",
                "nvidia.com/gpucores",
                "nvshare.com/gpu",
                "cnvrg.io/metagpu",
                "moiety.dev/gpu",
            ]
        ),
        TEXTS,
    ),
)
def test_any_pod_is_understood_or_refused(notes: dict[str, str], limits: dict[str, str]) -> None:
    asked = pod(limited("main", limits))
    asked["metadata"]["annotations"] = notes
    try:
        asks = resolve.read(asked, CONFIG)
    except RequestRefused as no:
        assert no.what  # noqa: PT017 (either is right)
    else:
        assert asks is None or list(asks.by_container) == ["main"]


@pytest.mark.parametrize(
    "asks",
    [
        pod(limited("main", {"nvidia.com/gpu": "1e9", "nvidia.com/gpumem": "1"})),
        pod(limited("main", {"cnvrg.io/metagpu": "100e9"})),
        pod(labels={"sharedgpu/gpu_limit": "1000000000", "sharedgpu/gpu_request": "0"}),
        {
            "metadata": {"annotations": {"gpu-memory": "1", "gpu-fraction-num-devices": "1e9"}},
            "spec": {"containers": [limited("main", {})]},
        },
    ],
    ids=["hami", "metagpu", "kubeshare", "kai"],
)
def test_more_gpus_than_a_container_may_have_are_refused_in_every_dialect(
    asks: dict[str, Any],
) -> None:
    assert "asks for 1000000000 GPUs" in refused(asks)
