"""NVML, asked in a thread beside the loop: one question may take milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor as ThreadPool
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from moiety.agent.core.client import Client
from moiety.agent.core.gpus import Gpus, MeasuredContext
from moiety.agent.core.journal import Journal
from moiety.agent.core.runtime import Runtime
from moiety.agent.system.event_loop import EventLoop
from moiety.agent.system.kernel import Kernel
from moiety.arbiter import events as ev
from moiety.arbiter.machine import Arbiter
from moiety.devices.budget import GRANULE_BYTES
from moiety.devices.interface import Devices, Usage
from moiety.model.format import format_bytes

MADE_WITHIN_S: Final = 30.0
"""After this long, no room is kept for a context that was announced and that NVML does not show.

It counts again once it is made.
"""


class GpuProbe:
    """Measures contexts, and finds what the driver took when it ran out of memory."""

    def __init__(
        self,
        runtime: Runtime,
        loop: EventLoop,
        devices: Devices,
        gpus: Gpus,
        clients: Mapping[int, Client],
        arbiter: Arbiter,
        journal: Journal,
        worker: ThreadPool | None = None,
        *,
        kernel: Kernel,
        shared: bool = False,
    ) -> None:
        """NVML is asked in `worker`; None: in a thread of its own.

        `shared`: there are programs of several users.
        """
        self._runtime = runtime
        self._loop = loop
        self._devices = devices
        self._gpus = gpus
        self._clients = clients
        self._arbiter = arbiter
        self._journal = journal
        self._worker = worker or ThreadPoolExecutor(max_workers=1, thread_name_prefix="nvml")
        self._shared = shared
        self._kernel = kernel
        self._names_clients = False
        """Whether NVML has named a registered process, so that it names all that have a context."""

    def submit(self, ask: Callable[[], None]) -> None:
        """Run this in the thread that talks to NVML, after what was submitted before."""
        self._worker.submit(ask)

    def usage(self, gpu: int, then: Callable[[Usage | None], None]) -> None:
        """Ask what a GPU's memory is used for; `then` gets None if NVML does not answer."""

        def ask() -> None:
            try:
                usage = self._devices.usage(gpu)
            except Exception as error:  # NVML raises anything; estimates remain
                self._runtime.log.warning("gpu_unreadable", gpu=gpu, error=str(error))
                told = f"GPU {gpu}", "GpuUnreadable", f"NVML: {error}", None, gpu
                self._loop.call_soon_threadsafe(self._journal.often, *told)
                usage = None
            self._loop.call_soon_threadsafe(then, usage)

        self._worker.submit(ask)

    def announce(self, client: Client, gpu: int, *, exists: bool) -> str:
        """A process asks for a context: later, look whether there is one.

        `exists`: it says that there is one, so look at once as well. Returns why its user has
        announced too many already; empty if it has not.
        """
        why = self._gpus[gpu].refuse_announced(client.uid, client.account) if self._shared else ""
        if exists and not self._kernel.has_host_pids():
            return why
        self._watch_for(client, gpu)
        if exists:
            self.usage(gpu, partial(self._seen, client, gpu))
        return why

    def _seen(self, client: Client, gpu: int, usage: Usage | None) -> None:
        """End an announcement if NVML names the process."""
        if usage is not None and client.pid in usage.processes:
            self._names_clients = self._kernel.has_host_pids()
            self._gpus[gpu].end_announcement(client.number)

    def _watch_for(self, client: Client, gpu: int) -> None:
        timer = self._loop.call_later(MADE_WITHIN_S, self._look_for, client, gpu)
        self._gpus[gpu].announce(client.number, client.account, timer)

    def _look_for(self, client: Client, gpu: int) -> None:
        waits = gpu in client.attaching.values()
        if waits or self._kernel.is_stopped(client.pid):
            self._watch_for(client, gpu)
        else:
            self.usage(gpu, partial(self._looked_for, client, gpu))

    def _looked_for(self, client: Client, gpu: int, usage: Usage | None) -> None:
        """Keep no room for a context if NVML names other processes, but not this one."""
        announced = self._gpus[gpu].announced
        if usage is None or client.number not in announced or gpu in client.attaching.values():
            return
        if client.pid in usage.processes:
            self._gpus[gpu].end_announcement(client.number)
        elif self._names_clients:
            text = f"it announced a context on GPU {gpu}, and has none; no room is kept for it"
            self._journal.often(client.number, "ContextMissing", text, client, gpu)
            self._gpus[gpu].end_announcement(client.number)
            self._runtime.feed(ev.Measured(client.number, gpu, 0))

    def measure(self, client: Client, gpu: int, hint_bytes: int) -> None:
        """Measure a context of a process, with everything that its driver keeps there.

        If NVML names no process (in a container it may not), the size that the process saw counts,
        up to the estimate: it is only the process' word.
        """
        if self._arbiter.managed_bytes(client.number, gpu):
            return  # of managed memory, NVML counts the pages that are resident now
        before = self._data_bytes(client, gpu)
        if not self._kernel.has_host_pids():  # NVML will never name it
            self._gpus[gpu].end_announcement(client.number)

        def measured(usage: Usage | None) -> None:
            if client.number not in self._clients or gpu not in client.gpus:
                return
            found = usage.processes.get(client.pid) if usage else None
            if found is not None:
                self._names_clients = self._kernel.has_host_pids()
                self._gpus[gpu].end_announcement(client.number)
            if found is not None and self._data_bytes(client, gpu) == before:
                residue = max(0, found - before)
                if residue:
                    context = MeasuredContext(client.uid, residue)
                    self._gpus[gpu].contexts.setdefault(client.number, context)
            elif hint_bytes and not (usage and found is None and self._names_clients):
                residue = min(hint_bytes, self._gpus[gpu].budget.residue_bytes)
            else:
                return
            self._runtime.feed(ev.Measured(client.number, gpu, residue))

        self.usage(gpu, measured)

    def left(self, client: Client) -> None:
        """A process is gone: no later context is expected to be like its own."""
        for gpu in self._gpus.values():
            gpu.contexts.pop(client.number, None)
            gpu.end_announcement(client.number)

    def _data_bytes(self, client: Client, gpu: int) -> int:
        """Return what NVML counts of a process' data: resident, and kept for reuse."""
        at = client.number, gpu
        return self._arbiter.resident_bytes(*at) + self._arbiter.spare_bytes(*at)

    def driver_oom(self, client: Client, gpu: int, serial: int, wanted: int) -> None:
        """A process' driver ran out of memory: find what is free, then have room made for it.

        What other drivers took since their contexts were measured is found on the way. On a small
        card, a small piece is much.
        """
        total = self._gpus[gpu].device.total_bytes
        wanted = min(wanted, max(GRANULE_BYTES, total // 32))
        before = self._resident(gpu)

        def looked(usage: Usage | None) -> None:
            if client.number not in self._clients or serial not in client.allocating:
                return
            free = None
            if usage is not None:
                free = max(0, total - usage.used_bytes)
                self._correct(gpu, usage, before)
            self._runtime.log.info(
                "driver_oom", client=str(client), gpu=gpu, bytes=wanted, free_bytes=free
            )
            self._runtime.feed(ev.DriverOom(client.number, gpu, serial, wanted, free))

        self.usage(gpu, looked)

    def _resident(self, gpu: int) -> dict[int, tuple[int, int]]:
        """Return data and residue of each tenant on a GPU that has no managed memory."""
        return {
            view.tenant: (on.resident_bytes + on.spare_bytes, on.residue_bytes)
            for view in self._arbiter.tenants()
            if (on := view.gpus.get(gpu)) and not self._arbiter.managed_bytes(view.tenant, gpu)
        }

    def _correct(self, gpu: int, usage: Usage, before: dict[int, tuple[int, int]]) -> None:
        """Raise the residue of tenants whose memory did not move meanwhile."""
        for number, (resident, residue) in self._resident(gpu).items():
            client = self._clients.get(number)
            found = usage.processes.get(client.pid) if client else 0
            more = (found or 0) - resident
            if more > residue and before.get(number, (0, 0))[0] == resident:
                self._runtime.feed(ev.Measured(number, gpu, more))
                self._name(self._clients[number], gpu, more - residue)

    def _name(self, client: Client, gpu: int, more: int) -> None:
        """Record that a process has far more than it reported: more than another context takes."""
        if more > self._gpus[gpu].budget.residue_bytes:
            text = f"it has {format_bytes(more)} more on GPU {gpu} than it reported; they count now"
            self._journal.often(client.number, "Unreported", text, client, gpu)

    def stop(self) -> None:
        """Ask no more."""
        self._worker.shutdown(wait=False, cancel_futures=True)
