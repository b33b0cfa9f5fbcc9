"""The devices of each pod, as the kubelet reports them at its podresources socket."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from moiety.kube import rpc
from moiety.kube.protocol import podresources_v1_pb2 as pods_pb

LISTER: Final = pods_pb.DESCRIPTOR.services_by_name["PodResourcesLister"]
SOCKET: Final = Path("pod-resources") / "kubelet.sock"
TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """The devices of one resource that one container has."""

    namespace: str
    pod: str
    container: str
    resource: str
    devices: frozenset[str]


async def held(kubelet_dir: Path) -> list[HeldDevices]:
    """The device plugins' devices of every container of this node; raises OSError."""
    try:
        async with rpc.connected(kubelet_dir / SOCKET) as channel:
            request = pods_pb.ListPodResourcesRequest()
            found = await rpc.call(channel, LISTER, "List", request, TIMEOUT_S)
    except grpc.aio.AioRpcError as error:
        raise OSError(f"the kubelet does not say which pod has what: {error.details()}") from None
    return [
        HeldDevices(
            pod.namespace, pod.name, container.name, each.resource_name, frozenset(each.device_ids)
        )
        for pod in found.pod_resources
        for container in pod.containers
        for each in container.devices
    ]
