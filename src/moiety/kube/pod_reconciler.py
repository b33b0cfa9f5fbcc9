"""Brings shares to the state and wishes of their pods: allowed pods, names, size.

A share is made before these are known: units before their pod, a claim before pods that use it
later. A running pod may also wish for another size (moiety.dev/resize).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from moiety.kube import resize
from moiety.kube.allocation_result import consumers
from moiety.kube.checkpoint import CLAIM, Assignment
from moiety.kube.client import CLAIMS, ApiClient, ApiError
from moiety.kube.device_plugin import take_back_unused
from moiety.kube.events import EventRecorder
from moiety.kube.growth import GrowthAnnouncer
from moiety.kube.model import names, share_config
from moiety.kube.model.quantity import WHOLE
from moiety.kube.namespace_guard import NamespaceGuard
from moiety.kube.namespace_limits import LimitRefusal
from moiety.kube.podresources import HeldDevices
from moiety.kube.pods import Pod, Pods
from moiety.kube.share_manager import ShareManager
from moiety.model.errors import AgentSilent, AgentStopping, MoietyError, NoAgent
from moiety.model.share import Priority, Share

TEXT_MOST: Final = 500
AWAY: Final = (NoAgent, AgentSilent, AgentStopping)
"""Errors after which nothing is decided: the agent did not answer."""


class PodReconciler:
    """Reconciles all shares of one node."""

    def __init__(
        self,
        shares: ShareManager,
        pods: Pods,
        client: ApiClient,
        notices: EventRecorder,
        guard: NamespaceGuard,
        growth: GrowthAnnouncer,
        log: Any,
    ) -> None:
        self.shares = shares
        self.pods = pods
        self._client = client
        self._notices = notices
        self._guard = guard
        self._growth = growth
        self._log = log

    async def see(self, held: Sequence[HeldDevices] | None = None) -> None:
        """Reconcile every share once; `held`: the units of each pod, if the kubelet told."""
        for assignment in list(self.shares.assignments.values()):
            if assignment.kind == CLAIM:
                await self._see_claim(assignment)
            elif held is not None:
                await self._see_units(assignment, held)
        if held is not None and self.pods.known:
            used = {device for each in held for device in each.devices}
            await take_back_unused(self.shares, used, self.pods.running(), self._log)

    async def _see_claim(self, assignment: Assignment) -> None:
        using = [
            pod
            for pod in self.pods.by_uid.values()
            if pod.namespace == assignment.namespace and assignment.claim in pod.claims
        ]
        if any(pod.uid not in assignment.pods for pod in using):
            assignment = await self._joined(assignment, using) or assignment
        mine = [pod for pod in using if pod.uid in assignment.pods]
        if not mine:
            return
        containers = {
            c for p in mine for c in p.containers_of(assignment.claim, assignment.request)
        }
        labels = dict(assignment.labels)
        if len(mine) == 1:
            labels["pod"] = mine[0].name
        else:
            labels.pop("pod", None)
        if len(containers) == 1:
            (labels["container"],) = containers
        await self._settle(assignment, mine, assignment.share, labels, assignment.pods)

    async def _joined(self, assignment: Assignment, using: Sequence[Pod]) -> Assignment | None:
        """Let in the pods for which the claim is reserved, and no pod that only names it."""
        try:
            claim = await self._client.get(CLAIMS, assignment.claim, assignment.namespace)
        except ApiError:
            return None
        if claim["metadata"]["uid"] != assignment.key:
            return None
        reserved = {each.uid for each in consumers(claim)}
        pods = sorted(reserved & {*assignment.pods, *(pod.uid for pod in using)})
        if not pods or pods == sorted(assignment.pods):
            return None
        changed = msgspec.structs.replace(assignment, pods=pods)
        await self._change(changed)
        return self.shares.assignments.get(assignment.name)

    async def _see_units(self, assignment: Assignment, held: Sequence[HeldDevices]) -> None:
        own = set(assignment.units)
        found = next((each for each in held if own & each.devices), None)
        if found is None:
            return
        pod = self.pods.named(found.namespace, found.pod)
        if pod is None:
            return
        labels = {"namespace": found.namespace, "pod": found.pod, "container": found.container}
        share = assignment.share
        if not assignment.pods:  # seen for the first time: what it asked for beside units counts
            allowed = await self._allowed(
                assignment, pod, await self._asked(assignment, pod, found.container)
            )
            if allowed is None:
                return
            share = allowed
        await self._settle(assignment, [pod], share, labels, [pod.uid])

    async def _asked(self, assignment: Assignment, pod: Pod, container: str) -> Share:
        text = pod.notes.get(names.ASKED)
        if not text:
            return assignment.share
        try:
            document = msgspec.json.decode(text).get(container)
            asked = share_config.decode(document) if document else Share()
            part = assignment.share.gpu or 0.0
            return dataclasses.replace(asked, gpu=part, gpu_limit=max(asked.gpu_limit, part))
        except (MoietyError, msgspec.MsgspecError, AttributeError, TypeError) as error:
            note = f"{names.ASKED} makes no sense: {error}"
            await self._notices.tell(pod, "Refused", note[:TEXT_MOST], warning=True)
            return assignment.share

    async def _allowed(self, assignment: Assignment, pod: Pod, share: Share) -> Share | None:
        """The share of units that a pod's namespace may have: it, or an equal part of the rest.

        The kubelet gives units before it says to which pod, so they are no longer refused here.
        None: the rules cannot be read now.
        """
        try:
            await self._guard.check_units(pod.namespace, pod.uid, assignment, share)
        except LimitRefusal as no:
            note = f"{no}; it has no guarantee, no class and no priority"
            await self._notices.tell(pod, "Refused", note[:TEXT_MOST], warning=True)
            return dataclasses.replace(
                share, gpu=None, memory_bytes=0, priority=Priority.LOW, latency=False
            )
        except ApiError as no:
            self._log.warning("limits_unreadable", problem=no.what)
            return None
        return share

    async def _settle(
        self,
        assignment: Assignment,
        mine: Sequence[Pod],
        share: Share,
        labels: dict[str, str],
        pods: list[str],
    ) -> None:
        """Change a share to this state and to one pod's wish; a refusal is written to that pod."""
        wishes = {pod.uid: wish for pod in mine if (wish := pod.notes.get(names.RESIZE))}
        answered = {
            uid: wish
            for uid, wish in wishes.items()
            if wish == assignment.asked.get(uid, assignment.asked.get(names.RESIZE))
        }
        # One wish at a time: the answer to this one triggers the next look.
        pod = next((pod for pod in mine if pod.uid in wishes.keys() - answered.keys()), None)
        asked = {**answered, pod.uid: wishes[pod.uid]} if pod else answered
        known = msgspec.structs.replace(
            assignment,
            share=share,
            labels=labels,
            pods=pods,
            asked=asked,
            slots=_slots(assignment, share),
        )
        if pod:
            await self._resize(known, pod, wishes[pod.uid], labels.get("container", ""))
        elif known != assignment:
            await self._change(known)

    async def _resize(self, assignment: Assignment, pod: Pod, wish: str, container: str) -> None:
        try:
            share = resize.wanted({names.RESIZE: wish}, container, assignment.share)
            await self._guard.check_resize(assignment, share)
            wished = msgspec.structs.replace(
                assignment, share=share, slots=_slots(assignment, share)
            )
            async with self._growth.announced(wished):
                await self.shares.change(wished)
        except (MoietyError, OSError) as error:
            if isinstance(error, ApiError) and error.is_away:
                self._log.warning("limits_unreadable", problem=error.what)
                return  # the next look asks again
            if isinstance(error, AWAY):
                self._log.warning("share_not_set", share=assignment.name, problem=str(error))
                return  # likewise: the agent has refused nothing
            why = f"refused: {error}"[:TEXT_MOST]
            self._log.warning("resize_refused", pod=f"{pod.namespace}/{pod.name}", reason=why)
            if not await self._change(assignment):  # it is answered, all the same
                return
            await self._notices.tell(pod, "ResizeRefused", f"{wish.strip()}: {why}", warning=True)
            return
        self._log.info("resized", pod=f"{pod.namespace}/{pod.name}", share=str(share))
        note = f"{wish.strip()}: its share is now {share}"
        await self._notices.tell(pod, "Resized", note, warning=False)

    async def _change(self, assignment: Assignment) -> bool:
        """Change a share; False, and a line in the log, if that failed."""
        try:
            await self.shares.change(assignment)
        except (MoietyError, OSError) as error:
            self._log.warning("share_not_set", share=assignment.name, problem=str(error))
            return False
        return True


def _slots(assignment: Assignment, share: Share) -> list[Any]:
    """The slots of a share of another size."""
    percent = (share.gpu or 0.0) * WHOLE
    return [
        msgspec.structs.replace(slot, percent=percent, memory_bytes=share.memory_bytes)
        for slot in assignment.slots
    ]
