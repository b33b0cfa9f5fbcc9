from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from moiety.devices.gpu_models import Card
from moiety.kube import cluster_gpus, templates
from moiety.kube.cluster_gpus import Fleet, GpuKind
from moiety.kube.dialects.request import GpuRequest, RequestRefused
from moiety.kube.model import share_config
from moiety.kube.resource_slices import NodeGpu, slices
from moiety.model.share import Share

GIB = 1 << 30
A100 = GpuKind(78 * GIB, "NVIDIA A100-SXM4-80GB")
T4 = GpuKind(14 * GIB, "Tesla T4")
ONE, BOTH = Fleet(frozenset({A100})), Fleet(frozenset({A100, T4}))


def spec(ask: GpuRequest, cluster: Fleet = ONE) -> dict[str, Any]:
    found: dict[str, Any] = templates.template(ask, cluster)["spec"]["spec"]["devices"]
    return found


def test_an_ask_becomes_a_request_with_what_it_consumes_and_its_share() -> None:
    share = Share(gpu=0.5, memory_bytes=20 * GIB)
    devices = spec(GpuRequest(share))
    (request,) = devices["requests"]
    assert request["exactly"]["deviceClassName"] == "gpu.moiety.dev"
    assert request["exactly"]["capacity"] == {"requests": {"compute": "50", "memory": "20Gi"}}
    (config,) = devices["config"]
    assert share_config.decode(config["opaque"]["parameters"]) == share
    assert "constraints" not in devices


def test_the_same_ask_has_the_same_name_and_another_one_another() -> None:
    def name(ask: GpuRequest) -> str:
        found: str = templates.template(ask, ONE)["metadata"]["name"]
        return found

    assert name(GpuRequest(Share(gpu=0.5))) == name(GpuRequest(Share(gpu=0.5)))
    assert name(GpuRequest(Share(gpu=0.5))) != name(GpuRequest(Share(gpu=0.6)))


def test_compute_is_never_less_than_is_asked_for() -> None:
    asked = (None, 0.5, 0.29, 0.333, 0.001, 1.0)
    found = [templates.percent(Share(gpu=gpu)) for gpu in asked]
    assert found == [0, 50, 29, 34, 1, 100]


def test_several_gpus_are_different_ones() -> None:
    devices = spec(GpuRequest(Share(gpu=1.0), gpus=2))
    assert devices["requests"][0]["exactly"]["count"] == 2
    assert devices["constraints"] == [
        {"requests": ["gpu"], "distinctAttribute": "gpu.moiety.dev/uuid"}
    ]


def test_a_part_of_the_memory_is_bytes_where_all_gpus_are_alike() -> None:
    (request,) = spec(GpuRequest(Share(gpu=0.5), memory_part=Fraction(1, 2)))["requests"]
    assert request["exactly"]["capacity"]["requests"]["memory"] == "39Gi"


def test_a_part_of_the_memory_is_an_alternative_for_each_size_where_they_differ() -> None:
    devices = spec(GpuRequest(Share(gpu=0.5), memory_part=Fraction(1, 2)), BOTH)
    (request,) = devices["requests"]
    memory = [each["capacity"]["requests"]["memory"] for each in request["firstAvailable"]]
    assert memory == ["7Gi", "39Gi"]
    assert [each["requests"] for each in devices["config"]] == [["gpu/size-0"], ["gpu/size-1"]]
    (selector,) = request["firstAvailable"][1]["selectors"]
    gpu = 'device.attributes["gpu.moiety.dev"].memoryBytes'
    assert selector["cel"]["expression"].startswith(f"has({gpu}) ? {gpu} == {78 << 30} : ")


def test_a_model_is_selected_by_what_nodes_call_it() -> None:
    (request,) = spec(GpuRequest(Share(gpu=0.5), models=("a100",)), BOTH)["requests"]
    (selector,) = request["exactly"]["selectors"]
    assert '["NVIDIA A100-SXM4-80GB"]' in selector["cel"]["expression"]


@pytest.mark.parametrize(
    ("ask", "cluster", "said"),
    [
        (GpuRequest(Share(memory_bytes=80 * GIB)), BOTH, "the largest has 78 GiB"),
        (
            GpuRequest(Share(memory_bytes=20 * GIB), models=("T4",)),
            BOTH,
            "of that model has 14 GiB",
        ),
        (
            GpuRequest(Share(gpu=0.5), models=("H200",)),
            BOTH,
            "no node has a GPU of model H200; there are",
        ),
        (GpuRequest(memory_part=Fraction(1, 2)), Fleet(), "no GPU is known to the cluster yet"),
    ],
)
def test_what_no_gpu_can_give_is_refused(ask: GpuRequest, cluster: Fleet, said: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        templates.template(ask, cluster)
    assert said in caught.value.what


def test_the_node_with_the_most_gpus_that_fit_counts_and_only_its_newest_slices() -> None:
    def slice_of(node: str, generation: int, *models: GpuKind) -> dict[str, Any]:
        devices = [
            {
                "attributes": {"productName": {"string": each.model}},
                "capacity": {"memory": {"value": str(each.memory_bytes)}},
            }
            for each in models
        ]
        pool = {"name": node, "generation": generation}
        return {"spec": {"driver": "gpu.moiety.dev", "pool": pool, "devices": devices}}

    found = cluster_gpus.of(
        [
            slice_of("a", 1, T4, T4, T4, T4),
            slice_of("a", 2, T4, T4),
            slice_of("a", 2, T4),
            slice_of("b", 7, A100, A100),
        ]
    )
    assert found.most(GpuRequest()) == 3
    assert found.most(GpuRequest(models=("A100",))) == 2
    assert found.most(GpuRequest(Share(memory_bytes=20 * GIB))) == 2
    assert Fleet().most(GpuRequest()) == 0


def test_where_no_gpu_is_known_yet_bytes_and_models_are_taken_at_their_word() -> None:
    ask = GpuRequest(Share(memory_bytes=80 * GIB), models=("H200",))
    (request,) = spec(ask, Fleet())["requests"]
    assert "h200" in request["exactly"]["selectors"][0]["cel"]["expression"]


def test_a_gpu_whose_shares_grew_is_as_large_as_before() -> None:
    card = Card(0, "GPU-0", "Tesla T4", 16 << 30)
    (found,) = slices("a", [NodeGpu(card, 14 << 30, grown_bytes=6 << 30)])
    assert found["spec"]["devices"][0]["capacity"]["memory"]["value"] == str(8 << 30)
    assert cluster_gpus.of([found]).kinds == frozenset({T4})
    cluster_gpus.of([found]).check(GpuRequest(Share(memory_bytes=12 << 30)))


def test_slices_of_our_driver_say_what_there_is() -> None:
    device = {
        "attributes": {"productName": {"string": "Tesla T4"}},
        "capacity": {"memory": {"value": "14Gi"}},
    }
    ours = {"spec": {"driver": "gpu.moiety.dev", "devices": [device, {"name": "odd"}]}}
    theirs = {"spec": {"driver": "gpu.nvidia.com", "devices": [device]}}
    assert cluster_gpus.of([ours, theirs, {}]) == Fleet(frozenset({T4}), frozenset({(T4,)}))
    assert cluster_gpus.of([theirs]) == Fleet()


@pytest.mark.parametrize(
    ("ask", "memory", "expected"),
    [
        (GpuRequest(Share(gpu=0.5)), 0, 50),
        (GpuRequest(Share(gpu=0.333)), 0, 34),
        (GpuRequest(Share(gpu=1.0), gpus=2), 0, 200),
        (GpuRequest(Share(gpu=0.75), gpus=2), 0, 150),
        (GpuRequest(Share(gpu=0.1), memory_part=Fraction(1, 4)), 0, 25),
        (GpuRequest(Share(memory_bytes=20 * GIB)), 80 * GIB, 25),
        (GpuRequest(Share(gpu=0.5, memory_bytes=20 * GIB)), 80 * GIB, 50),
    ],
)
def test_units_are_the_larger_part(ask: GpuRequest, memory: int, expected: int) -> None:
    assert templates.units(ask, memory) == expected


@pytest.mark.parametrize(
    "ask",
    [
        GpuRequest(Share(memory_bytes=GIB)),
        GpuRequest(Share(gpu=0.5), models=("A100",)),
        GpuRequest(Share(gpu=0.5), gpus=2),
    ],
)
def test_what_units_cannot_say_is_refused(ask: GpuRequest) -> None:
    with pytest.raises(RequestRefused):
        templates.units(ask)
