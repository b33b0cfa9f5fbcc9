"""A stand-in for the kubelet: finds plugins by their sockets and asks them as it does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from grpc.aio import AioRpcError

from moiety.kube import podresources, rpc
from moiety.kube.device_plugin import FOLDER, KUBELET, PLUGIN
from moiety.kube.device_plugin import REGISTRATION as PLUGINS
from moiety.kube.dra import DRA, HEALTH, REGISTRATION
from moiety.kube.protocol import deviceplugin_v1beta1_pb2 as plugin_pb
from moiety.kube.protocol import dra_health_v1alpha1_pb2 as health_pb
from moiety.kube.protocol import dra_v1_pb2 as dra_pb
from moiety.kube.protocol import pluginregistration_v1_pb2 as registration_pb
from moiety.kube.protocol import podresources_v1_pb2 as pods_pb

DEADLINE_S: Final = 120.0


class Kubelet:
    """The kubelet's folder, and the requests that a test lets it send."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.endpoint = Path()
        self.plugins: dict[str, Any] = {}
        """The requests of registered device plugins, by resource."""
        self.pods: list[Any] = []
        """The pods that the podresources socket lists."""
        self._servers: list[rpc.Server] = []

    async def start(self) -> None:
        """Serve a kubelet's sockets, and empty its folder of plugins, as a kubelet that starts."""
        plugins = self.folder / FOLDER
        plugins.mkdir(parents=True, exist_ok=True)
        for path in plugins.iterdir():
            path.unlink()
        self.plugins.clear()
        pods = self.folder / podresources.SOCKET
        self._servers = [
            rpc.Server(plugins / KUBELET, (PLUGINS, self)),
            rpc.Server(pods, (podresources.LISTER, self)),
        ]
        for server in self._servers:
            await server.start()

    async def stop(self) -> None:
        """Stop serving."""
        for server in self._servers:
            await server.stop()
        self._servers.clear()

    async def register(self, request: Any) -> Any:
        """Register a device plugin."""
        self.plugins[request.resource_name] = request
        return plugin_pb.Empty()

    async def list(self, request: Any) -> Any:
        """List the devices of pods."""
        del request
        return pods_pb.ListPodResourcesResponse(pod_resources=self.pods)

    async def get(self, request: Any) -> Any:
        """Refused: moiety never calls it."""
        raise rpc.CallRefused(f"{request} is not played")

    get_allocatable_resources = get

    def has(self, pod: str, container: str, resource: str, ids: Sequence[str]) -> None:
        """Let the podresources socket report that a container has these units."""
        devices = pods_pb.ContainerDevices(resource_name=resource, device_ids=ids)
        inner = pods_pb.ContainerResources(name=container, devices=[devices])
        self.pods.append(pods_pb.PodResources(name=pod, namespace="team", containers=[inner]))

    async def ask_plugin(self, resource: str, method: str, request: Any) -> Any:
        """Send one request to a device plugin; raises AioRpcError."""
        endpoint = self.folder / FOLDER / self.plugins[resource].endpoint
        async with rpc.connected(endpoint) as channel:
            return await rpc.call(channel, PLUGIN, method, request, DEADLINE_S)

    async def allocate(self, resource: str, *containers: Sequence[str]) -> Sequence[str]:
        """The CDI devices of containers that get these units."""
        parts = [plugin_pb.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        request = plugin_pb.AllocateRequest(container_requests=parts)
        done = await self.ask_plugin(resource, "Allocate", request)
        return [device.name for each in done.container_responses for device in each.cdi_devices]

    async def prefer(
        self, resource: str, available: Sequence[str], size: int, must: Sequence[str] = ()
    ) -> Sequence[str]:
        """The units that the plugin prefers."""
        one = plugin_pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        request = plugin_pb.PreferredAllocationRequest(container_requests=[one])
        done = await self.ask_plugin(resource, "GetPreferredAllocation", request)
        found: Sequence[str] = list(done.container_responses[0].deviceIDs)
        return found

    async def units(self, resource: str) -> AsyncIterator[dict[str, str]]:
        """The health of all units by name, at each report of the plugin."""
        endpoint = self.folder / FOLDER / self.plugins[resource].endpoint
        async with rpc.connected(endpoint) as channel:
            async for told in rpc.listen(channel, PLUGIN, "ListAndWatch", plugin_pb.Empty()):
                yield {device.ID: device.health for device in told.devices}

    @property
    def registry(self) -> Path:
        """The folder for the registration sockets of drivers."""
        return self.folder / "plugins_registry"

    async def find_driver(self, problem: Callable[[], str] = str) -> Any:
        """Find the DRA driver, as the kubelet's plugin watcher does; returns its answer.

        `problem` returns why no driver can appear any more; empty: one still can.
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
                except AioRpcError:  # the socket of a killed process
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
        """The health of the driver's devices by name, at each report."""
        async with rpc.connected(self.endpoint) as channel:
            asked = health_pb.NodeWatchResourcesRequest()
            async for told in rpc.listen(channel, HEALTH, "NodeWatchResources", asked):
                yield {each.device.device_name: each for each in told.devices}


def _claims(claims: tuple[tuple[str, str, str], ...]) -> list[Any]:
    return [dra_pb.Claim(namespace=ns, name=name, uid=uid) for ns, name, uid in claims]
