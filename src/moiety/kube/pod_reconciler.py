"""Brings shares to what their pods are and wish: who may use them, what they are called, how large.

A share is made before anybody knows all of that: units without their pod, a claim without those
that come to it later. And a running pod may wish for another size (moiety.dev/resize).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from moiety.kube import resize
from moiety.kube.allocation_result import consumers
from moiety.kube.checkpoint import CLAIM, Given
from moiety.kube.client import CLAIMS, PODS, ApiError, Client
from moiety.kube.device_plugin import take_back_unused
from moiety.kube.events import Notices
from moiety.kube.model import names, share_config
from moiety.kube.podresources import Held
from moiety.kube.pods import Pod, Pods
from moiety.kube.resource_slices import WHOLE
from moiety.kube.share_manager import Shares
from moiety.model.errors import MoietyError
from moiety.model.share import Share

TEXT_MOST: Final = 500


class Owners:
    """Of all shares of one node."""

    def __init__(
        self, shares: Shares, pods: Pods, client: Client, notices: Notices, log: Any
    ) -> None:
        self.shares = shares
        self.pods = pods
        self._client = client
        self._notices = notices
        self._log = log

    async def see(self, held: Sequence[Held] | None = None) -> None:
        """Look at every share once; `held`: who has which units, if the kubelet said so."""
        for given in list(self.shares.given.values()):
            if given.kind == CLAIM:
                await self._see_claim(given)
            elif held is not None:
                await self._see_units(given, held)
        if held is not None:
            used = {device for each in held for device in each.devices}
            await take_back_unused(self.shares, used, self._log)

    async def _see_claim(self, given: Given) -> None:
        using = [
            pod
            for pod in self.pods.by_uid.values()
            if pod.namespace == given.namespace and given.claim in pod.claims
        ]
        if any(pod.uid not in given.pods for pod in using):
            given = await self._joined(given, using) or given
        mine = [pod for pod in using if pod.uid in given.pods]
        if not mine:
            return
        containers = {c for p in mine for c in p.containers_of(given.claim, given.request)}
        labels = dict(given.labels)
        if len(mine) == 1:
            labels["pod"] = mine[0].name
        else:
            labels.pop("pod", None)
        if len(containers) == 1:
            (labels["container"],) = containers
        await self._settle(given, mine, given.share, labels, given.pods)

    async def _joined(self, given: Given, using: Sequence[Pod]) -> Given | None:
        """Let in the pods for which the claim is reserved, and nobody who only names it."""
        try:
            claim = await self._client.get(CLAIMS, given.claim, given.namespace)
        except ApiError:
            return None
        if claim["metadata"]["uid"] != given.key:
            return None
        reserved = {each.uid for each in consumers(claim)}
        pods = sorted(reserved & {*given.pods, *(pod.uid for pod in using)})
        if not pods or pods == sorted(given.pods):
            return None
        changed = msgspec.structs.replace(given, pods=pods)
        await self._change(changed)
        return self.shares.given.get(given.name)

    async def _see_units(self, given: Given, held: Sequence[Held]) -> None:
        own = set(given.units)
        found = next((each for each in held if own & each.devices), None)
        if found is None:
            return
        pod = self.pods.named(found.namespace, found.pod)
        if pod is None:
            return
        labels = {"namespace": found.namespace, "pod": found.pod, "container": found.container}
        share = given.share
        if not given.pods:  # it is seen for the first time: what was asked for beside units counts
            share = await self._asked(given, pod, found.container)
        await self._settle(given, [pod], share, labels, [pod.uid])

    async def _asked(self, given: Given, pod: Pod, container: str) -> Share:
        text = pod.notes.get(names.ASKED)
        if not text:
            return given.share
        try:
            document = msgspec.json.decode(text).get(container)
            asked = share_config.decode(document) if document else Share()
            part = given.share.gpu or 0.0
            return dataclasses.replace(asked, gpu=part, gpu_limit=max(asked.gpu_limit, part))
        except (MoietyError, msgspec.MsgspecError, AttributeError, TypeError) as error:
            note = f"{names.ASKED} makes no sense: {error}"
            await self._notices.tell(pod, "Refused", note[:TEXT_MOST], warning=True)
            return given.share

    async def _settle(
        self,
        given: Given,
        mine: Sequence[Pod],
        share: Share,
        labels: dict[str, str],
        pods: list[str],
    ) -> None:
        """Have a share be so, with what one of its pods wishes; a no is told to it, once."""
        wishes = {pod.uid: wish for pod in mine if (wish := pod.notes.get(names.RESIZE))}
        answered = {
            uid: wish
            for uid, wish in wishes.items()
            if wish == given.asked.get(uid, given.asked.get(names.RESIZE))
        }
        # Of several at once the others are next: the answer to this one is seen, too.
        pod = next((pod for pod in mine if pod.uid in wishes.keys() - answered.keys()), None)
        asked = {**answered, pod.uid: wishes[pod.uid]} if pod else answered
        known = msgspec.structs.replace(
            given, share=share, labels=labels, pods=pods, asked=asked, slots=_slots(given, share)
        )
        if pod:
            await self._resize(known, pod, wishes[pod.uid], labels.get("container", ""))
        elif known != given:
            await self._change(known)

    async def _resize(self, given: Given, pod: Pod, wish: str, container: str) -> None:
        try:
            share = resize.wanted({names.RESIZE: wish}, container, given.share)
            wished = msgspec.structs.replace(given, share=share, slots=_slots(given, share))
            await self.shares.change(wished)
        except (MoietyError, OSError) as error:
            why = f"refused: {error}"[:TEXT_MOST]
            self._log.warning("resize refused", pod=f"{pod.namespace}/{pod.name}", reason=why)
            await self._change(given)  # it is answered, all the same
            await self._notices.tell(pod, "ResizeRefused", f"{wish}: {why}", warning=True)
            await self._answer(pod, why)
            return
        self._log.info("resized", pod=f"{pod.namespace}/{pod.name}", share=str(share))
        await self._notices.tell(pod, "Resized", f"its share is now {share}", warning=False)
        await self._answer(pod, wish)

    async def _answer(self, pod: Pod, text: str) -> None:
        change = {"metadata": {"annotations": {names.RESIZED: text}}}
        try:
            await self._client.patch(PODS, pod.name, change, pod.namespace)
        except ApiError as no:
            self._log.warning("answer not written", pod=pod.name, problem=no.what)

    async def _change(self, given: Given) -> None:
        try:
            await self.shares.change(given)
        except (MoietyError, OSError) as error:
            self._log.warning("share not changed", share=given.name, problem=str(error))


def _slots(given: Given, share: Share) -> list[Any]:
    """The slots of a share of another size."""
    percent = (share.gpu or 0.0) * WHOLE
    return [
        msgspec.structs.replace(slot, percent=percent, memory_bytes=share.memory_bytes)
        for slot in given.slots
    ]
