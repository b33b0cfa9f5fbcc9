"""The commands that wait until GPUs have room for their share: first come, first served.

A command waits on its own connection, so that it leaves the queue when it ends, however it ends.
A later request goes ahead where no command before it could use what it takes: beside what has
begun since they came, each of them must still have room on each GPU that would do for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moiety.agent.control import protocol
from moiety.agent.control.card_loads import CardLoad
from moiety.agent.control.cards import Ask, Cards
from moiety.agent.control.conversation import Conversation
from moiety.agent.control.rights import is_admin
from moiety.agent.control.rows import WaiterRow
from moiety.agent.control.running_workload import RunningWorkload
from moiety.agent.core.rate_limits import RateLimits
from moiety.agent.core.runtime import Runtime
from moiety.agent.system import processes
from moiety.agent.system.users import name_of
from moiety.devices.interface import Usage
from moiety.model.errors import GpusDrained, MoietyError, ShareTaken, TooMany, UserLimit
from moiety.model.format import plain
from moiety.model.share import Share

WAITED_FOR: Final = (ShareTaken, GpusDrained, UserLimit)
"""Refusals that end when other programs do, or when an administrator resumes a GPU."""
AGAIN_S: Final = 2.0
"""Time between two tries while nothing happens: memory that programs free is no event here."""
TOGETHER_S: Final = 0.05
"""What happens within this time is looked at once."""
TELL_S: Final = 10.0
"""How often a command that waits hears from the agent at least."""
_ROUNDING: Final = 1e-9


@dataclass(slots=True, eq=False)
class Waiter:
    """One command that waits."""

    asked: protocol.CreateWorkload
    peer: processes.Peer
    needs: Mapping[int, Share]
    """By index of each GPU that would do: the share that it would have there."""
    attempt: Callable[[Mapping[int, Usage]], protocol.Created]
    """Makes its workload, or raises why not."""
    possible: Callable[[MoietyError], Mapping[int, Share]]
    """Returns `needs` by the rules of now; raises why it can never begin, with this refusal."""
    since_s: float
    reason: str
    keeps: bool = True
    """Whether later requests must leave it room: not while its user's own limit holds it up."""
    is_over: bool = False
    created: protocol.Created | None = None
    error: Exception | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Kept:
    """What of one GPU is kept for those who wait."""

    gpu: float
    memory_bytes: int
    since_s: float
    """What was promised there later has taken of what is kept."""

    def beside(self, need: Share, since_s: float) -> Kept:
        """What is kept if this one waits, too: the largest of what each needs."""
        return Kept(
            max(self.gpu, need.gpu or 0.0),
            max(self.memory_bytes, need.memory_bytes),
            min(self.since_s, since_s),
        )


class CardQueue:
    """Those who wait for the GPUs of one agent, in the order in which they came."""

    def __init__(self, runtime: Runtime, cards: Cards, usages: Ask, limits: RateLimits) -> None:
        """`usages` asks NVML how busy the GPUs are."""
        self.waiting: list[Waiter] = []
        self._runtime = runtime
        self._cards = cards
        self._usages = usages
        self._limits = limits
        self._ahead: dict[int, Kept] | None = None
        """While a waiter tries: what is kept for the waiters before it."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, waiter: Waiter, conversation: Conversation) -> protocol.Created:
        """Wait until a workload can be made; it leaves the queue when its command ends.

        Raises TooMany if its user has too many that wait, and what `attempt` raises.
        """
        uid = waiter.peer.uid
        if no := self._limits.waiting.refuse(uid, is_admin=is_admin(waiter.peer)):
            raise TooMany(no)
        self._limits.waiting.take(uid)
        self._limits.conversations.give(uid)  # so that other commands of this user have theirs
        self.waiting.append(waiter)
        gone = asyncio.ensure_future(conversation.hung_up())
        try:
            self.changed()
            return await self._told(waiter, conversation, gone)
        except (OSError, TimeoutError) as error:
            if error is waiter.error:
                raise
            raise asyncio.CancelledError from None  # the command has ended
        finally:
            gone.cancel()
            waiter.is_over = True
            self.waiting.remove(waiter)
            for other in self.waiting:
                other.changed.set()  # its place may be another
            self._limits.conversations.take(uid)
            self._limits.waiting.give(uid)
            self.changed()
            await asyncio.wait({gone})  # else the next request of this connection cannot be read

    async def _told(
        self, waiter: Waiter, conversation: Conversation, gone: asyncio.Future[None]
    ) -> protocol.Created:
        """Tell a command its place and the reason until there is an answer."""
        while waiter.created is None:
            if waiter.error:
                raise waiter.error
            if gone.done():
                raise asyncio.CancelledError
            waiter.changed.clear()
            place = self.waiting.index(waiter) + 1
            await conversation.tell(protocol.Waiting(place, len(self.waiting), waiter.reason))
            changed = asyncio.ensure_future(waiter.changed.wait())
            first: set[asyncio.Future[Any]] = {gone, changed}
            await asyncio.wait(first, timeout=TELL_S, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
        return waiter.created

    def changed(self) -> None:
        """Something changed that may let a waiter begin."""
        self._changed.set()
        if self._task is None and self.waiting:
            self._task = asyncio.get_running_loop().create_task(self._serve())

    def refuse(
        self, index: int, share: Share, load: CardLoad, own: RunningWorkload | None = None
    ) -> tuple[str, Share] | None:
        """Why a share would take what others wait for, with the largest that would not.

        `load` is what is on that GPU; `own` is the workload that has the share instead of its own.
        """
        if not self.waiting:
            return None
        kept = self._all().get(index) if self._ahead is None else self._ahead.get(index)
        had = own.record.share if own else None
        if kept is None or (had and share.guarantees_within(had)):
            return None
        shares = [
            workload.record.share
            for workload in load.on.values()
            if workload is not own and workload.promised_s >= kept.since_s
        ]
        left = 1.0 - kept.gpu - sum(taken.gpu or 0.0 for taken in shares)
        capacity = self._cards.capacity_bytes(index)
        left_bytes = capacity - kept.memory_bytes - sum(taken.memory_bytes for taken in shares)
        fits_time = share.gpu is None or share.gpu <= left + _ROUNDING
        if fits_time and (not share.memory_bytes or share.memory_bytes <= left_bytes):
            return None
        text = f"GPU {index} is kept for programs that have waited for longer (`moiety status`)"
        gpu = None if share.gpu is None else round(min(max(left, 0.0), share.gpu), 9) or None
        memory_bytes = min(max(left_bytes, 0), share.memory_bytes)
        return text, dataclasses.replace(share, gpu=gpu, memory_bytes=memory_bytes)

    def rows(self) -> list[WaiterRow]:
        """Those who wait, for `moiety ps` and `moiety status`."""
        now_s = self._runtime.now()
        return [
            WaiterRow(
                place=place,
                pid=waiter.peer.pid,
                uid=waiter.peer.uid,
                user=name_of(waiter.peer.uid),
                program=plain((waiter.asked.name or waiter.asked.program)[: protocol.NAME_MAX]),
                share=waiter.asked.share,
                gpus=waiter.asked.cards.number if waiter.asked.cards else 1,
                waited_s=now_s - waiter.since_s,
                reason=waiter.reason,
            )
            for place, waiter in enumerate(self.waiting, 1)
        ]

    def _all(self) -> dict[int, Kept]:
        """What is kept for all who wait, by GPU."""
        kept: dict[int, Kept] = {}
        for waiter in self.waiting:
            _keep(kept, waiter)
        return kept

    async def _serve(self) -> None:
        """Try again whenever something changed, and every AGAIN_S, as long as any waits."""
        try:
            while self.waiting:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), AGAIN_S)
                await asyncio.sleep(TOGETHER_S)
                self._changed.clear()
                try:
                    await self._try_all(await self._cards.measured(self._usages))
                except Exception:  # a bug: those who wait try again later
                    self._runtime.log.exception("queue_failed")
        finally:
            self._task = None

    async def _try_all(self, usages: Mapping[int, Usage]) -> None:
        """Let each waiter try once, in order."""
        kept: dict[int, Kept] = {}
        refused: dict[object, str] = {}
        for waiter in list(self.waiting):
            asked = waiter.asked
            kind = waiter.peer.uid, asked.cards, asked.share, tuple(waiter.needs)
            if waiter.is_over:
                continue
            if kind in refused:  # one of the same user asked for the same
                self._tell(waiter, refused[kind])
            else:
                self._try(waiter, usages, kept)
                if waiter.keeps and waiter.created is None and waiter.error is None:
                    refused[kind] = waiter.reason
            if waiter.created is None and waiter.error is None:
                _keep(kept, waiter)
            await asyncio.sleep(0)  # leases of programs go first

    def _try(self, waiter: Waiter, usages: Mapping[int, Usage], ahead: dict[int, Kept]) -> None:
        self._ahead = ahead
        try:
            waiter.created = waiter.attempt(usages)
        except WAITED_FOR as refusal:
            waiter.keeps = not isinstance(refusal, UserLimit)
            self._look_again(waiter, refusal)
        except (MoietyError, OSError) as error:
            waiter.error = error
        except Exception as error:
            self._runtime.log.exception("waiter_failed", pid=waiter.peer.pid)
            waiter.error = error
        finally:
            self._ahead = None
        if waiter.created or waiter.error:
            waiter.changed.set()

    def _look_again(self, waiter: Waiter, refusal: MoietyError) -> None:
        """Have a waiter that was refused wait on, unless other rules for users made that futile."""
        try:
            waiter.needs = waiter.possible(refusal)
        except MoietyError as error:
            waiter.error = error
        else:
            self._tell(waiter, refusal.what)

    @staticmethod
    def _tell(waiter: Waiter, reason: str) -> None:
        if reason != waiter.reason:
            waiter.reason = reason
            waiter.changed.set()


def _keep(kept: dict[int, Kept], waiter: Waiter) -> None:
    """Add what is kept for one who waits."""
    if not waiter.keeps:
        return
    for index, need in waiter.needs.items():
        if need.gpu or need.memory_bytes:
            known = kept.get(index, Kept(0.0, 0, waiter.since_s))
            kept[index] = known.beside(need, waiter.since_s)
