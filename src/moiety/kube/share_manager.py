"""Shares of pods, from promise to removal: in the checkpoint, in the agent, and in a CDI file.

The order is always the same: write to the checkpoint, then make; unmake, then drop from the
checkpoint. So if a process is killed in between, the next process finds every share that may exist
in the checkpoint, and completes the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from moiety.agent.control import protocol
from moiety.agent.control.rows import ContainerRow
from moiety.kube.agent_client import AgentClient
from moiety.kube.cdi_specs import PREFIX, CdiSpecs
from moiety.kube.checkpoint import Assignment
from moiety.kube.device_accounting import DeviceAccounting
from moiety.kube.inventory import Inventory
from moiety.model import errors


class NoRoom(errors.MoietyError):
    """The GPU's time or memory is given to other pods."""

    def __init__(self, why: str) -> None:
        super().__init__(why, "the pod again, on another node or later")


class ShareManager:
    """All shares that this node's pods have."""

    def __init__(
        self,
        ledger: DeviceAccounting,
        line: AgentClient,
        specs: CdiSpecs,
        inventory: Inventory,
        log: Any,
    ) -> None:
        self.ledger = ledger
        self.line = line
        self.specs = specs
        self.inventory = inventory
        self.log = log
        self.on_change: list[Callable[[], None]] = []
        """Called after a share was given, changed or taken back."""
        self.lock = asyncio.Lock()
        """Held while the checkpoint changes."""
        inventory.on_change.append(self._see)
        self._see()

    def _tell(self) -> None:
        for each in self.on_change:
            each()

    def _see(self) -> None:
        self.ledger.gpus = self.inventory.gpus

    @property
    def assignments(self) -> dict[str, Assignment]:
        """All assignments, by name."""
        return self.ledger.checkpoint.assignments

    async def give(self, assignments: Sequence[Assignment]) -> None:
        """Make these shares, all or none. Raises NoRoom, and errors of the agent and the disk."""
        async with self.lock:
            if no := self.ledger.check(assignments):
                raise NoRoom(no)
            new = [each.name for each in assignments if each.name not in self.assignments]
            self.ledger.checkpoint.put(*assignments)
            try:
                for each in assignments:
                    await self._make(each)
            except (errors.MoietyError, OSError):
                await self._unmake(new)
                raise
        self._tell()

    async def make_sure(self, assignments: Sequence[Assignment]) -> None:
        """Make shares that were given before, if missing. Raises errors of agent and disk."""
        for each in assignments:
            await self._make(each)

    async def take_back(self, names: Sequence[str]) -> None:
        """Remove shares; unknown names are no error. Raises errors of the agent and the disk."""
        async with self.lock:
            await self._unmake(names, must=True)
        self._tell()

    async def change(self, assignment: Assignment) -> None:
        """Change a share, also for its running processes.

        Raises NoRoom, and errors of the agent: the share is then unchanged.
        """
        async with self.lock:
            before = self.assignments.get(assignment.name)
            if before is None:
                return
            if assignment.slots != before.slots and (no := self.ledger.check([assignment])):
                raise NoRoom(no)
            await self._make(assignment)
            self.ledger.checkpoint.put(assignment)
        self._tell()

    async def reconcile(self) -> None:
        """Bring agent and files to the state of the checkpoint, after a restart or a loss."""
        async with self.lock:
            asked = await self.line.ask(protocol.Containers(), protocol.ContainerRows)
            rows = {row.name: row for row in asked.rows}
            for name, row in rows.items():
                if name.startswith(PREFIX) and name not in self.assignments:
                    if row.pids:
                        self.log.warning("share_in_use", share=name, pids=row.pids)
                        continue
                    self.log.info("share_removed", share=name)
                    await self._forget(name)
            for each in self.assignments.values():
                try:
                    await self._make(each, rows.get(each.name))
                except errors.MoietyError as error:
                    self.log.error("share_not_recreated", share=each.name, problem=error.what)
            for name in self.specs.sweep(self.assignments):
                self.log.info("specification_removed", share=name)

    async def _make(self, assignment: Assignment, row: ContainerRow | None = None) -> None:
        wanted = protocol.CreateContainer(
            name=assignment.name,
            share=assignment.share,
            spec=str(self.specs.path(assignment.name)),
            gpus=sorted({slot.uuid for slot in assignment.slots}),
            pods=assignment.pods,
            labels=assignment.labels,
        )
        if row is None or not _is_so(row, wanted):
            done = await self.line.ask(wanted, protocol.Contained)
            row = done.row
        uuids = {slot.uuid for slot in assignment.slots}
        gpus = self.inventory.gpus.values()
        cards = sorted((g.card for g in gpus if g.card.uuid in uuids), key=lambda c: c.index)
        self.specs.write(assignment.name, Path(row.folder), cards)

    async def _unmake(self, names: Sequence[str], *, must: bool = False) -> None:
        """Remove shares; the checkpoint keeps all or none, so it never has a claim in part."""
        for name in names:
            try:
                self.specs.remove(name)
                await self._forget(name)
            except (errors.MoietyError, OSError) as error:
                if must:
                    raise
                self.log.warning("share_not_removed", share=name, problem=str(error))
                return  # they stay in the checkpoint, and a later call makes or removes all
        if any(name in self.assignments for name in names):
            self.ledger.checkpoint.drop(*names)

    async def _forget(self, name: str) -> None:
        try:
            await self.line.ask(protocol.RemoveContainer(name=name, force=True), protocol.Contained)
        except errors.ContainerShareUnknown:
            pass  # a process was killed before it made the share, or after it removed it


def _is_so(row: ContainerRow, wanted: protocol.CreateContainer) -> bool:
    return (row.share, row.spec, row.gpus, row.pods, row.labels) == (
        wanted.share,
        wanted.spec,
        wanted.gpus,
        wanted.pods,
        wanted.labels,
    )
