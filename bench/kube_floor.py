"""A DRA driver that does nothing: what a claim costs a pod's start whoever it is from.

`python bench/kube_floor.py NODE` serves on a node until it is ended; claims name its device.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from moiety.kube.dra import DRA, REGISTRATION
from moiety.kube.protocol import dra_v1_pb2 as dra_pb
from moiety.kube.protocol import pluginregistration_v1_pb2 as registration_pb
from moiety.kube.rpc import Server
from tests.kube.objects import device_claim, device_class, device_slice

NAME: Final = "floor.moiety.test"
DEVICE: Final = "nothing"
KUBELET: Final = Path("/var/lib/kubelet")
MOST: Final = 1000
"""Claims that the device can have at a time."""


class Driver:
    """Says that all is done; implements DRAPlugin and the kubelet's Registration."""

    def __init__(self, node: str, endpoint: Path) -> None:
        self.node = node
        self.endpoint = endpoint

    async def node_prepare_resources(self, request: Any) -> Any:
        """The device of each claim, of which the container runtime is told nothing."""
        device = dra_pb.Device(request_names=["gpu"], pool_name=self.node, device_name=DEVICE)
        answer = dra_pb.NodePrepareResourceResponse(devices=[device])
        return dra_pb.NodePrepareResourcesResponse(claims={c.uid: answer for c in request.claims})

    async def node_unprepare_resources(self, request: Any) -> Any:
        """There is nothing to take back."""
        answer = dra_pb.NodeUnprepareResourceResponse()
        return dra_pb.NodeUnprepareResourcesResponse(claims={c.uid: answer for c in request.claims})

    async def get_info(self, request: Any) -> Any:
        """Who we are."""
        del request
        return registration_pb.PluginInfo(
            type="DRAPlugin",
            name=NAME,
            endpoint=str(self.endpoint),
            supported_versions=["v1.DRAPlugin"],
        )

    async def notify_registration_status(self, request: Any) -> Any:
        """Whether the kubelet took us."""
        if not request.plugin_registered:
            print(f"the kubelet does not take it: {request.error}", file=sys.stderr)
        return registration_pb.RegistrationStatusResponse()


def objects(node: str) -> list[dict[str, Any]]:
    """Its slice and its class."""
    policy = {"default": "1", "validRange": {"min": "0", "step": "1"}}
    shared = {
        "name": DEVICE,
        "allowMultipleAllocations": True,
        "capacity": {"part": {"value": str(MOST), "requestPolicy": policy}},
    }
    return [device_slice("floor", NAME, node, [shared]), device_class(NAME)]


def claim(name: str, namespace: str) -> dict[str, Any]:
    """A part of its device."""
    return device_claim(name, namespace, NAME, {"part": "1"})


async def serve(node: str) -> None:
    """Until the process is ended."""
    endpoint = KUBELET / "plugins" / NAME / "dra.sock"
    driver = Driver(node, endpoint)
    registry = KUBELET / "plugins_registry" / f"{NAME}-reg.sock"
    # The kubelet asks as soon as it sees the second. They serve as long as somebody has them.
    servers = [Server(endpoint, (DRA, driver)), Server(registry, (REGISTRATION, driver))]
    for server in servers:
        await server.start()
    print(f"serving as {os.getpid()}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
