"""A stand-in for the kubelet: finds plugins by their sockets and asks them as it does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

from grpc.aio import AioRpcError

from moiety.kube import rpc
from moiety.kube.dra import DRA, HEALTH, REGISTRATION
from moiety.kube.protocol import dra_health_v1alpha1_pb2 as health_pb
from moiety.kube.protocol import dra_v1_pb2 as dra_pb
from moiety.kube.protocol import pluginregistration_v1_pb2 as registration_pb

DEADLINE_S: Final = 120.0


class Kubelet:
    """The kubelet's folder, and what a test has it ask."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.endpoint = Path()

    @property
    def registry(self) -> Path:
        """Where drivers put the sockets by which they are found."""
        return self.folder / "plugins_registry"

    async def register(self, problem: Callable[[], str] = str) -> Any:
        """Find the DRA driver, as the kubelet's plugin watcher does; returns what it says.

        `problem` says why none can come any more.
        """
        until_s = time.monotonic() + DEADLINE_S
        while True:
            for path in sorted(self.registry.glob("*.sock")):
                try:
                    async with rpc.connected(path) as channel:
                        asked = registration_pb.InfoRequest()
                        found = await rpc.call(channel, REGISTRATION, "GetInfo", asked, 10)
                        self.endpoint = Path(found.endpoint)
                        told = registration_pb.RegistrationStatus(plugin_registered=True)
                        await rpc.call(channel, REGISTRATION, "NotifyRegistrationStatus", told, 10)
                    return found
                except AioRpcError:  # a socket of somebody who was killed
                    continue
            assert not problem(), problem()
            assert time.monotonic() < until_s, f"no driver came to {self.registry}"
            await asyncio.sleep(0.05)

    async def prepare(self, *claims: tuple[str, str, str]) -> dict[str, Any]:
        """NodePrepareResources of these (namespace, name, UID); the answers by UID."""
        request = dra_pb.NodePrepareResourcesRequest(claims=_claims(claims))
        async with rpc.connected(self.endpoint) as channel:
            done = await rpc.call(channel, DRA, "NodePrepareResources", request, DEADLINE_S)
        return dict(done.claims)

    async def unprepare(self, *claims: tuple[str, str, str]) -> dict[str, Any]:
        """NodeUnprepareResources of these; the answers by UID."""
        request = dra_pb.NodeUnprepareResourcesRequest(claims=_claims(claims))
        async with rpc.connected(self.endpoint) as channel:
            done = await rpc.call(channel, DRA, "NodeUnprepareResources", request, DEADLINE_S)
        return dict(done.claims)

    async def health(self) -> AsyncIterator[dict[str, Any]]:
        """What the driver says of its devices, by name, whenever it says so."""
        async with rpc.connected(self.endpoint) as channel:
            asked = health_pb.NodeWatchResourcesRequest()
            async for told in rpc.listen(channel, HEALTH, "NodeWatchResources", asked):
                yield {each.device.device_name: each for each in told.devices}


def _claims(claims: tuple[tuple[str, str, str], ...]) -> list[Any]:
    return [dra_pb.Claim(namespace=ns, name=name, uid=uid) for ns, name, uid in claims]
