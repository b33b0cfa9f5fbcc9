"""The device plugin of a node: units of GPUs, for clusters or pods without claims.

A kubelet tells when it gives units to a container, never when they are free again. Units are free
if the kubelet gives them again, or if no pod has them any more (`take_back_unused`).
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any, Final

import grpc

from moiety.kube import rpc, units
from moiety.kube.cdi_specs import PREFIX
from moiety.kube.checkpoint import UNITS, Assignment, Slot
from moiety.kube.device_accounting import ServiceMode
from moiety.kube.model.quantity import WHOLE
from moiety.kube.protocol import deviceplugin_v1beta1_pb2 as plugin_pb
from moiety.kube.resource_slices import NodeGpu
from moiety.kube.share_manager import ShareManager
from moiety.model.errors import MoietyError
from moiety.model.share import Share

PLUGIN: Final = plugin_pb.DESCRIPTOR.services_by_name["DevicePlugin"]
REGISTRATION: Final = plugin_pb.DESCRIPTOR.services_by_name["Registration"]
VERSION: Final = "v1beta1"
FOLDER: Final = "device-plugins"
KUBELET: Final = "kubelet.sock"
TIMEOUT_S: Final = 10.0
UNUSED_S: Final = 60.0
"""How long given units may have no pod, because it is still starting."""


class DevicePlugin:
    """The kubelet's device plugin for one resource."""

    def __init__(
        self,
        named: units.UnitName,
        others: tuple[units.UnitName, ...],
        count: int,
        shares: ShareManager,
        log: Any,
    ) -> None:
        """`others` take a GPU that fits both; `count` is the number of units of a GPU."""
        self.named = named
        self.count = count
        self.shares = shares
        self.log = log
        self._others = others
        self._lock = asyncio.Lock()
        self._told: set[asyncio.Event] = set()
        shares.inventory.on_change.append(self.tell)
        shares.on_change.append(self.tell)

    @property
    def socket(self) -> str:
        """The name of its socket."""
        slug = self.named.resource.replace("/", "-").replace(".", "-")
        return f"moiety-{slug}.sock"

    @property
    def gpus(self) -> list[NodeGpu]:
        """The GPUs whose units this resource has."""
        found = units.divide(self._others, self.shares.inventory.gpus.values())
        return found.get(self.named.resource, [])

    def tell(self) -> None:
        """Wake all watchers, because the units have changed."""
        for waiting in self._told:
            waiting.set()

    async def get_device_plugin_options(self, request: Any) -> Any:
        """The optional calls that this plugin supports."""
        del request
        return plugin_pb.DevicePluginOptions(get_preferred_allocation_available=True)

    async def list_and_watch(self, request: Any) -> AsyncIterator[Any]:
        """All units, at once and after each change."""
        del request
        changed = asyncio.Event()
        self._told.add(changed)
        before = None
        try:
            while True:
                changed.clear()
                now = self._now()
                if now != before:
                    yield now
                before = now
                await changed.wait()
        finally:
            self._told.discard(changed)

    async def get_preferred_allocation(self, request: Any) -> Any:
        """Whole GPUs first, then the fragment that fits best."""
        answers = []
        gone: set[str] = set()
        for each in request.container_requests:
            free = [name for name in each.available_deviceIDs if name not in gone]
            must = list(each.must_include_deviceIDs)
            found = units.prefer(free, must, each.allocation_size, self.count)
            gone.update(found)
            answers.append(plugin_pb.ContainerPreferredAllocationResponse(deviceIDs=found))
        return plugin_pb.PreferredAllocationResponse(container_responses=answers)

    async def allocate(self, request: Any) -> Any:
        """Make the share of each container; a refusal fails the pod, whose status says why."""
        async with self._lock:
            try:
                assignments = [
                    self._assignment(list(each.devices_ids)) for each in request.container_requests
                ]
                await self._free(name for each in assignments for name in each.units)
                await self.shares.give(assignments)
            except (MoietyError, OSError) as error:
                self.log.warning("units_refused", resource=self.named.resource, reason=str(error))
                raise rpc.CallRefused(str(error), grpc.StatusCode.FAILED_PRECONDITION) from None
        for each in assignments:
            self.log.info(
                "units_allocated",
                resource=self.named.resource,
                units=len(each.units),
                share=each.name,
                devices=[slot.device for slot in each.slots],
            )
        return plugin_pb.AllocateResponse(
            container_responses=[
                plugin_pb.ContainerAllocateResponse(
                    cdi_devices=[plugin_pb.CDIDevice(name=self.shares.specs.device(each.name))]
                )
                for each in assignments
            ]
        )

    async def pre_start_container(self, request: Any) -> Any:
        """Do nothing: the kubelet is told not to call it."""
        del request
        return plugin_pb.PreStartContainerResponse()

    async def register(self, folder: Path) -> None:
        """Register with the kubelet; raises OSError if it refuses."""
        request = plugin_pb.RegisterRequest(
            version=VERSION,
            endpoint=self.socket,
            resource_name=self.named.resource,
            options=plugin_pb.DevicePluginOptions(get_preferred_allocation_available=True),
        )
        try:
            async with rpc.connected(folder / KUBELET) as channel:
                await rpc.call(channel, REGISTRATION, "Register", request, TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise OSError(f"the kubelet does not take {self.named.resource}: {error.details()}") \
                from None  # fmt: skip
        self.log.info("kubelet_registered", resource=self.named.resource)

    def _now(self) -> Any:
        found = []
        for gpu in self.gpus:
            health = "Unhealthy" if self._trouble(gpu) else "Healthy"
            node = gpu.card.numa_node
            topology = None
            if node is not None:
                topology = plugin_pb.TopologyInfo(nodes=[plugin_pb.NUMANode(ID=node)])
            found += [
                plugin_pb.Device(ID=name, health=health, topology=topology)
                for name in units.units_of(gpu, self.count)
            ]
        return plugin_pb.ListAndWatchResponse(devices=found)

    def _trouble(self, gpu: NodeGpu) -> str:
        if gpu.trouble:
            return gpu.trouble
        ledger = self.shares.ledger
        if ledger.mode is ServiceMode.BOTH and ledger.booked(gpu.card.uuid).kinds - {UNITS}:
            return "claims have a part of it"
        return ""

    def _assignment(self, names: list[str]) -> Assignment:
        uuids, part = units.parts(names, self.count)
        known = {gpu.card.uuid: gpu for gpu in self.gpus}
        lost = [uuid for uuid in uuids if uuid not in known]
        if lost:
            raise units.BadUnits(f"{lost[0]} is no GPU of {self.named.resource} on this node")
        digest = hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:20]
        return Assignment(
            name=f"{PREFIX}u-{digest}",
            kind=UNITS,
            key=self.named.resource,
            slots=[Slot(known[uuid].device, uuid, part * WHOLE) for uuid in uuids],
            share=Share(gpu=part),
            units=sorted(names),
            at_s=time.time(),
        )

    async def _free(self, names: Any) -> None:
        """Take back old shares of these units: the kubelet gives only free units."""
        wanted = set(names)
        over = [each.name for each in self.shares.assignments.values() if wanted & set(each.units)]
        if over:
            await self.shares.take_back(over)


async def take_back_unused(
    shares: ShareManager, used: Collection[str], running: Collection[str], log: Any
) -> None:
    """Take back the units that no pod has.

    `used` are the units that the kubelet says pods have, and `running` the UIDs of the pods of this
    node. A kubelet that has just started, and has not heard of its pods, says that none has any.
    """
    now_s = time.time()
    over = [
        each.name
        for each in shares.assignments.values()
        if each.kind == UNITS
        and not set(each.units) & set(used)
        and not set(each.pods) & set(running)
        and not 0 <= now_s - each.at_s < UNUSED_S
    ]
    if over:
        log.info("units_reclaimed", shares=over)
        await shares.take_back(over)
