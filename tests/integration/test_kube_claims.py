"""Claims on a node: prepared once, enforced, written down, and found again by the next."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moiety.agent.system.cdi import KIND
from moiety.kube.client import CLAIMS, SLICES
from moiety.testing.kube_node import KubeNode
from moiety.testing.node import kill
from tests.support.kube_story import TWO_GPUS, on_node

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_a_claim_becomes_a_share_of_its_gpu_and_a_file_for_the_runtime(
    tmp_path: Path, native: Path
) -> None:
    async def story(node: KubeNode) -> None:
        node.allow("priority: high")
        claim = node.claim(
            "train",
            {"gpu-1": 30},
            memory="16Mi",
            config={
                "apiVersion": "resource.moiety.dev/v1alpha1",
                "kind": "ShareConfig",
                "gpu": {"limit": "0.5"},
                "memory": {"limit": "64Mi"},
                "priority": "high",
            },
        )
        first = await node.prepare(claim)
        again = await node.prepare(claim)
        name = f"k8s-{claim['metadata']['uid']}"
        assert first == again
        (device,) = first.devices
        assert (device.pool_name, device.device_name) == ("node-a", "gpu-1")
        assert list(device.request_names) == ["gpu"]
        assert list(device.cdi_device_ids) == [f"{KIND}={name}"]
        assert device.share_id == "00000000-0000-4000-8000-000000000000"
        row = node.shares()[name]
        assert (row["share"]["gpu"], row["share"]["gpu_limit"]) == (0.3, 0.5)
        assert row["share"]["memory_bytes"] == 16 << 20
        assert row["share"]["memory_limit_bytes"] == 64 << 20
        assert row["share"]["priority"] == 2
        gpu = node.devices()["gpu-1"]["attributes"]["uuid"]["string"]
        assert row["gpus"] == [gpu]
        edits = node.specs()[name]
        assert f"CUDA_VISIBLE_DEVICES={gpu}" in edits["env"]
        assert "/opt/moiety/socket" in [mount["containerPath"] for mount in edits["mounts"]]
        assert not (await node.unprepare(claim)).error
        assert not (await node.unprepare(claim)).error
        assert (node.shares(), node.specs(), node.written_down()) == ({}, {}, set())

    on_node(tmp_path, native, "dra", story, gpus=TWO_GPUS)


def test_two_requests_at_once_prepare_a_claim_once(tmp_path: Path, native: Path) -> None:
    async def story(node: KubeNode) -> None:
        claim = node.claim("train", {"gpu-0": 60})
        key, uid = node.key(claim), claim["metadata"]["uid"]
        answers = await asyncio.gather(*(node.kubelet.prepare(key, key) for _ in range(4)))
        assert {answer[uid].error for answer in answers} == {""}
        assert node.log.count("claim_prepared") == 1
        assert set(node.shares()) == node.written_down() == {f"k8s-{uid}"}

    on_node(tmp_path, native, "dra", story, gpus=TWO_GPUS)


def test_what_is_wrong_with_a_claim_is_said_and_leaves_nothing_behind(
    tmp_path: Path, native: Path
) -> None:
    async def story(node: KubeNode) -> None:
        config = {"apiVersion": "resource.moiety.dev/v1alpha1", "kind": "ShareConfig"}
        more = node.claim("more", {"gpu-0": 20}, config={**config, "gpu": {"request": "0.5"}})
        assert "consumes 20 %" in (await node.prepare(more)).error
        odd = node.claim("odd", {"gpu-0": 20}, config={**config, "colour": "red"})
        assert "colour" in (await node.prepare(odd)).error
        nowhere = node.claim("nowhere", {"gpu-7": 20})
        assert "gpu-7 is not a GPU" in (await node.prepare(nowhere)).error
        half = node.claim("half", {"gpu-0": 60})
        namespace, name, _ = node.key(half)
        other = (await node.kubelet.prepare((namespace, name, "another")))["another"]
        assert "is another one by now" in other.error
        absent = (await node.kubelet.prepare((namespace, "absent", "u")))["u"]
        assert "not found" in absent.error
        assert not (await node.prepare(half)).error
        rest = node.claim("rest", {"gpu-0": 50})
        assert "60 % of it are given already, by claims" in (await node.prepare(rest)).error
        assert node.written_down() == {f"k8s-{half['metadata']['uid']}"}
        assert set(node.shares()) == set(node.specs()) == node.written_down()

    on_node(tmp_path, native, "dra", story, gpus=TWO_GPUS)


def test_every_request_of_a_claim_is_a_share_of_its_own(tmp_path: Path, native: Path) -> None:
    async def story(node: KubeNode) -> None:
        claim = node.claim(
            "two", requests={"big": {"gpu-0": 70, "gpu-1": 70}, "small": {"gpu-0": 30}}
        )
        answer = await node.prepare(claim)
        uid = claim["metadata"]["uid"]
        by_request = {tuple(d.request_names): list(d.cdi_device_ids) for d in answer.devices}
        assert by_request == {
            ("big",): [f"{KIND}=k8s-{uid}-0"],
            ("small",): [f"{KIND}=k8s-{uid}-1"],
        }
        assert len(answer.devices) == 3
        assert len(node.shares()[f"k8s-{uid}-0"]["gpus"]) == 2
        assert node.shares()[f"k8s-{uid}-1"]["share"]["gpu"] == 0.3

    on_node(tmp_path, native, "dra", story, gpus=TWO_GPUS)


def test_prepared_claims_outlive_driver_agent_and_api_server(tmp_path: Path, native: Path) -> None:
    async def story(node: KubeNode) -> None:
        claim = node.claim("train", {"gpu-0": 50})
        gone = node.claim("gone", {"gpu-1": 50})
        first = await node.prepare(claim)
        assert not (await node.prepare(gone)).error
        name = f"k8s-{claim['metadata']['uid']}"
        generation = node.api.all(SLICES)[0]["spec"]["pool"]["generation"]
        await node.stop(signal.SIGKILL)
        (node.cdi / f"moiety-{name}.json").unlink()
        (node.cdi / "moiety-k8s-orphan.json").write_text('{"devices": []}')
        assert node.machine.agent is not None
        kill(node.machine.agent)
        for each in node.api.all(SLICES):
            node.api.remove(SLICES, each["metadata"]["name"])
        await node.start()
        assert set(node.specs()) == node.written_down() == set(node.shares())
        assert not (node.cdi / "moiety-k8s-orphan.json").exists()
        assert node.api.all(SLICES)[0]["spec"]["pool"]["generation"] >= generation
        await node.api.stop()
        assert await node.prepare(claim) == first
        assert not (await node.unprepare(gone)).error
        assert node.written_down() == {name}
        await node.api.start()
        assert node.api.get(CLAIMS, "train", "team") is not None
        assert await node.stop() == 0
        assert node.written_down() == {name}
        assert set(node.shares()) == {name}

    on_node(tmp_path, native, "dra", story, gpus=TWO_GPUS)


FAULT = (
    "import ctypes, sys; driver = ctypes.CDLL(sys.argv[1]); assert not driver.cuInit(0);"
    "assert not driver.simgpu_fault(1, 48, 0)"
)
"""GPU 1 reports memory errors that it could not correct"""


def test_a_gpu_with_a_serious_error_stays_tainted_over_driver_and_agent(
    tmp_path: Path, native: Path
) -> None:
    async def story(node: KubeNode) -> None:
        command = [sys.executable, "-c", FAULT, str(native / "simgpu" / "libcuda.so.1")]

        def ill() -> list[str]:
            return [name for name, gpu in node.devices().items() if gpu.get("taints")]

        def is_told() -> bool:  # by an agent that may not listen yet
            if not (told := ill()):
                subprocess.run(command, env=node.machine.env, check=True)
            return told == ["gpu-1"]

        async def publish_anew() -> None:
            for name in [each["metadata"]["name"] for each in node.api.all(SLICES)]:
                node.api.remove(SLICES, name)
            await node.start()
            await node.until(lambda: ill() == ["gpu-1"], "the new slices say so")

        await node.until(is_told, "the slices say so")
        await node.stop(signal.SIGKILL)
        await publish_anew()
        await node.stop(signal.SIGKILL)
        assert node.machine.agent is not None
        kill(node.machine.agent)
        await publish_anew()

    on_node(tmp_path, native, "dra", story, gpus=TWO_GPUS)
