"""Compares what the agent counts with what NVML sees, and lets programs take turns if need be."""

from __future__ import annotations

from collections.abc import Mapping

from moiety.agent.core.client import Client
from moiety.agent.core.journal import Journal
from moiety.agent.core.runtime import Runtime
from moiety.arbiter import events as ev
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.snapshots import TenantView
from moiety.arbiter.states import Apart
from moiety.devices.interface import GpuProcess
from moiety.enforcement.division import Change, Division, Seen


class DivisionMonitor:
    """Tells the arbiter which programs take turns although they fit (enforcement/division.py)."""

    def __init__(self, runtime: Runtime, arbiter: Arbiter, journal: Journal) -> None:
        self._runtime = runtime
        self._arbiter = arbiter
        self._journal = journal
        self._division = Division()

    def look(
        self,
        now_s: float,
        users: Mapping[int, list[GpuProcess] | None],
        clients: Mapping[int, Client],
        views: Mapping[int, TenantView],
    ) -> None:
        """Take in what NVML says of each GPU; `clients` by pid, `views` by tenant."""
        rooms = {view.gpu: view for view in self._arbiter.gpus()}
        for gpu, found in users.items():
            if found is None or gpu not in rooms:
                continue
            known = {clients[user.pid].number: user for user in found if user.pid in clients}
            here = {t: view for t, view in views.items() if gpu in view.gpus}
            seen = []
            for tenant, view in here.items():
                user = known.get(tenant)
                busy, of_mps = (user.busy, user.of_mps) if user else (None, False)
                seen.append(Seen(tenant, view.received_s, busy, of_mps))
            fits = rooms[gpu].allocated_bytes <= rooms[gpu].capacity_bytes
            alone = all(len(view.gpus) == 1 for view in here.values())
            for change in self._division.look(now_s, gpu, seen, fits=fits and alone):
                if change.tenant in views:
                    self._tell(gpu, change)

    def stop(self) -> None:
        """Let all programs hold beside others again, as nothing is compared any more."""
        for tenant in self._division.end():
            self._runtime.feed(ev.DivisionSet(tenant, Apart.NO))

    def _tell(self, gpu: int, change: Change) -> None:
        self._runtime.feed(ev.DivisionSet(change.tenant, Apart(change.apart)))
        reason = "UnequalDivision" if change.apart else "EqualDivision"
        does = "takes turns on" if change.apart else "holds beside others again on"
        text = f"tenant {change.tenant} {does} GPU {gpu}: {change.why}"
        self._runtime.log.info("division_set", gpu=gpu, text=text)
        self._journal.note(reason, text, gpu=gpu)
