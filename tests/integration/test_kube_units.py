"""Units of a node: preferred, given, taken back when they are given again, and never twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from grpc.aio import AioRpcError

from moiety.agent.system.cdi import KIND
from moiety.kube.units import RESOURCE, unit
from moiety.testing.kube_node import KubeNode
from tests.support.kube_story import TWO_GPUS, on_node

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


async def gpus_of(node: KubeNode) -> list[str]:
    async for units in node.kubelet.units(RESOURCE):
        return sorted({name.rpartition(".")[0] for name in units})
    raise AssertionError


def of(uuid: str, *numbers: int) -> list[str]:
    return [unit(uuid, number) for number in numbers]


def test_units_become_a_share_and_are_taken_back_when_they_are_given_again(
    tmp_path: Path, native: Path
) -> None:
    async def story(node: KubeNode) -> None:
        first, second = await gpus_of(node)
        every = of(first, *range(100)) + of(second, *range(100))
        some = await node.kubelet.prefer(RESOURCE, every, 50)
        (device,) = await node.kubelet.allocate(RESOURCE, some)
        kind, _, name = device.partition("=")
        assert kind == KIND
        assert set(node.specs()) == set(node.shares()) == {name}
        assert node.shares()[name]["share"]["gpu"] == 0.5
        with pytest.raises(AioRpcError, match="same number"):
            await node.kubelet.allocate(RESOURCE, of(first, 8, 9) + of(second, 8))
        (other,) = await node.kubelet.allocate(RESOURCE, some[:30])
        assert set(node.specs()) == set(node.shares()) == {other.partition("=")[2]}
        assert node.shares()[other.partition("=")[2]]["share"]["gpu"] == 0.3

    on_node(tmp_path, native, "plugin", story, gpus=TWO_GPUS)


def test_a_kubelet_that_was_restarted_is_told_again(tmp_path: Path, native: Path) -> None:
    async def story(node: KubeNode) -> None:
        (first, _) = await gpus_of(node)
        (device,) = await node.kubelet.allocate(RESOURCE, of(first, 0, 1))
        await node.kubelet.stop()
        await node.kubelet.start()
        await node.until(lambda: RESOURCE in node.kubelet.plugins, "the plugin has registered")
        assert len(await gpus_of(node)) == 2
        assert set(node.shares()) == {device.partition("=")[2]}

    on_node(tmp_path, native, "plugin", story, gpus=TWO_GPUS)


def test_claims_and_units_are_in_one_book(tmp_path: Path, native: Path) -> None:
    async def story(node: KubeNode) -> None:
        gpus = {name: each["attributes"]["uuid"]["string"] for name, each in node.devices().items()}
        claim = node.claim("train", {"gpu-0": 60})
        assert not (await node.prepare(claim)).error
        async for units in node.kubelet.units(RESOURCE):
            ill = {name for name, health in units.items() if health == "Unhealthy"}
            if ill == set(of(gpus["gpu-0"], *range(100))):
                break
        with pytest.raises(AioRpcError, match="60 % of it are given already, by claims"):
            await node.kubelet.allocate(RESOURCE, of(gpus["gpu-0"], *range(50)))
        await node.kubelet.allocate(RESOURCE, of(gpus["gpu-1"], *range(50)))
        await node.until(
            lambda: "taints" in node.devices()["gpu-1"], "claims are kept from the other GPU"
        )
        late = node.claim("late", {"gpu-1": 60})
        assert "by units" in (await node.prepare(late)).error
        assert await node.stop() == 0
        node.launch("--mode", "dra")
        assert node.process is not None
        code = await asyncio.to_thread(node.process.wait, 60)
        assert code != 0
        assert "--mode dra does not serve units" in node.log

    on_node(tmp_path, native, "both", story, gpus=TWO_GPUS)
