"""Grows a share where the scheduler looks, before a program has it.

The scheduler counts what claims consume, which never changes, against the capacities in the node's
slices. So these get smaller by what shares grew. Claims that the scheduler has placed here by
then, and that are not prepared yet, keep their room.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from moiety.kube.allocation_result import allocated_on
from moiety.kube.checkpoint import CLAIM, Assignment, Slot
from moiety.kube.client import CLAIMS, ApiClient
from moiety.kube.device_accounting import DeviceAccounting
from moiety.kube.share_manager import NoRoom

SETTLE_S: Final = 0.5
"""Longer than the scheduler takes to see new slices, and to write what it decided before."""


class GrowthAnnouncer:
    """The growing shares of one node."""

    def __init__(
        self,
        client: ApiClient,
        node: str,
        ledger: DeviceAccounting,
        publish: Callable[[], Awaitable[Any]],
        over: Callable[[], Any],
    ) -> None:
        """`publish` writes the node's slices, by what the ledger says; `over` has it done later."""
        self._client = client
        self._node = node
        self._ledger = ledger
        self._publish = publish
        self._over = over

    @contextlib.asynccontextmanager
    async def announced(self, wished: Assignment) -> AsyncIterator[None]:
        """Have the scheduler count a share as it is wished, while the block gives it.

        Raises NoRoom, and ApiError: then it must not be given.
        """
        before = self._ledger.checkpoint.assignments.get(wished.name)
        if wished.kind != CLAIM or before is None or not _grows(wished, before):
            yield
            return
        if no := self._ledger.check([wished]):
            raise NoRoom(no)
        self._ledger.growing[wished.name] = wished
        try:
            await self._publish()
            await asyncio.sleep(SETTLE_S)
            if no := self._ledger.refuse(await self._unprepared()):
                raise NoRoom(f"a pod that starts needs it: {no}")
            yield
        finally:
            del self._ledger.growing[wished.name]
            self._over()

    async def _unprepared(self) -> list[Slot]:
        """What claims have here that the kubelet has not asked for yet. Raises ApiError."""
        prepared = {each.key for each in self._ledger.checkpoint.assignments.values()}
        claims, _ = await self._client.list(CLAIMS)
        return [
            Slot(piece.device, gpu.card.uuid, piece.percent, piece.memory_bytes)
            for claim in claims
            if claim["metadata"]["uid"] not in prepared
            for piece in allocated_on(claim, self._node)
            if (gpu := self._ledger.gpus.get(piece.device)) is not None
        ]


def _grows(wished: Assignment, before: Assignment) -> bool:
    return any(
        new.percent > old.percent or new.memory_bytes > old.memory_bytes
        for new, old in zip(wished.slots, before.slots, strict=True)
    )
