"""GPUs that get no new workloads, and who is on each GPU."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from moiety.agent.control.card_loads import CardLoad
from moiety.agent.control.cards import Cards
from moiety.agent.control.rows import GpuUse, GpuUser
from moiety.agent.control.running_workload import RunningWorkload
from moiety.agent.core.client import Client
from moiety.agent.core.gpus import Gpus
from moiety.agent.core.journal import Journal
from moiety.agent.core.orphans import Orphans
from moiety.agent.system.users import name_of
from moiety.config.values import Visible
from moiety.model.cards import CardRequest


@dataclass(frozen=True, slots=True)
class GpuDrain:
    """Which GPUs of one agent are drained: what runs there goes on, and nothing new begins."""

    gpus: Gpus
    clients: Mapping[int, Client]
    cards: Cards
    journal: Journal
    orphans: Orphans | None = None

    def find(self, named: Iterable[str]) -> list[str]:
        """UUIDs of the GPUs that a command names; raises BadArgument."""
        uuids = {index: gpu.device.uuid for index, gpu in sorted(self.gpus.items())}
        return [uuids[index] for index in CardRequest(named=tuple(named)).find(uuids)]

    def set(self, uuids: Collection[str], *, drained: bool, is_told: bool = True) -> None:
        """Drain these GPUs, or choose them again; the others stay as they are.

        GPUs that are not here are left out. If it `is_told`, each change is an event.
        """
        for index, gpu in sorted(self.gpus.items()):
            if gpu.device.uuid not in uuids or gpu.is_drained == drained:
                continue
            gpu.is_drained = drained
            if is_told:
                does = "gets no new programs" if drained else "gets new programs again"
                reason = "GpuDrained" if drained else "GpuResumed"
                self.journal.note(reason, f"GPU {index} {does}", gpu=index)

    def rows(
        self, viewer: int, visible: Visible, only: Collection[str] | None = None
    ) -> list[GpuUse]:
        """One row for each GPU (of `only` these UUIDs), with the workloads that a user sees."""
        loads = self.cards.loads()
        return [
            self._row(index, loads.of[index], viewer, visible)
            for index, gpu in sorted(self.gpus.items())
            if only is None or gpu.device.uuid in only
        ]

    def _row(self, index: int, load: CardLoad, viewer: int, visible: Visible) -> GpuUse:
        gpu, on = self.gpus[index], load.on.values()
        seen = [w for w in on if visible is Visible.ALL or w.record.uid == viewer]
        return GpuUse(
            gpu=index,
            uuid=gpu.device.uuid,
            name=gpu.device.name,
            drained=gpu.is_drained,
            lost=gpu.lost,
            capacity_bytes=gpu.budget.capacity_bytes,
            promised_gpu=load.guaranteed_gpu,
            promised_bytes=sum(w.record.promised.memory_bytes for w in on),
            users=[self._user(workload, index) for workload in seen],
            others=len(on) - len(seen),
        )

    def _user(self, workload: RunningWorkload, index: int) -> GpuUser:
        record = workload.record
        clients = [self.clients[n] for n in workload.clients if n in self.clients]
        orphans = self.orphans.by_number().values() if self.orphans else ()
        processes = [(client.pid, client.gpus) for client in clients]
        processes += [(o.pid, set(o.gpus)) for o in orphans if o.known.workload == record.id]
        return GpuUser(
            workload=record.id,
            program=record.name or record.program,
            user=name_of(record.uid),
            pids=sorted(pid for pid, gpus in processes if index in gpus),
            share=record.share,
            suspended=record.suspended,
        )
