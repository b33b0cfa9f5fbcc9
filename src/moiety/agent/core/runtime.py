"""The node: its GPUs, the arbiter over them, and the processes that share them.

Everything that happens becomes an event for the arbiter here, and every instruction that comes
back is carried out (executor.py) before the next event is looked at. The arbiter yields a lease
while it still decides what else follows, because a program waits for it; what is written down
comes after that (docs/decisions/0020).
"""

from __future__ import annotations

import dataclasses
import functools
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from moiety.agent.arena.arena import Arena
from moiety.agent.core import executor
from moiety.agent.core.client import Client
from moiety.agent.core.journal import Journal
from moiety.agent.core.orphans import Missing
from moiety.agent.core.rate_limits import Bounds
from moiety.agent.core.timeline import Timeline
from moiety.agent.shim import gang_detection
from moiety.agent.shim.ipc_broker import Exports
from moiety.agent.shim.wait_messages import Notices
from moiety.agent.system import processes
from moiety.arbiter import events as ev
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.devices.budget import GRANULE_BYTES, Budget
from moiety.devices.interface import Device, Devices, Usage

if TYPE_CHECKING:
    from moiety.agent.monitor.usage_monitor import Watching

RECONNECT_S = 2.0
"""how long a living process may be without a connection before it counts as gone"""
SETTLE_S = 1.0
"""how long a new agent waits for those that outlived the last one"""
SETTLE_MOST_S = 5.0
"""the same for those who are not stopped, and so could come back"""


class Timer(Protocol):
    """Something that can be cancelled."""

    def cancel(self) -> None:
        """Never call."""


class Loop(Protocol):
    """The part of an event loop that the node needs: time, and being told about descriptors."""

    def time(self) -> float:
        """Seconds."""

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call back then."""

    def add_reader(self, fd: int, callback: Callable[..., object], *args: Any) -> Any:
        """Call back whenever the descriptor is readable."""

    def remove_reader(self, fd: int) -> Any:
        """Stop that."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> Any:
        """Call back in the loop's own thread."""


class Kernel(Protocol):
    """What the system knows of processes: processes.py, or a stand-in."""

    def pidfd_of(self, connection: socket.socket, pid: int, /) -> int:
        """A descriptor that becomes readable when the process at the other end dies."""

    def watch(self, pid: int, /) -> int:
        """The same for any process; raises ProcessLookupError."""

    def start_time(self, pid: int, /) -> int | None:
        """When it started; None if it is dead."""

    def name_of(self, pid: int, /) -> str:
        """Its short name."""

    def is_stopped(self, pid: int, /) -> bool:
        """Whether it cannot run for now."""

    def kill(self, pidfd: int, /) -> None:
        """End it."""

    def give_way(self) -> None:
        """Let others run who want this processor."""


@dataclass(slots=True)
class Gpu:
    """One GPU of this node."""

    device: Device
    budget: Budget
    residue_bytes: int
    """what the next context is expected to take: the last measurement"""


class Node:
    """The one place where the arbiter is asked."""

    def __init__(
        self,
        loop: Loop,
        devices: Devices,
        gpus: Iterable[tuple[Device, Budget]],
        settings: Settings,
        log: Any,
        *,
        expected: Iterable[tuple[int, frozenset[int]]] = (),
        fenced: Iterable[int] = (),
        owners: Mapping[int, int] | None = None,
        journal: Journal | None = None,
        kernel: Kernel = processes,
        beside: Executor | None = None,
        shared: bool = False,
    ) -> None:
        """`expected` are (pid, GPUs) of the processes that outlived the last agent.

        `fenced` are the pids of those of them that it had fenced, `owners` their users by pid. NVML
        is asked in `beside`; None: in a thread of its own. `shared`: its programs are of several
        users, who must not hear each other's names.
        """
        self.kernel = kernel
        self.shared = shared
        self.bounds = Bounds()
        self.journal = journal or Journal()
        self.journal.timed_by(loop)
        self.loop = loop
        self.log = log
        self.devices = devices
        self.settings = settings
        self.gpus = {
            device.index: Gpu(device, budget, budget.residue_bytes) for device, budget in gpus
        }
        self.by_uuid = {gpu.device.uuid_bytes: index for index, gpu in self.gpus.items()}
        self.clients: dict[int, Client] = {}
        self.on_changed: list[Callable[[Client], None]] = []
        self.on_left: list[Callable[[Client], None]] = []
        self.on_fed: list[Callable[[ev.Event], None]] = []
        self.watching: Watching | None = None
        """who looks for what goes past us, where somebody does"""
        self.lost: dict[int, str] = {}
        """GPUs that are gone, and why"""
        self.errors: dict[int, dict[int, float]] = {}
        """by GPU: when the driver last reported each error (XID), on the loop's clock"""
        self.arena: Arena | None = None
        """host memory that is made ready, where it is"""
        self.exports = Exports(self)
        """memory of one process in others"""
        self._missing = Missing(self, owners or {})
        self.notices = Notices(self)
        """lines for those who sit before programs"""
        self.exports.on_opened.append(functools.partial(gang_detection.opened, self))
        self._owner_limits: dict[int, tuple[int, str]] = {}
        self._next_number = 1
        self._grace: dict[int, Timer] = {}
        self._expected = dict(expected)
        self._outlived = set(self._expected)
        """whom nobody has heard of since the last agent"""
        self._fenced = set(fenced)
        """of those"""
        self.settled = not self._expected
        self._events: deque[ev.Event] = deque()
        """Events that wait until the instructions of the present one are carried out."""
        self._is_feeding = False
        self._timer: Timer | None = None
        self._timer_s = 0.0
        self._nvml = beside or ThreadPoolExecutor(max_workers=1, thread_name_prefix="nvml")
        specs = [
            GpuSpec(
                gpu=index,
                total_bytes=gpu.budget.total_bytes - gpu.budget.headroom_bytes,
                capacity_bytes=gpu.budget.capacity_bytes,
            )
            for index, gpu in self.gpus.items()
        ]
        self.timeline = Timeline()
        self.arbiter = Arbiter(
            specs,
            settings,
            settled=self.settled,
        )
        if not self.settled:
            loop.call_at(loop.time() + SETTLE_S, self._give_up_waiting)

    def feed(self, event: ev.Event) -> None:
        """Tell the arbiter, do what it wants, and set the clock for what it waits for.

        An event that an instruction brings about is handled after the present one.
        """
        self._events.append(event)
        if self._is_feeding:
            return
        self._is_feeding = True
        try:
            while self._events:
                self._handle(self._events.popleft())
        finally:
            self._is_feeding = False

    def _handle(self, event: ev.Event) -> None:
        now_s = self.timeline.now_s = self.loop.time()
        instructions = self.arbiter.handle(now_s, event)
        try:
            for instruction in instructions:
                executor.carry_out(self, instruction)
        finally:
            for instruction in instructions:  # there is one only if another one failed
                executor.carry_out(self, instruction)
        self.timeline.catch_up()
        for call in self.on_fed:
            call(event)
        deadline_s = self.arbiter.deadline_s
        if deadline_s is not None and (self._timer is None or deadline_s < self._timer_s):
            self._arm(deadline_s)

    def sample(self, client: Client, gpu: int) -> None:
        """Write down how much of a process is on a GPU now."""
        number = client.number
        self.timeline.sample(number, gpu, self.arbiter.resident_bytes(number, gpu))

    def limit_bytes(self, client: Client, gpu: int) -> int:
        """The most that a process may allocate on a GPU."""
        capacity = self.gpus[gpu].budget.capacity_bytes
        limit = client.share.memory_limit_bytes
        return capacity if limit is None else min(limit, capacity)

    def promise(self, client: Client) -> None:
        """See that a process has its part of what its workload is promised.

        Processes of a workload that use the same GPU divide its share equally.
        """
        own = [c for c in self.clients.values() if c.workload == client.workload]
        sharers = [sum(gpu in other.gpus for other in own) for gpu in client.gpus]
        part = client.share.among(max(sharers, default=1))
        if part != client.part:
            client.part = part
            self.feed(ev.ShareSet(client.number, part))
            executor.tell_limits(self, client)

    def limit_owners(self, limits: dict[int, tuple[int, str]]) -> None:
        """What users may allocate on a GPU with all their programs, and the rule in words."""
        if limits != self._owner_limits:
            self._owner_limits = limits
            self.feed(ev.UserLimitsSet(limits))

    def set_settings(self, settings: Settings) -> None:
        """Decide otherwise from now on."""
        self.settings = settings
        self.feed(ev.SettingsSet(settings))

    def number(self) -> int:
        """A number for a new tenant."""
        self._next_number += 1
        return self._next_number - 1

    # Processes come and go

    def known_as(self, pid: int, workload: str) -> Client | None:
        """What a process was until now, if anything."""
        own = [c for c in self.clients.values() if c.pid == pid and c.workload == workload]
        return own[-1] if own else None

    def may_hold(self, pid: int, before: Client | None) -> bool:
        """Whether it can be true that a process has a lease, or had one and has not answered."""
        if before is None:
            return pid in self._outlived
        return self.arbiter.has_work(before.number)

    def is_fenced(self, pid: int, before: Client | None) -> bool:
        """Whether a process that comes back was fenced, and has not answered since."""
        return before.fenced if before else pid in self._fenced

    def join(self, client: Client, event: ev.Hello) -> None:
        """A process introduced itself; whatever the same process was before is over.

        What it had stays its own until it has said what it has, if only its connection broke.
        """
        before = self.known_as(client.pid, client.workload)
        if before and event.resumed:
            event = dataclasses.replace(event, replaces=before.number)
            client.unspoken = before.gpus | before.unspoken
            self._let_go(before, "its connection broke and it has another")
        elif before:
            self.leave(before, "it reconnected")
        if ghost := self._missing.number_of(client.pid):
            if event.resumed:
                event = dataclasses.replace(event, replaces=ghost)
                client.unspoken = set(self.gpus)
            else:
                self.feed(ev.Left(ghost))
            self.timeline.forget(ghost)
        self._outlived.discard(client.pid)
        self._fenced.discard(client.pid)
        self.clients[client.number] = client
        self.timeline.name(client.number, client.pid, client.program, client.workload)
        self.timeline.owners[client.number] = client.uid
        self.loop.add_reader(client.pidfd, self.leave, client, "it ended")
        self.gpus_changed(client)
        self.feed(dataclasses.replace(event, share=client.part))
        if before and event.resumed:
            self._forget(before)
        if client.unspoken:
            self.loop.call_at(self.loop.time() + SETTLE_S, self._give_up_unspoken, client)
        self.came_back(client.pid, client.gpus)

    def _give_up_unspoken(self, client: Client) -> None:
        """It has not spoken of some contexts since its connection broke: they are gone."""
        if self.clients.get(client.number) is client:
            for gpu in sorted(client.unspoken):
                client.unspoken.discard(gpu)
                self.feed(ev.Detach(client.number, gpu))

    def gpus_changed(self, client: Client) -> None:
        """The process is about to use other GPUs: whoever keeps a record of that is told."""
        for call in self.on_changed:
            call(client)

    def disconnected(self, client: Client, reason: str) -> None:
        """The connection is gone; the process may still live, and come back."""
        if client.number not in self.clients:
            return
        if reason:
            self.log.warning("connection dropped", client=str(client), reason=reason)
            self.journal.note("ConnectionLost", reason, client)
        self._await(client)

    def _await(self, client: Client) -> None:
        """Give a process time to come back."""
        when_s = self.loop.time() + RECONNECT_S
        self._grace[client.number] = self.loop.call_at(when_s, self._miss, client)

    def _miss(self, client: Client) -> None:
        """It did not come back in time. While it is stopped, or has memory there, that stays its.

        Who has replaced itself (exec) or has ended its work with the GPU has none any more.
        """
        if self.kernel.is_stopped(client.pid):
            self._await(client)
        else:
            self._seek(client, sorted(client.gpus | client.unspoken))

    def _seek(self, client: Client, gpus: list[int]) -> None:
        """Ask the driver, GPU by GPU, whether a process without a connection has memory there."""
        if self.clients.get(client.number) is not client:
            return
        if not gpus:
            self.leave(client, "it lost its connection and did not come back")
            return

        def looked(usage: Usage | None) -> None:
            if self.clients.get(client.number) is not client:
                return
            if usage is None or usage.processes.get(client.pid):
                self._await(client)
            else:
                self._seek(client, gpus[1:])

        self.look_at(gpus[0], looked)

    def leave(self, client: Client, reason: str) -> None:
        """A process is gone, with everything it had."""
        if self.clients.get(client.number) is client:
            self._let_go(client, reason)
            self.feed(ev.Left(client.number))
            self._forget(client)
            self.came_back(client.pid, None)

    def _let_go(self, client: Client, reason: str) -> None:
        """Give back what is kept for a process; the arbiter is to be told."""
        del self.clients[client.number]
        if timer := self._grace.pop(client.number, None):
            timer.cancel()
        self.loop.remove_reader(client.pidfd)
        client.dispose()
        self.log.info("left", client=str(client), tenant=client.number, reason=reason)
        self.journal.forget(client)
        self.journal.note("Left", reason, client)
        for call in self.on_left:
            call(client)

    def _forget(self, client: Client) -> None:
        """The arbiter knows that it is gone."""
        self.exports.left(client)
        self.notices.left(client)
        self.timeline.forget(client.number)

    def came_back(self, pid: int, gpus: set[int] | None) -> None:
        """One that outlived the last agent is here with these GPUs, or (None) is gone."""
        if self.settled:
            return
        needed = self._expected.get(pid)
        if needed is not None and (gpus is None or needed <= gpus):
            del self._expected[pid]
        if not self._expected:
            self._settle("everybody is back")

    def look(self, client: Client) -> None:
        """Tell the arbiter whether a process that is slow to answer is stopped."""
        if client.number in self.clients:
            self.feed(ev.StopChecked(client.number, self.kernel.is_stopped(client.pid)))

    # GPUs are measured

    def measure(self, client: Client, gpu: int, hint_bytes: int) -> None:
        """Find out, beside the loop, what a context takes, with all that its driver keeps there.

        Where NVML does not tell (in a container, it may not know the process), what was expected
        stands, or what the process saw.
        """
        if self.arbiter.managed_bytes(client.number, gpu):
            return  # NVML counts those of its pages that happen to be there
        before = self._on_gpu(client, gpu)

        def measured(usage: Usage | None) -> None:
            if client.number not in self.clients or gpu not in client.gpus:
                return
            found = usage.processes.get(client.pid) if usage else None
            if found is not None and self._on_gpu(client, gpu) == before:
                residue = max(0, found - before)
            elif hint_bytes:
                residue = hint_bytes
            else:
                return
            if residue and gpu not in client.measured:
                self.gpus[gpu].residue_bytes = residue
                client.measured.add(gpu)
            self.feed(ev.Measured(client.number, gpu, residue))

        self.look_at(gpu, measured)

    def _on_gpu(self, client: Client, gpu: int) -> int:
        """What NVML counts of a process' data: what it has, and what it may use again."""
        at = client.number, gpu
        return self.arbiter.resident_bytes(*at) + self.arbiter.spare_bytes(*at)

    def need(self, client: Client, gpu: int, serial: int, wanted: int) -> None:
        """A process' driver ran out by itself: look what there is, then have room made for it.

        What drivers took since contexts were measured is found out on the way: nobody else may be
        shut out by it. On a small card, a small piece is much.
        """
        total = self.gpus[gpu].device.total_bytes
        wanted = min(wanted, max(GRANULE_BYTES, total // 32))
        before = self._resident(gpu)

        def looked(usage: Usage | None) -> None:
            if client.number not in self.clients or serial not in client.allocating:
                return
            free = None
            if usage is not None:
                free = max(0, total - usage.used_bytes)
                self._correct(gpu, usage, before)
            self.log.info("room needed", client=str(client), gpu=gpu, bytes=wanted, free_bytes=free)
            self.feed(ev.DriverOom(client.number, gpu, serial, wanted, free))

        self.look_at(gpu, looked)

    def _resident(self, gpu: int) -> dict[int, tuple[int, int]]:
        """Of whoever is on a GPU without managed memory, its resident bytes and its residue."""
        return {
            view.tenant: (on.resident_bytes + on.spare_bytes, on.residue_bytes)
            for view in self.arbiter.tenants()
            if (on := view.gpus.get(gpu)) and not self.arbiter.managed_bytes(view.tenant, gpu)
        }

    def _correct(self, gpu: int, usage: Usage, before: dict[int, tuple[int, int]]) -> None:
        """Take more residue as known, of whoever did not move any memory meanwhile."""
        for number, (resident, residue) in self._resident(gpu).items():
            found = usage.processes.get(self.clients[number].pid) if number in self.clients else 0
            more = (found or 0) - resident
            if more > residue and before.get(number, (0, 0))[0] == resident:
                self.feed(ev.Measured(number, gpu, more))

    def beside(self, ask: Callable[[], None]) -> None:
        """Run this in the thread that talks to NVML, one after the other."""
        self._nvml.submit(ask)

    def outlived(self, pid: int) -> bool:
        """Whether a process was here before this agent, and has not come back to it yet."""
        return (not self.settled and pid in self._expected) or self._missing.has(pid)

    def look_at(self, gpu: int, then: Callable[[Usage | None], None]) -> None:
        """Ask NVML beside the loop, which may take milliseconds; None: it does not answer."""

        def ask() -> None:
            try:
                usage = self.devices.usage(gpu)
            except Exception as error:  # whatever NVML raises: there are estimates
                self.log.warning("GPU not readable", gpu=gpu, error=str(error))
                told = f"GPU {gpu}", "GpuUnreadable", f"NVML: {error}", None, gpu
                self.loop.call_soon_threadsafe(self.journal.often, *told)
                usage = None
            self.loop.call_soon_threadsafe(then, usage)

        self._nvml.submit(ask)

    def stop(self) -> None:
        """Hang up on everybody; the pages keep their last word, so holders run on."""
        for client in list(self.clients.values()):
            self.loop.remove_reader(client.pidfd)
            client.dispose()
        self.clients.clear()
        if self._timer:
            self._timer.cancel()
        self._missing.stop()
        self.notices.stop()
        if self.arena:
            self.arena.stop()
        self._nvml.shutdown(wait=False, cancel_futures=True)

    def is_missing(self, pid: int) -> bool:
        """Whether nobody has heard of a process since the last agent."""
        return pid in self._expected and all(c.pid != pid for c in self.clients.values())

    def _give_up_waiting(self, waited_s: float = SETTLE_S) -> None:
        """Whoever is not back is counted by what the driver says.

        That much then cannot leave, and who asks for more is refused for good: so who is only slow,
        on a machine that is busy, has some moments more.
        """
        slow = (pid for pid in self._expected if not self.kernel.is_stopped(pid))
        if not self.settled and waited_s < SETTLE_MOST_S and any(slow):
            when_s = self.loop.time() + SETTLE_S
            self.loop.call_at(when_s, self._give_up_waiting, waited_s + SETTLE_S)
            return
        self._missing.count(list(self._expected), lambda: self._settle("time is up"))

    def _settle(self, reason: str) -> None:
        if not self.settled:
            self.settled = True
            self.log.info("settled", reason=reason, missing=sorted(self._expected))
            self.feed(ev.Settled())
            self.exports.settled()

    # Time

    def _arm(self, when_s: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer_s = when_s
        self._timer = self.loop.call_at(when_s, self._ticked)

    def _ticked(self) -> None:
        """The timer may be older than the deadline: then there is nothing to tell yet."""
        self._timer = None
        deadline_s = self.arbiter.deadline_s
        if deadline_s is None:
            return
        if self.loop.time() < deadline_s:
            self._arm(deadline_s)
        else:
            self.feed(ev.Tick())
