"""What was promised to workloads that use no GPU yet: the arbiter keeps it for them."""

from __future__ import annotations

from collections.abc import Mapping

from moiety.agent.control.card_loads import CardLoads
from moiety.agent.control.workloads import Workloads
from moiety.agent.core.client import Client
from moiety.agent.core.gpus import Gpus
from moiety.agent.core.runtime import Runtime
from moiety.arbiter import events as ev


class Promises:
    """Tells the arbiter what to keep for workloads that use no GPU yet."""

    def __init__(
        self, runtime: Runtime, clients: Mapping[int, Client], gpus: Gpus, workloads: Workloads
    ) -> None:
        """Listens to workloads and processes that come and go."""
        self._runtime = runtime
        self._clients = clients
        self._gpus = gpus
        self._workloads = workloads
        self._told = {gpu: ev.PromiseSet(gpu, 0, 0) for gpu in gpus}
        workloads.on_owner.append(self._changed)

    def _changed(self, uid: int) -> None:
        """The workloads of a user have changed."""
        del uid
        loads = CardLoads(self._workloads.by_id.values(), self._clients, self._gpus)
        for gpu, managed in self._gpus.items():
            coming = loads.of[gpu].coming.values()
            kept = [w for w in coming if w.record.share.memory_bytes]
            contexts = sum(managed.expected_residue_bytes(w.record.uid) for w in kept)
            event = ev.PromiseSet(
                gpu,
                memory_bytes=sum(w.record.promised.memory_bytes for w in kept),
                residue_bytes=min(contexts, managed.budget.total_bytes // 2),
            )
            if event != self._told[gpu]:
                self._told[gpu] = event
                self._runtime.feed(event)
