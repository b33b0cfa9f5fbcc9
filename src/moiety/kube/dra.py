"""The DRA driver of a node: answers the kubelet when a pod with a claim starts, and when it ends.

A claim is prepared once, however often the kubelet asks; later answers come from the checkpoint,
also while the API server is away. Every refusal is a sentence, which the kubelet puts into the
pod's events.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final
from weakref import WeakValueDictionary

from moiety.kube.allocation_result import (
    AllocatedRequest,
    Unprepared,
    consumers,
    granted,
    whole_claims,
)
from moiety.kube.cdi_specs import PREFIX
from moiety.kube.checkpoint import CLAIM, Assignment, Slot
from moiety.kube.client import CLAIMS, PODS, ApiClient, ApiError, Object
from moiety.kube.inventory import Inventory
from moiety.kube.model.quantity import WHOLE
from moiety.kube.model.share_config import DRIVER
from moiety.kube.namespace_guard import NamespaceGuard
from moiety.kube.protocol import dra_health_v1alpha1_pb2 as health_pb
from moiety.kube.protocol import dra_v1_pb2 as dra_pb
from moiety.kube.protocol import pluginregistration_v1_pb2 as registration_pb
from moiety.kube.share_manager import NoRoom, ShareManager
from moiety.model.errors import MoietyError

DRA: Final = dra_pb.DESCRIPTOR.services_by_name["DRAPlugin"]
HEALTH: Final = health_pb.DESCRIPTOR.services_by_name["DRAResourceHealth"]
REGISTRATION: Final = registration_pb.DESCRIPTOR.services_by_name["Registration"]
SUPPORTED: Final = ("v1.DRAPlugin", "v1alpha1.DRAResourceHealth")
TELL_AGAIN_S: Final = 10.0
"""Health is sent again after this time, before the kubelet takes it for unknown."""
HEALTH_TIMEOUT_S: Final = 60


class DraDriver:
    """Prepares claims; implements DRAPlugin."""

    def __init__(
        self, node: str, client: ApiClient, shares: ShareManager, guard: NamespaceGuard, log: Any
    ) -> None:
        self.node = node
        self.client = client
        self.shares = shares
        self.guard = guard
        self.log = log
        self._busy: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Locks of claims that are being prepared or unprepared, each while a request has it."""

    async def node_prepare_resources(self, request: Any) -> Any:
        """Give each claim its shares; an error concerns only its own claim."""
        answers = await asyncio.gather(*(self._prepared(claim) for claim in request.claims))
        pairs = zip(request.claims, answers, strict=True)
        return dra_pb.NodePrepareResourcesResponse(claims={c.uid: answer for c, answer in pairs})

    async def node_unprepare_resources(self, request: Any) -> Any:
        """Take back the shares of claims; a claim without shares is no error."""
        answers = await asyncio.gather(*(self._unprepared(claim) for claim in request.claims))
        pairs = zip(request.claims, answers, strict=True)
        return dra_pb.NodeUnprepareResourcesResponse(claims={c.uid: answer for c, answer in pairs})

    async def _prepared(self, claim: Any) -> Any:
        async with self._alone(claim.uid):
            try:
                assignments = await self._prepare(claim.namespace, claim.name, claim.uid)
            except (MoietyError, OSError) as error:
                text = _sentence(error)
                self.log.warning("claim_refused", claim=_name(claim), uid=claim.uid, reason=text)
                return dra_pb.NodePrepareResourceResponse(error=text)
        return dra_pb.NodePrepareResourceResponse(
            devices=[
                dra_pb.Device(
                    request_names=[slot.request],
                    pool_name=self.node,
                    device_name=slot.device,
                    cdi_device_ids=[self.shares.specs.device(each.name)],
                    share_id=slot.share_id or None,
                )
                for each in assignments
                for slot in each.slots
            ]
        )

    async def _unprepared(self, claim: Any) -> Any:
        async with self._alone(claim.uid):
            names = [each.name for each in self.shares.ledger.checkpoint.of_claim(claim.uid)]
            try:
                await self.shares.take_back(names)
            except (MoietyError, OSError) as error:
                text = _sentence(error)
                self.log.warning("claim_not_unprepared", claim=_name(claim), reason=text)
                return dra_pb.NodeUnprepareResourceResponse(error=text)
        if names:
            self.log.info("claim_unprepared", claim=_name(claim), uid=claim.uid)
        return dra_pb.NodeUnprepareResourceResponse()

    def _alone(self, uid: str) -> asyncio.Lock:
        return self._busy.setdefault(uid, asyncio.Lock())

    async def _prepare(self, namespace: str, name: str, uid: str) -> list[Assignment]:
        known = self.shares.ledger.checkpoint.of_claim(uid)
        if known:
            await self.shares.make_sure(known)
            return known
        claim = await self.client.get(CLAIMS, name, namespace)
        if claim["metadata"]["uid"] != uid:
            raise Unprepared(
                f"claim {namespace}/{name} is another one by now: its UID is "
                f"{claim['metadata']['uid']}, and {uid} is asked for"
            )
        assignments = await self._decide(claim)
        await self.shares.give(assignments)
        for each in assignments:
            devices = [slot.device for slot in each.slots]
            self.log.info(
                "claim_prepared",
                claim=f"{namespace}/{name}",
                uid=uid,
                share=each.name,
                devices=devices,
                asked=str(each.share),
            )
        return assignments

    async def admit(self, claim: Object) -> None:
        """Raise MoietyError if a claim could not be prepared now; nothing is given."""
        if no := self.shares.ledger.check(await self._decide(claim)):
            raise NoRoom(no)

    async def _decide(self, claim: Object) -> list[Assignment]:
        """The shares of a claim; raises Unprepared, LimitRefusal and ApiError."""
        metadata = claim["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        found = granted(claim, self.node)
        who = consumers(claim)
        if not who:
            raise Unprepared(f"claim {namespace}/{name} is reserved for no pod")
        held = {each.key for each in self.shares.assignments.values()}
        await self.guard.check_claim(claim, [each.share for each in found], held)
        pod = await self._pod(namespace, who[0].name)
        if len(found) > 1 and pod is not None and (containers := whole_claims(pod, name)):
            names = ", ".join(each.request for each in found)
            raise Unprepared(
                f"container {containers[0]} uses claim {name} as a whole, which has a share for "
                f"each of its requests ({names})",
                "resources.claims[].request with one of these; for several GPUs, one request "
                "with a count",
            )
        return [
            self._assignment(claim, each, number if len(found) > 1 else None)
            for number, each in enumerate(found)
        ]

    async def _pod(self, namespace: str, name: str) -> Object | None:
        try:
            return await self.client.get(PODS, name, namespace)
        except ApiError as no:  # it was deleted meanwhile, or may not be read: the kubelet decides
            self.log.info("pod_unreadable", pod=f"{namespace}/{name}", problem=no.what)
            return None

    def _assignment(self, claim: Object, found: AllocatedRequest, number: int | None) -> Assignment:
        metadata = claim["metadata"]
        who = consumers(claim)
        slots = []
        for piece in found.pieces:
            gpu = self.shares.inventory.gpus.get(piece.device)
            if gpu is None:
                raise Unprepared(
                    f"{piece.device} is not a GPU of node {self.node}'s agent",
                    "moiety status on that node",
                )
            slots.append(
                Slot(
                    piece.device,
                    gpu.card.uuid,
                    (found.share.gpu or 0.0) * WHOLE,
                    found.share.memory_bytes,
                    piece.request,
                    piece.share_id,
                    piece.percent,
                    piece.memory_bytes,
                )
            )
        labels = {"namespace": metadata.get("namespace", ""), "claim": metadata["name"]}
        if len(who) == 1:
            labels["pod"] = who[0].name
        return Assignment(
            name=f"{PREFIX}{metadata['uid']}" + ("" if number is None else f"-{number}"),
            kind=CLAIM,
            key=metadata["uid"],
            slots=slots,
            share=found.share,
            request=found.request,
            namespace=metadata.get("namespace", ""),
            claim=metadata["name"],
            pods=[each.uid for each in who],
            labels=labels,
            at_s=time.time(),
        )


class Registration:
    """Identifies the driver to the kubelet; implements its Registration."""

    def __init__(self, endpoint: str, log: Any) -> None:
        self.endpoint = endpoint
        self.log = log
        self.registered = False
        self.problem = ""

    async def get_info(self, request: Any) -> Any:
        """The driver's name, its versions and its socket."""
        del request
        return registration_pb.PluginInfo(
            type="DRAPlugin",
            name=DRIVER,
            endpoint=self.endpoint,
            supported_versions=SUPPORTED,
        )

    async def notify_registration_status(self, request: Any) -> Any:
        """Note whether the kubelet accepted the driver."""
        self.registered = request.plugin_registered
        self.problem = request.error
        if request.plugin_registered:
            self.log.info("kubelet_registered", driver=DRIVER)
        else:
            self.log.error("kubelet_refused", problem=request.error)
        return registration_pb.RegistrationStatusResponse()


class Health:
    """Reports the health of the GPUs after each change; implements DRAResourceHealth."""

    def __init__(self, node: str, inventory: Inventory) -> None:
        self.node = node
        self.inventory = inventory
        self._told: set[asyncio.Event] = set()
        inventory.on_change.append(self._tell)

    def _tell(self) -> None:
        for waiting in self._told:
            waiting.set()

    async def node_watch_resources(self, request: Any) -> AsyncIterator[Any]:
        """All GPUs, at once and after each change."""
        del request
        changed = asyncio.Event()
        self._told.add(changed)
        try:
            while True:
                changed.clear()
                yield self._now()
                try:
                    await asyncio.wait_for(changed.wait(), TELL_AGAIN_S)
                except TimeoutError:
                    pass
        finally:
            self._told.discard(changed)

    def _now(self) -> Any:
        states = {False: health_pb.HealthStatus.HEALTHY, True: health_pb.HealthStatus.UNHEALTHY}
        return health_pb.NodeWatchResourcesResponse(
            devices=[
                health_pb.DeviceHealth(
                    device=health_pb.DeviceIdentifier(pool_name=self.node, device_name=gpu.device),
                    health=states[bool(gpu.trouble)],
                    last_updated_time=int(time.time()),
                    health_check_timeout_seconds=HEALTH_TIMEOUT_S,
                    message=gpu.trouble,
                )
                for gpu in self.inventory.gpus.values()
            ]
        )


def _name(claim: Any) -> str:
    return f"{claim.namespace}/{claim.name}"


def _sentence(error: MoietyError | OSError) -> str:
    hint = getattr(error, "hint", "")
    return f"{error}" + (f" (try: {hint})" if hint else "")
