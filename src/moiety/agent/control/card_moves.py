"""Moves programs that have not looked at their GPUs yet off drained ones, and to free ones.

It looks when workloads come or go and when a GPU is drained, resumed or lost. One look costs one
sweep over the workloads, however many of them have not started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from moiety.agent.control.card_loads import CardLoads
from moiety.agent.control.cards import Ask, Cards
from moiety.agent.control.records import Record
from moiety.agent.control.running_workload import RunningWorkload
from moiety.agent.control.workloads import Workloads
from moiety.agent.core.client import Client
from moiety.agent.core.journal import Journal
from moiety.agent.core.runtime import Runtime
from moiety.agent.shim.wait_messages import MOVED
from moiety.arbiter import events as ev
from moiety.wire.messages import TerminalLineMessage

TOGETHER_S: Final = 0.05
"""What happens within this time is looked at once."""


class CardMoves:
    """Chooses again for the workloads of one agent."""

    def __init__(
        self,
        runtime: Runtime,
        cards: Cards,
        workloads: Workloads,
        clients: Mapping[int, Client],
        journal: Journal,
        usages: Ask,
    ) -> None:
        """Listens to workloads and to lost GPUs; `usages` asks NVML how busy the GPUs are."""
        self._runtime = runtime
        self._clients = clients
        self._cards = cards
        self._workloads = workloads
        self._journal = journal
        self._usages = usages
        self._task: asyncio.Task[None] | None = None
        self._is_changed = False
        self._announced: dict[str, list[str]] = {}
        """By workload that was moved and uses no GPU yet: the GPUs that its command named."""
        workloads.on_owner.append(lambda _: self.changed())
        runtime.on_fed.append(self._on_event)

    def choose_again(self, workload: RunningWorkload, loads: CardLoads | None = None) -> Record:
        """As `Cards.choose_again`; a move is an event."""
        before = workload.record
        record = self._cards.choose_again(workload, loads)
        if record is not before:
            known = self._workloads.by_id
            for gone in [identity for identity in self._announced if identity not in known]:
                del self._announced[gone]
            self._announced.setdefault(record.id, before.chosen)
            was, now = (self._cards.indices(each.chosen) for each in (before, record))
            self._journal.often(
                f"user {record.uid}",
                "GpuMoved",
                f"kept for it: GPU {_listed(now)} instead of GPU {_listed(was)}; "
                "it has not used a GPU yet",
                gpu=now[0],
                pid=record.root_pid,
                program=record.name or record.program,
                uid=record.uid,
            )
        return record

    def changed(self) -> None:
        """Something changed that may leave a better GPU to a program."""
        self._is_changed = True
        if self._task is None and self._cards.are_several and self._unsettled():
            self._task = asyncio.get_running_loop().create_task(self._look())

    def move(self) -> None:
        """Move each workload for which other GPUs are better now."""
        loads = self._cards.loads()
        stay: set[object] = set()
        owners: dict[int, None] = {}
        for workload in self._unsettled():
            before = workload.record
            kind = before.request, before.share, tuple(before.chosen), tuple(before.gpus)
            if kind in stay:  # one like it found none better
                continue
            record = self.choose_again(workload, loads)
            if record is before:
                stay.add(kind)
                continue
            loads.remove(workload)
            workload.note(record, self._runtime.log)
            loads.add(workload)
            owners[record.uid] = None
        for uid in owners:
            for call in self._workloads.on_owner:
                call(uid)

    async def _look(self) -> None:
        try:
            while self._is_changed:
                await asyncio.sleep(TOGETHER_S)
                self._is_changed = False
                try:
                    await self._cards.measured(self._usages)
                    self.move()
                except Exception:  # a bug: the programs stay where they are
                    self._runtime.log.exception("move_failed")
        finally:
            self._task = None

    def _unsettled(self) -> list[RunningWorkload]:
        """The workloads whose GPUs can still be chosen again."""
        return [
            workload
            for workload in self._workloads.by_id.values()
            if workload.record.chosen and workload.record.request and workload.is_alive
        ]

    def _on_event(self, event: ev.Event) -> None:
        if isinstance(event, ev.GpuLost):
            self.changed()
        elif isinstance(event, ev.Attach) and self._announced:
            self._say(event.tenant)

    def _say(self, tenant: int) -> None:
        """Correct what the command of a program said, now that the program uses its GPUs."""
        client = self._clients.get(tenant)
        workload = self._workloads.by_id.get(client.workload) if client else None
        if client is None or workload is None:
            return
        was = self._cards.indices(self._announced.pop(workload.record.id, []))
        now = self._cards.indices(workload.cards)
        if was and now and was != now and client.talks:
            text = MOVED.text.format(now=_listed(now), was=_listed(was))
            client.connection.send(TerminalLineMessage(text=text).encode())


def _listed(indices: list[int]) -> str:
    return ", ".join(map(str, indices))
