"""What was promised to workloads that use no GPU yet: the arbiter keeps it for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moiety.agent.control.running_workload import RunningWorkload
from moiety.agent.control.workloads import Workloads
from moiety.agent.core.client import Client
from moiety.agent.core.gpus import Gpus
from moiety.agent.core.runtime import Runtime
from moiety.arbiter import events as ev
from moiety.arbiter.admission.guarantees import Promised


def coming(
    workloads: Iterable[RunningWorkload],
    clients: Mapping[int, Client],
    gpus: Gpus,
    gpu: int,
) -> list[RunningWorkload]:
    """The workloads that will use this GPU, and of which no process uses it yet.

    Of a workload that was given no GPUs it is not known which one it will take, if there are
    several: its share is checked again when it does.
    """
    uuid = gpus[gpu].device.uuid
    alone = len(gpus) == 1
    found = []
    for workload in workloads:
        if not (workload.is_alive or workload.stays):
            continue
        own = [clients[number] for number in workload.clients if number in clients]
        if uuid in workload.cards:
            uses = any(gpu in client.gpus or gpu in client.unspoken for client in own)
        elif alone:
            uses = any(client.gpus or client.unspoken for client in own)
        else:
            continue
        if not uses:
            found.append(workload)
    return found


def promised(workloads: Iterable[RunningWorkload]) -> Promised:
    """What the shares of workloads guarantee together."""
    shares = [workload.record.share for workload in workloads]
    return Promised(
        gpu=sum(share.gpu or 0.0 for share in shares),
        memory_bytes=sum(share.memory_bytes for share in shares),
    )


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
        for gpu, managed in self._gpus.items():
            workloads = coming(self._workloads.by_id.values(), self._clients, self._gpus, gpu)
            kept = [w for w in workloads if w.record.share.memory_bytes]
            contexts = sum(managed.expected_residue_bytes(w.record.uid) for w in kept)
            event = ev.PromiseSet(
                gpu,
                memory_bytes=promised(kept).memory_bytes,
                residue_bytes=min(contexts, managed.budget.total_bytes // 2),
            )
            if event != self._told[gpu]:
                self._told[gpu] = event
                self._runtime.feed(event)
