"""Slices: what a GPU is to the scheduler, and a pool that is always of one generation."""

from __future__ import annotations

import asyncio
from typing import Any

from moiety.devices.gpu_models import Card, architecture_of
from moiety.kube.client import NODES, SLICES, ApiClient
from moiety.kube.resource_slices import (
    DEVICES_MOST,
    NodeGpu,
    device,
    keeps_conditions,
    publish,
    slice_name,
    slices,
    version,
)
from moiety.testing.apiserver import ApiServer

CARD = Card(
    0,
    "GPU-2eb5cb60-89d9-48f6-9dde-247a6fd3ae64",
    "NVIDIA H100 80GB HBM3",
    80 << 30,
    brand="Nvidia",
    architecture="Hopper",
    capability=(9, 0),
    driver="550.54.15",
    cuda=(12, 4),
    bus_id="0000:65:00.0",
    minor=0,
)


def gpus(count: int, **more: Any) -> list[NodeGpu]:
    return [NodeGpu(Card(n, f"GPU-{n}", "T4", 16 << 30), 15 << 30, **more) for n in range(count)]


def test_a_device_has_the_names_that_nvidias_driver_has_and_capacities_that_are_consumed() -> None:
    found = device(NodeGpu(CARD, 78 << 30))
    assert found["name"] == "gpu-0"
    assert found["allowMultipleAllocations"] is True
    assert found["attributes"] == {
        "type": {"string": "gpu"},
        "uuid": {"string": CARD.uuid},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": "Hopper"},
        "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": "550.54.15"},
        "cudaDriverVersion": {"version": "12.4.0"},
        "pcieBusID": {"string": "0000:65:00.0"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:65:00.0"},
        "index": {"int": 0},
        "minor": {"int": 0},
        "memoryBytes": {"int": 78 << 30},
    }
    compute = found["capacity"]["compute"]
    assert compute["value"] == compute["requestPolicy"]["default"] == "100"
    assert compute["requestPolicy"]["validRange"] == {"min": "0", "max": "100", "step": "1"}
    assert found["capacity"]["memory"]["value"] == str(78 << 30)
    assert "taints" not in found


def test_a_gpu_in_trouble_is_tainted_and_one_whose_units_pods_have_too() -> None:
    (ill,) = gpus(1, trouble="it has fallen off the bus")
    assert device(ill)["taints"][0]["key"] == "gpu.moiety.dev/unhealthy"
    (taken,) = gpus(1, taken="units")
    assert device(taken)["taints"] == [
        {"key": "gpu.moiety.dev/taken", "value": "units", "effect": "NoSchedule"}
    ]


def test_versions_are_three_numbers() -> None:
    given = ["550.54.15", "535.0", "12.4", "560", "0550.04.015", "", "r550"]
    wanted = ["550.54.15", "535.0.0", "12.4.0", "560.0.0", "550.4.15", "", ""]
    assert [version(text) for text in given] == wanted


def test_an_architecture_is_known_by_its_number_or_by_what_it_computes() -> None:
    assert [architecture_of(9, None), architecture_of(None, (8, 9))] == ["Hopper", "Ada Lovelace"]
    assert [architecture_of(99, (8, 6)), architecture_of(None, None)] == ["Ampere", ""]


def test_many_gpus_are_several_slices_of_one_pool() -> None:
    found = slices("n", gpus(DEVICES_MOST + 1))
    assert [len(each["spec"]["devices"]) for each in found] == [DEVICES_MOST, 1]
    assert {each["spec"]["pool"]["resourceSliceCount"] for each in found} == {2}
    assert slices("n", [])[0]["spec"]["devices"] == []


def test_slices_of_different_nodes_have_different_names_however_long_these_are() -> None:
    first, second = "n" * 240 + "a", "n" * 240 + "b"
    assert slice_name(first, 0) != slice_name(second, 0)
    assert len(slice_name(first, 0)) <= 253


def test_what_is_published_stays_until_it_is_not_so_and_then_has_a_new_generation() -> None:
    async def story() -> None:
        async with ApiServer() as server, ApiClient(server.access) as client:
            server.put(NODES, {"metadata": {"name": "n"}})
            other = slices("other", gpus(1))[0]
            server.put(SLICES, other)

            def generations() -> list[int]:
                mine = [e["spec"] for e in server.all(SLICES) if e["spec"]["nodeName"] == "n"]
                return [each["pool"]["generation"] for each in mine]

            assert await publish(client, "n", gpus(DEVICES_MOST + 2))
            assert generations() == [1, 1]
            assert not await publish(client, "n", gpus(DEVICES_MOST + 2))
            assert await publish(client, "n", gpus(2, trouble="lost"))
            assert generations() == [2]
            (mine,) = [e for e in server.all(SLICES) if e["spec"]["nodeName"] == "n"]
            for taint in [t for d in mine["spec"]["devices"] for t in d["taints"]]:
                taint["timeAdded"] = "2026-01-01T00:00:00Z"  # as a server does
            server.put(SLICES, mine)
            assert not await publish(client, "n", gpus(2, trouble="lost"))
            server.remove(SLICES, mine["metadata"]["name"])
            assert await publish(client, "n", gpus(2))
            assert generations() == [1]
            assert len(server.all(SLICES)) == 2

    asyncio.run(story())


def test_what_shares_grew_is_no_longer_offered_and_a_whole_gpu_does_not_fit() -> None:
    found = device(NodeGpu(CARD, 78 << 30, grown_percent=29.5, grown_bytes=8 << 30))["capacity"]
    compute = found["compute"]
    assert compute["value"] == "70"
    # The server takes no maximum above the capacity; who asks for nothing still asks for it all.
    assert compute["requestPolicy"]["default"] == "100"
    assert compute["requestPolicy"]["validRange"] == {"min": "0", "step": "1"}
    assert found["memory"]["value"] == str(70 << 30)
    least = device(NodeGpu(CARD, 78 << 30, grown_percent=100, grown_bytes=80 << 30))["capacity"]
    assert (least["compute"]["value"], least["memory"]["value"]) == ("0", "0")
    # One step would not be within the capacity, and the server refuses that.
    assert least["compute"]["requestPolicy"]["validRange"] == {"min": "0"}


def test_a_checked_device_has_conditions_and_a_cluster_that_drops_them_is_noticed() -> None:
    checked = gpus(2, is_checked=True)
    assert device(checked[0])["bindingConditions"] == ["gpu.moiety.dev/admitted"]
    assert device(checked[0])["bindingFailureConditions"] == ["gpu.moiety.dev/refused"]
    assert "bindingConditions" not in device(gpus(1)[0])

    async def story() -> None:
        async with ApiServer() as api, ApiClient(api.access) as client:
            api.put(NODES, {"metadata": {"name": "a"}})
            assert await publish(client, "a", checked)
            assert await keeps_conditions(client, "a")
            (found,) = api.all(SLICES)
            for each in found["spec"]["devices"]:  # as an API server without the feature
                del each["bindingConditions"], each["bindingFailureConditions"]
            api.put(SLICES, found)
            assert not await keeps_conditions(client, "a")

    asyncio.run(story())
