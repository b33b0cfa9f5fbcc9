"""Makes the workload of a `moiety run`: checks its share, and chooses its GPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moiety.agent.control import protocol
from moiety.agent.control.cards import Ask, Cards
from moiety.agent.control.limits import LimitEnforcer
from moiety.agent.control.rows import CardName
from moiety.agent.control.shares import Shares
from moiety.agent.control.workloads import Workloads
from moiety.agent.core.runtime import Runtime
from moiety.agent.system import processes
from moiety.devices.interface import Usage
from moiety.model.cards import CardRequest
from moiety.model.errors import InvalidGang
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

    async def create(
        self, asked: protocol.CreateWorkload, peer: processes.Peer
    ) -> protocol.Created:
        """Make the asking process a workload of its own, on GPUs that are chosen for it.

        Raises what `Cards.choose`, `Shares.check` and `Workloads.create` raise.
        """
        usages = await self.cards.measured(self.usages) if asked.cards else {}
        only = self.limits.gpus_of(peer.uid) if self.limits else None
        chosen, share = self._choose(asked, peer, usages, only)
        uuids = [card.uuid for card in chosen]
        allowed = [card.uuid for card in self.cards.names(self.cards.open_to(only))]
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
        """The GPUs that a new workload gets, and its share of them; none with one GPU.

        Nothing else happens between this choice and the record that keeps the GPUs.
        """
        self.cards.possible(asked.cards or CardRequest(), only)
        if asked.cards is None or not self.cards.are_several:
            return [], asked.share
        if self.limits:
            self.limits.check(peer.uid, asked.share)
        chosen = self.cards.choose(asked.cards, asked.share, usages, only)
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
