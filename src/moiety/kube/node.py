"""The process of a node: the DRA driver, the device plugin and the tasks that keep them current.

It may be killed at any moment. Pods keep their shares, and the next process brings agent, files,
slices and registrations to the state of the checkpoint before it answers requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from moiety.agent.control import protocol
from moiety.agent.system.paths import find
from moiety.devices.driver import require_driver, require_shim
from moiety.devices.gpu_models import Card
from moiety.devices.native import is_simulated
from moiety.kube import access, resource_slices, units
from moiety.kube.agent_client import AgentClient
from moiety.kube.allocation_result import allocated_on
from moiety.kube.binding_checks import BindingChecks
from moiety.kube.cdi_specs import CdiSpecs, install
from moiety.kube.checkpoint import CLAIM, UNITS, AssignmentStore
from moiety.kube.client import CLAIMS, ApiClient, ApiError
from moiety.kube.device_accounting import DeviceAccounting, ServiceMode
from moiety.kube.device_plugin import FOLDER, KUBELET, PLUGIN, DevicePlugin
from moiety.kube.dra import DRA, HEALTH, REGISTRATION, DraDriver, Health, Registration
from moiety.kube.events import EventRecorder
from moiety.kube.growth import GrowthAnnouncer
from moiety.kube.inventory import Inventory
from moiety.kube.logs import open_log
from moiety.kube.model import names
from moiety.kube.model.quantity import WHOLE
from moiety.kube.model.share_config import DRIVER
from moiety.kube.namespace_guarantees import NamespaceGuarantees
from moiety.kube.namespace_guard import NamespaceGuard
from moiety.kube.options import DriverOptions
from moiety.kube.pod_reconciler import PodReconciler
from moiety.kube.podresources import held
from moiety.kube.pods import Pods
from moiety.kube.readiness import Readiness
from moiety.kube.rpc import Server
from moiety.kube.share_manager import ShareManager
from moiety.model.errors import AgentError, MoietyError

LISTEN_S: Final = 30.0
"""Longer than a request for events may wait in the agent."""
PUBLISH_S: Final = 30.0
"""Deleted slices are back after at most this time."""
SOCKETS_S: Final = 1.0
ORPHANS_S: Final = 60.0
AGAIN_S: Final = 1.0


class NodeDriver:
    """The process of one node, from its start to its last answer."""

    def __init__(self, options: DriverOptions, client: ApiClient, log: Any) -> None:
        """Read the checkpoint; raises CheckpointUnreadable, ModeTaken, and as `install`."""
        self.options = options
        self.client = client
        self.log = log
        self.line = AgentClient(find)
        self.inventory = Inventory(_cards(log), recovery_s=options.recovery_s)
        self.checkpoint = AssignmentStore(options.state_dir / "given.json")
        ledger = DeviceAccounting(self.checkpoint, options.mode)
        driver = require_driver(os.environ)
        parts = install(require_shim(), driver, is_simulated(), options.native)
        specs = CdiSpecs(options.cdi_dir, parts, hook=options.hooks)
        self.shares = ShareManager(ledger, self.line, specs, self.inventory, log)
        self.published = False
        self.registration: Registration | None = None
        self._servers: list[Server] = []
        self._agent_pid = 0
        self._stale = asyncio.Event()
        """Set while the published slices may be out of date."""
        self._suspects: dict[str, float] = {}
        self._wished = asyncio.Event()
        """Set when a pod has changed."""
        self.pods = Pods(client, options.name, lambda _: self._wished.set())
        self._named: tuple[int, dict[str, str]] = (0, {})
        """The pid of the agent that was told pods' names, and these names."""
        self._listener = AgentClient(find, timeout_s=LISTEN_S)
        cursor = options.state_dir / "told"
        self.notices = EventRecorder(client, self._listener, self.pods, options.name, cursor, log)
        system = client.access.namespace if options.is_in_pod else names.NAMESPACE
        self.guard = NamespaceGuard(client, system, options.mode.kinds)
        self.guarantees = NamespaceGuarantees(self.guard, self.line, log)
        self._publishing = asyncio.Lock()
        self._is_checking = options.binding_checks
        """Whether the scheduler asks before it binds pods; False if the cluster cannot."""
        growth = GrowthAnnouncer(client, options.name, ledger, self._publish, self._stale.set)
        self.owners = PodReconciler(
            self.shares, self.pods, client, self.notices, self.guard, growth, log
        )
        self.plugins: list[DevicePlugin] = []
        self._kubelet_inode = 0
        """The inode of the kubelet socket at which the plugins are registered."""

    def problems(self) -> list[str]:
        """Reasons why pods cannot get shares now."""
        found = []
        if not self._agent_pid:
            found.append("the agent does not answer")
        if self.options.mode is not ServiceMode.DRA and not self._kubelet_inode:
            found.append("the kubelet has not taken the device plugin")
        if self.options.mode is not ServiceMode.PLUGIN:
            if not self.published:
                found.append("the slices are not published")
            if self.registration is None or not self.registration.registered:
                why = self.registration.problem if self.registration else ""
                found.append(f"the kubelet has not taken the driver{': ' * bool(why)}{why}")
        return found

    async def run(self, ended: asyncio.Event) -> None:
        """Serve until `ended` is set; pods keep their shares."""
        readiness = None
        if self.options.listen:
            readiness = Readiness(self.options.listen, self.problems, self.log)
            await readiness.open()
        self.inventory.on_change.append(self._stale.set)
        self.shares.on_change.append(self._stale.set)
        stop = asyncio.create_task(ended.wait())
        try:
            if await self._first_look(stop):
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(each) for each in await self._serve()]
                    await stop
                    while left := [task for task in tasks if not task.done()]:
                        for task in left:
                            task.cancel()
                        await asyncio.wait(left, timeout=AGAIN_S)  # cancel again if a task goes on
        finally:
            stop.cancel()
            for server in self._servers:
                await server.stop()
            if readiness:
                readiness.close()
            await self.line.close()
            self._listener.abandon()
            self.log.info("ended", shares=len(self.shares.assignments))

    async def _first_look(self, stop: asyncio.Task[Any]) -> bool:
        """Wait for the agent, and restore the checkpoint's state; False if told to end."""
        said = False
        while not stop.done():
            try:
                await self._look()
                return True
            except MoietyError as error:
                if not said:
                    self.log.warning("agent_awaited", problem=error.what)
                said = True
                await asyncio.wait([stop], timeout=AGAIN_S)
        return False

    async def _serve(self) -> list[Any]:
        loops = [
            _forever(self._look, self.options.every_s, self.log),
            _forever(self._keep_sockets, SOCKETS_S, self.log),
            self._see_pods(),
            self._follow_pods(),
            self.notices.follow(),
        ]
        if self.options.mode is not ServiceMode.PLUGIN:
            await self._start_dra()
            loops += [self._keep_published(), _forever(self._sweep, ORPHANS_S, self.log)]
            if self.options.binding_checks:
                checks = BindingChecks(self.options.name, self.client, self.driver.admit, self.log)
                loops += [checks.follow(), checks.decide()]
        if self.options.mode is not ServiceMode.DRA:
            await self._start_plugins()
            loops.append(_forever(self._keep_registered, SOCKETS_S, self.log))
        self.log.info(
            "serving",
            node=self.options.name,
            mode=self.options.mode.value,
            gpus=len(self.inventory.gpus),
            shares=len(self.shares.assignments),
        )
        return loops

    async def _start_dra(self) -> None:
        name = self.options.name
        endpoint = self.options.kubelet_dir / "plugins" / DRIVER / "dra.sock"
        registry = self.options.kubelet_dir / "plugins_registry" / f"{DRIVER}-reg.sock"
        self.driver = DraDriver(name, self.client, self.shares, self.guard, self.log)
        self.registration = Registration(str(endpoint), self.log)
        health = Health(name, self.inventory)
        # The kubelet asks as soon as it sees the second socket, so it comes last.
        for server in (
            Server(endpoint, (DRA, self.driver), (HEALTH, health)),
            Server(registry, (REGISTRATION, self.registration)),
        ):
            await server.start()
            self._servers.append(server)

    async def _start_plugins(self) -> None:
        named = units.wanted_of(self.options.resources)
        for each in (*named, units.UnitName(units.RESOURCE)):
            plugin = DevicePlugin(each, named, WHOLE, self.shares, self.log)
            server = Server(self._plugins_dir / plugin.socket, (PLUGIN, plugin))
            await server.start()
            self._servers.append(server)
            self.plugins.append(plugin)

    @property
    def _plugins_dir(self) -> Path:
        return self.options.kubelet_dir / FOLDER

    async def _keep_registered(self) -> None:
        """Register with each kubelet once: a restarted kubelet has a new socket and no plugins."""
        try:
            inode = (self._plugins_dir / KUBELET).stat().st_ino
        except OSError:
            return  # no kubelet runs now
        # A kubelet that starts empties the folder: the sockets come first.
        if inode == self._kubelet_inode or not all(each.is_there for each in self._servers):
            return
        for plugin in self.plugins:
            await plugin.register(self._plugins_dir)
        self._kubelet_inode = inode

    async def _see_pods(self) -> None:
        """Bring shares to the state and wishes of their pods: when a pod changes, and regularly."""
        failed = ""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.options.every_s):
                    await self._wished.wait()
            self._wished.clear()
            try:
                await self._name_pods()
                await self.guarantees.tell(self._agent_pid)
                has_units = any(each.kind == UNITS for each in self.shares.assignments.values())
                await self.owners.see(await held(self.options.kubelet_dir) if has_units else None)
                failed = ""
            except (MoietyError, OSError) as error:
                if str(error) != failed:
                    self.log.warning("failed", what="see pods", problem=str(error))
                failed = str(error)

    async def _name_pods(self) -> None:
        """Tell the agent the names of pods: of a process it sees only the pod's UID."""
        known = self._agent_pid, self.pods.names()
        if known != self._named:
            await self.line.ask(protocol.NamePods(names=known[1]), protocol.Done)
            self._named = known

    async def _follow_pods(self) -> None:
        while True:
            try:
                await self.pods.follow()
            except ApiError as no:  # pods may not be read: shares then have no names and no wishes
                self.log.error("pods_unreadable", problem=no.what)
                await asyncio.sleep(PUBLISH_S)

    async def _look(self) -> None:
        """Read the state of agent and GPUs; a new agent gets the shares of pods."""
        status = await self.line.ask_status()
        if status.pid != self._agent_pid:
            self.inventory.saw(status.gpus)
            await self.shares.reconcile()
            self._agent_pid = status.pid
            self._wished.set()
            self.log.info("agent", pid=status.pid, gpus=len(status.gpus))
        if self.inventory.saw(status.gpus):
            for gpu in self.inventory.gpus.values():
                self.log.info("gpu", device=gpu.device, uuid=gpu.card.uuid, trouble=gpu.trouble)

    async def _keep_sockets(self) -> None:
        """Make the sockets again if they were removed together with the kubelet's folders."""
        for number, server in enumerate(self._servers):
            if not server.is_there:
                self.log.warning("socket_recreated", path=str(server.path))
                await server.stop()
                self._kubelet_inode = 0
                self._servers[number] = server.again()
                await self._servers[number].start()

    async def _keep_published(self) -> None:
        """Publish the slices, at once and after each change."""
        while True:
            self._stale.clear()
            wait_s = PUBLISH_S
            try:
                await self._publish()
                self.published = True
            except ApiError as no:
                wait_s = AGAIN_S if no.is_conflict else 5 * AGAIN_S
                self.log.warning("slices_not_published", problem=no.what)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):  # wait_for may swallow that it was cancelled
                    await self._stale.wait()

    async def _publish(self) -> None:
        """Bring the slices to the present state. Raises ApiError."""
        async with self._publishing:
            gpus = [self._offered(gpu) for gpu in self.inventory.gpus.values()]
            if await resource_slices.publish(self.client, self.options.name, gpus):
                self.log.info("slices_published", gpus=len(gpus))
                await self._see_conditions()

    async def _see_conditions(self) -> None:
        """Without binding conditions in the cluster, publish as without `binding_checks`."""
        if self._is_checking and not await resource_slices.keeps_conditions(
            self.client, self.options.name
        ):
            self._is_checking = False
            self.log.warning(
                "binding_checks_off", problem="the cluster has no DRADeviceBindingConditions"
            )

    def _offered(self, gpu: resource_slices.NodeGpu) -> resource_slices.NodeGpu:
        """A GPU as claims see it: taken where pods have units of it, or one pod has all of it.

        It has as much less as shares grew beyond what their claims consume.
        Beside a whole GPU the scheduler would still place a pod that wants memory only.
        """
        gpu = dataclasses.replace(gpu, is_checked=self._is_checking)
        booked = self.shares.ledger.booked(gpu.card.uuid)
        if UNITS in booked.kinds:
            return dataclasses.replace(gpu, taken=UNITS)
        if booked.is_whole:
            return dataclasses.replace(gpu, taken=resource_slices.ALL)
        return dataclasses.replace(
            gpu, grown_percent=booked.grown_percent, grown_bytes=booked.grown_bytes
        )

    async def _sweep(self) -> None:
        """Take back the shares of claims that are gone from here, if the kubelet did not."""
        assignments = [each for each in self.shares.assignments.values() if each.kind == CLAIM]
        for uid in self._suspects.keys() - {each.key for each in assignments}:
            del self._suspects[uid]
        for each in assignments:
            if not await self._is_gone(each.namespace, each.claim, each.key):
                self._suspects.pop(each.key, None)
                continue
            since_s = self._suspects.setdefault(each.key, time.monotonic())
            if time.monotonic() - since_s >= ORPHANS_S:  # the kubelet may still release it
                self.log.warning("claim_gone", claim=each.claim, uid=each.key)
                await self.shares.take_back([each.name])

    async def _is_gone(self, namespace: str, name: str, uid: str) -> bool:
        try:
            claim = await self.client.get(CLAIMS, name, namespace)
        except ApiError as no:
            return no.is_missing
        return claim["metadata"]["uid"] != uid or not allocated_on(claim, self.options.name)


def main(options: DriverOptions) -> None:
    """Serve this node until SIGTERM; raises MoietyError if that cannot begin."""
    asyncio.run(_main(options))


async def _main(options: DriverOptions) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    log = open_log(options.log_format)
    async with ApiClient(access.find(options.kubeconfig)) as client:
        await NodeDriver(options, client, log).run(ended)


async def _forever(do: Callable[[], Awaitable[None]], every_s: float, log: Any) -> None:
    """Call `do` regularly; a failure is logged, and tried again the next time."""
    failed = ""
    while True:
        await asyncio.sleep(every_s)
        try:
            await do()
            failed = ""
        except (MoietyError, OSError) as error:
            if str(error) != failed:
                level = log.warning if isinstance(error, AgentError) else log.error
                level("failed", what=do.__name__.strip("_"), problem=str(error))
            failed = str(error)


def _cards(log: Any) -> dict[str, Card]:
    """The GPUs' models and numbers by UUID; empty without NVML."""
    from moiety.devices.nvml import Nvml, NvmlUnavailable

    try:
        nvml = Nvml()
    except NvmlUnavailable as error:
        log.warning("gpu_properties_unknown", problem=str(error))
        return {}
    try:
        return {card.uuid: card for card in nvml.cards()}
    finally:
        nvml.close()
