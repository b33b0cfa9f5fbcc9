"""Decides about claims before their pods are bound, so that a refused pod is scheduled again.

A device with binding conditions keeps the scheduler from binding a pod until they are true. If
the failure condition is true instead, the scheduler takes the claim back and places the pod anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from moiety.kube.client import CLAIMS, ApiClient, ApiError, Object
from moiety.kube.model.share_config import DRIVER
from moiety.kube.resource_slices import ADMITTED, REFUSED
from moiety.model.errors import AgentError, MoietyError

AGAIN_S: Final = 5.0
"""A claim that could not be decided about is tried again after this time."""
MANAGER: Final = "moiety-node"
TEXT_MOST: Final = 4096


class BindingChecks:
    """The claims of one node whose pods are not bound yet."""

    def __init__(
        self,
        node: str,
        client: ApiClient,
        check: Callable[[Object], Awaitable[None]],
        log: Any,
        *,
        again_s: float = AGAIN_S,
    ) -> None:
        """`check` raises MoietyError for a claim that this node would not prepare."""
        self._node = node
        self._client = client
        self._check = check
        self._log = log
        self._again_s = again_s
        self._waiting: dict[str, Object] = {}
        """Claims by UID that the scheduler waits for."""
        self._watched: dict[str, Object] = {}
        self._came = asyncio.Event()

    async def follow(self) -> None:
        """Note the claims that wait, for ever; without the right to see them, none waits."""
        while True:
            try:
                await self._follow()
            except ApiError as no:
                self._log.error("claims_unreadable", problem=no.what)
                await asyncio.sleep(self._again_s)

    async def _follow(self) -> None:
        async for change in self._client.watch(CLAIMS, known=self._watched):
            if change.kind == "SYNCED":
                continue
            uid = change.object["metadata"]["uid"]
            if change.kind != "DELETED" and waits(change.object, self._node):
                self._waiting[uid] = change.object
                self._came.set()
            else:
                self._waiting.pop(uid, None)

    async def decide(self) -> None:
        """Answer each claim as soon as it comes, for ever."""
        while True:
            self._came.clear()
            for uid, claim in list(self._waiting.items()):
                try:
                    await self._answer(claim)
                except (MoietyError, OSError) as error:
                    metadata = claim["metadata"]
                    name = f"{metadata.get('namespace', '')}/{metadata['name']}"
                    self._log.warning("claim_undecided", claim=name, problem=str(error))
                else:
                    if self._waiting.get(uid) is claim:  # it was not allocated anew meanwhile
                        del self._waiting[uid]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._again_s if self._waiting else None):
                    await self._came.wait()

    async def _answer(self, claim: Object) -> None:
        """Raises ApiError and errors of the agent, if nothing could be decided."""
        try:
            await self._check(claim)
            condition, reason, message = ADMITTED, "Admitted", ""
        except (ApiError, AgentError):
            raise
        except MoietyError as no:
            condition, reason, message = REFUSED, "Refused", str(no)
            metadata = claim["metadata"]
            name = f"{metadata.get('namespace', '')}/{metadata['name']}"
            self._log.warning("claim_refused_unbound", claim=name, reason=message)
        status = {"devices": _statuses(claim, self._node, condition, reason, message[:TEXT_MOST])}
        metadata = {"name": claim["metadata"]["name"], "uid": claim["metadata"]["uid"]}
        where = claim["metadata"].get("namespace", "")
        body = {"metadata": metadata, "status": status}
        try:
            await self._client.apply(CLAIMS, body, where, manager=MANAGER, force=True, sub="status")
        except ApiError as no:
            if no.is_away:
                raise  # else the claim is gone or allocated anew, and comes again if it waits


def waits(claim: Object, node: str) -> bool:
    """Whether the scheduler waits for what this node says about a claim."""
    status = claim.get("status") or {}
    if not status.get("reservedFor"):
        return False
    said = {
        _key(each)
        for each in status.get("devices") or []
        if any(c.get("type") in (ADMITTED, REFUSED) for c in each.get("conditions") or [])
    }
    return any(_key(each) not in said for each in _results(claim, node))


def _results(claim: Object, node: str) -> list[Mapping[str, Any]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return [
        each
        for each in (allocation.get("devices") or {}).get("results") or []
        if (each.get("driver"), each.get("pool")) == (DRIVER, node)
        and ADMITTED in (each.get("bindingConditions") or [])
    ]


def _key(each: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(each.get(part) for part in ("driver", "pool", "device", "shareID"))


def _statuses(
    claim: Object, node: str, condition: str, reason: str, message: str
) -> list[dict[str, Any]]:
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = {
        "type": condition,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }
    parts = ("driver", "pool", "device", "shareID")
    devices = {_key(each): each for each in _results(claim, node)}
    return [
        {part: each[part] for part in parts if each.get(part)} | {"conditions": [found]}
        for each in devices.values()
    ]
