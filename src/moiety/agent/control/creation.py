"""Makes the workload of a `moiety run`: checks its share, and chooses its GPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from moiety.agent.control import protocol
from moiety.agent.control.card_queue import WAITED_FOR, CardQueue, Waiter
from moiety.agent.control.cards import Ask, Cards
from moiety.agent.control.cards_left import cards_left
from moiety.agent.control.conversation import Conversation
from moiety.agent.control.limits import LimitEnforcer
from moiety.agent.control.rows import CardName
from moiety.agent.control.shares import Shares
from moiety.agent.control.workloads import Workloads
from moiety.agent.core.runtime import Runtime
from moiety.agent.system import processes
from moiety.devices.interface import Usage
from moiety.model.cards import CardRequest
from moiety.model.errors import InvalidGang, MoietyError, UserLimit
from moiety.model.format import ARGV_MAX, shortened
from moiety.model.gang import Gang
from moiety.model.share import Share


@dataclass(slots=True)
class Creation:
    """Makes the workloads of one agent."""

    runtime: Runtime
    workloads: Workloads
    shares: Shares
    cards: Cards
    usages: Ask
    """Asks NVML how busy the GPUs are."""
    limits: LimitEnforcer | None = None
    is_shared: bool = False
    """Whether the agent serves all users of the machine."""
    queue: CardQueue | None = None
    """Where workloads wait for GPUs with room."""

    async def create(
        self,
        asked: protocol.CreateWorkload,
        peer: processes.Peer,
        conversation: Conversation | None = None,
    ) -> protocol.Created:
        """Make the asking process a workload of its own, on GPUs that are chosen for it.

        If it asks to wait, it waits until there is room, and is told so by its `conversation`.
        Raises what `Cards.choose`, `Shares.check`, `Workloads.create` and `CardQueue.wait` raise.
        """
        usages = await self.cards.measured(self.usages) if asked.cards else {}
        try:
            return self._make(asked, peer, usages)
        except WAITED_FOR as refusal:
            if not asked.wait or conversation is None or self.queue is None:
                raise
            waiter = Waiter(
                asked=asked,
                peer=peer,
                needs=self._possible(asked, peer, refusal),
                attempt=partial(self._make_for, asked, peer, processes.start_time(peer.pid)),
                possible=partial(self._possible, asked, peer),
                since_s=self.runtime.now(),
                reason=refusal.what,
                keeps=not isinstance(refusal, UserLimit),
            )
        return await self.queue.wait(waiter, conversation)

    def _possible(
        self, asked: protocol.CreateWorkload, peer: processes.Peer, refusal: MoietyError
    ) -> Mapping[int, Share]:
        """By index of each GPU that would do, alone: the share that a program would have there.

        Raises the refusal if it would also come with nothing else here, ShareTaken where other
        owners' guarantees leave too little of each GPU, UserLimit where the user may never have it.
        """
        request = asked.cards or CardRequest()
        needs = self.cards.needs(request, asked.share, self._only(peer))
        if len(needs) < request.number:
            raise refusal
        self.shares.must_be_left(max((n.gpu or 0.0 for n in needs.values()), default=0.0), peer.uid)
        self._check_alone(needs, request.number, peer.uid)
        return needs

    def _check_alone(self, needs: Mapping[int, Share], number: int, uid: int) -> None:
        """Raise UserLimit if a user may never have these shares on as many GPUs as are asked."""
        if self.limits is None:
            return
        refused = []
        for index, need in needs.items():
            capacity = self.cards.capacity_bytes(index)
            limit = need.asked_limit_bytes(capacity)
            limited = dataclasses.replace(need, memory_limit_bytes=limit)
            try:
                self.limits.check(uid, limited, alone=True, capacity=capacity)
            except UserLimit as error:
                refused.append(error)
        if refused and len(needs) - len(refused) < number:
            raise refused[-1]

    def _make_for(
        self,
        asked: protocol.CreateWorkload,
        peer: processes.Peer,
        started: int | None,
        usages: Mapping[int, Usage],
    ) -> protocol.Created:
        """As `_make`, for a process that has waited; raises ProcessLookupError if that is dead.

        Another process may have its connection, and another one its pid.
        """
        if started is None or not processes.is_alive(peer.pid, started):
            raise ProcessLookupError(peer.pid)
        return self._make(asked, peer, usages)

    def _only(self, peer: processes.Peer) -> Sequence[int] | None:
        """The only GPUs of a user; None: any."""
        return self.limits.gpus_of(peer.uid) if self.limits else None

    def _make(
        self, asked: protocol.CreateWorkload, peer: processes.Peer, usages: Mapping[int, Usage]
    ) -> protocol.Created:
        """Make a workload; nothing else happens meanwhile."""
        only = self._only(peer)
        chosen, share = self._choose(asked, peer, usages, only)
        uuids = [card.uuid for card in chosen]
        # A choice avoids drained GPUs whenever it is made; one may be resumed meanwhile.
        may_use = (only or ()) if chosen else self.cards.open_to(only)
        allowed = [card.uuid for card in self.cards.names(may_use)]
        self.shares.check(share, peer.uid, gpus=uuids)
        gang = asked.gang
        if gang and self.is_shared:  # names of different users are different names
            gang = dataclasses.replace(gang, name=f"u{peer.uid}.{gang.name}")
        if gang:
            self._check_gang(gang, peer.uid)
        workload = self.workloads.create(
            peer,
            program=asked.program[: protocol.NAME_MAX],
            argv=shortened(asked.argv),
            cwd=asked.cwd[:ARGV_MAX],
            share=share,
            name=asked.name and asked.name[: protocol.NAME_MAX],
            gang=gang,
            cards=uuids,
            only=allowed,
            request=asked.cards,
        )
        self.runtime.log.info(
            "create_workload",
            workload=workload.record.id,
            program=workload.record.program,
            pid=peer.pid,
            uid=peer.uid,
            share=str(share),
            gpus=[card.gpu for card in chosen],
        )
        return protocol.Created(id=workload.record.id, socket=str(workload.socket), cards=chosen)

    def _choose(
        self,
        asked: protocol.CreateWorkload,
        peer: processes.Peer,
        usages: Mapping[int, Usage],
        only: Sequence[int] | None,
    ) -> tuple[list[CardName], Share]:
        """The GPUs that a new workload gets, and its share of them; none with one GPU."""
        possible, _ = self.cards.possible(asked.cards or CardRequest(), only)
        if asked.cards is None:
            return [], asked.share
        if not self.cards.are_several:
            return [], self.cards.share_on(possible, asked.cards, asked.share)
        loads = self.cards.loads()
        only = cards_left(self.limits, self.cards, asked.cards, asked.share, peer.uid, only, loads)
        owner = self.shares.owner_of(peer.uid)
        chosen = self.cards.choose(asked.cards, asked.share, usages, only, loads, owner)
        share = self.cards.share_on(chosen, asked.cards, asked.share)
        return self.cards.names(chosen), share

    def _check_gang(self, gang: Gang, uid: int) -> None:
        """Raise InvalidGang if no other program of this user can join a gang."""
        known = self.workloads.by_id.values()
        own = [w for w in known if w.record.gang and w.record.gang.name == gang.name]
        if any(w.record.uid != uid for w in own):
            raise InvalidGang(f"gang {gang.name} is another user's", "another --gang")
        size = max((w.record.gang.size for w in own if w.record.gang), default=0)
        gang.check_beside(size, sum(len(w.clients) for w in own))
