"""Shares that containers get: commands make, list and remove them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from moiety.agent.control import protocol
from moiety.agent.control.cards_left import cards_left
from moiety.agent.control.records import Record
from moiety.agent.control.rows import ContainerRow
from moiety.agent.control.running_workload import RunningWorkload
from moiety.agent.control.shares import LIMITS, Shares
from moiety.agent.control.workloads import Workloads
from moiety.agent.core.client import Client
from moiety.agent.core.runtime import Runtime
from moiety.agent.system import container_files, processes
from moiety.agent.system.users import USERS
from moiety.devices.interface import Usage
from moiety.model.errors import (
    AgentNotYours,
    BadRequest,
    ContainerShareInUse,
    ContainerShareUnknown,
    NotAllowed,
)
from moiety.model.format import ARGV_MAX

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""Names that the agent accepts; commands are stricter."""
LABELS_MAX: Final = 2 << 10
"""Characters of all labels of a share together: they are in each of its metrics and events."""
LISTS_MAX: Final = 16 << 10
"""Characters of all pods, and of all GPUs, of a share: a claim has 256 pods at most."""


@dataclass(frozen=True, slots=True)
class ContainerShares:
    """The shares for containers of one node."""

    runtime: Runtime
    clients: Mapping[int, Client]
    workloads: Workloads
    shares: Shares

    def placed(
        self,
        asked: protocol.CreateContainer,
        only: Sequence[int] | None,
        usages: Mapping[int, Usage],
        uid: int,
    ) -> protocol.CreateContainer:
        """The request with the GPUs that are chosen for it, among those that it names.

        A share that has such GPUs already keeps them, for its containers run there. `only` are the
        GPUs of the user `uid`, who asks. Raises what `Cards.within` and `Cards.choose` raise, and
        BadRequest for a UUID that is no GPU of this agent.
        """
        cards = self.shares.cards
        own = self.workloads.by_id.get(asked.name)
        had = own.record.gpus if own else []
        if asked.cards is None:
            return cards.within(asked, only)
        among = cards.indices(asked.gpus)
        if len(among) < len({*asked.gpus}):
            raise BadRequest(problem=f"{', '.join(asked.gpus)}: not all are GPUs of this agent")
        if had and cards.meets(asked.cards, had) and {*had} <= {*(asked.gpus or had)}:
            return cards.within(msgspec.structs.replace(asked, gpus=had), only)
        request, asked = asked.cards, cards.within(asked, only)
        within: Sequence[int] | None = cards.indices(asked.gpus) or None
        loads = cards.loads()
        if own is not None:  # the new share takes the place of the present one
            loads.remove(own)
        account = own.record.uid if own else uid
        within = cards_left(
            self.shares.limits, cards, request, asked.share, account, within, loads, own
        )
        owner = own.owner if own else self.shares.owner_of(uid, asked.labels)
        chosen = cards.choose(request, asked.share, usages, within, loads, owner)
        uuids = [card.uuid for card in cards.names(chosen)]
        return msgspec.structs.replace(asked, gpus=uuids)

    def create(self, asked: protocol.CreateContainer, peer: processes.Peer) -> protocol.Contained:
        """Make a share, or change the share of that name.

        Raises what `Shares.check` raises, AgentNotYours for another user's, BadAgentDirectory,
        NotAllowed for labels of a user who is no administrator, BadRequest for too many of them.
        """
        if not NAME.fullmatch(asked.name):  # it becomes a path
            raise BadRequest(problem=f"{asked.name!r} cannot name a share for containers")
        _check_words(asked, peer)
        own = self.workloads.by_id.get(asked.name)
        if own is not None and not own.stays:  # else that one, maybe another user's, would be lost
            raise BadRequest(problem=f"{asked.name!r} is what a running program is known by")
        if own is not None:
            self._must_own(own, peer)
        uid = own.record.uid if own else peer.uid
        self.shares.check(asked.share, uid, own, asked.gpus, asked.labels)
        if own is not None:
            spec = asked.spec or own.record.spec
            record = msgspec.structs.replace(
                own.record,
                share=asked.share,
                spec=spec,
                gpus=asked.gpus,
                pods=asked.pods,
                labels=asked.labels,
            )
            was = own.record.share
            self.workloads.rewrite(own, record)
            new = asked.share
            if any(getattr(new, name) not in (None, getattr(was, name)) for name in LIMITS):
                self.shares.tell_above(own)
        else:
            user = USERS.of(peer.uid)
            record = Record(
                id=asked.name,
                uid=peer.uid,
                user=user.name if user.is_listed and user.is_known else "",
                groups=sorted(user.groups),
                root_pid=0,
                root_started=0,
                program=asked.name,
                argv=[],
                cwd="/",
                share=asked.share,
                container=asked.name,
                spec=asked.spec,
                gpus=asked.gpus,
                pods=asked.pods,
                labels=asked.labels,
            )
            own = self.workloads.create_container(record, peer)
        self.runtime.log.info("container_share_created", name=asked.name, share=str(asked.share))
        cards = self.shares.cards
        chosen = cards.names(cards.indices(asked.gpus)) if asked.cards else []
        return protocol.Contained(row=self._row(own), cards=chosen)

    def remove(self, asked: protocol.RemoveContainer, peer: processes.Peer) -> protocol.Contained:
        """Remove one; raises ContainerShareUnknown, ContainerShareInUse or AgentNotYours."""
        own = self.workloads.by_id.get(asked.name)
        if own is None or not own.stays:
            raise ContainerShareUnknown(asked.name)
        self._must_own(own, peer)
        row = self._row(own)
        if own.clients and not asked.force:
            raise ContainerShareInUse(asked.name, row.pids)
        self.workloads.remove(own)
        self.runtime.log.info("container_share_removed", name=asked.name)
        return protocol.Contained(row=row)

    def rows(self, only: int | None = None) -> protocol.ContainerRows:
        """All shares for containers, or the shares of one user."""
        found = [
            self._row(w)
            for w in self.workloads.by_id.values()
            if w.stays and only in (None, w.record.uid)
        ]
        return protocol.ContainerRows(rows=sorted(found, key=lambda row: row.name))

    def _row(self, workload: RunningWorkload) -> ContainerRow:
        clients = [self.clients[n] for n in workload.clients if n in self.clients]
        gpus, cards = workload.record.gpus, self.shares.cards
        inside = {container_files.container_of(client.pid) for client in clients}
        return ContainerRow(
            name=workload.record.container,
            uid=workload.record.uid,
            share=workload.record.share,
            spec=workload.record.spec,
            folder=str(workload.folder),
            pids=sorted(client.pid for client in clients),
            containers=sorted(inside - {""}),
            gpus=gpus,
            pods=workload.record.pods,
            labels=workload.record.labels,
            cards=cards.names(cards.indices(gpus)) if gpus else [],
        )

    def _must_own(self, workload: RunningWorkload, peer: processes.Peer) -> None:
        if not processes.may_use(peer, workload.record.uid):
            raise AgentNotYours(directory=str(workload.folder))


def _check_words(asked: protocol.CreateContainer, peer: processes.Peer) -> None:
    """Raise for labels that a user may not give, and for more text than a share needs.

    Labels name a pod: only administrators, as the node's part of Kubernetes is one, know which.
    """
    if asked.labels and not processes.may_use(peer, os.getuid()):
        raise NotAllowed("only an administrator may name the pod of a share")
    for what, words, most in (
        ("labels", [*asked.labels.keys(), *asked.labels.values()], LABELS_MAX),
        ("pods", asked.pods, LISTS_MAX),
        ("GPUs", asked.gpus, LISTS_MAX),
        ("specification", [asked.spec], ARGV_MAX),
    ):
        if sum(len(word) + 1 for word in words) > most:
            raise BadRequest(problem=f"its {what} have more than {most} characters")
