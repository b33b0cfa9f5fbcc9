"""Orphans: processes that outlived the last agent and have not come back; their memory counts.

A stopped process cannot say what it has, and its memory must not be given away before it continues.
So the agent asks the driver how much of each GPU the process has. That much stays counted until the
process connects, has no memory there any more, or is dead. The credit that the last agent may have
granted is counted too: the process may still allocate it, and the driver does not know of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from moiety.agent.core.gpu_probe import GpuProbe
from moiety.agent.core.gpus import Gpus
from moiety.agent.core.journal import Journal
from moiety.agent.core.runtime import LiveSettings, Runtime
from moiety.agent.core.timeline import Timeline
from moiety.agent.system.event_loop import EventLoop
from moiety.agent.system.kernel import Kernel
from moiety.agent.system.users import name_of
from moiety.arbiter import events as ev
from moiety.arbiter.admission.credit import most_bytes
from moiety.devices.interface import Usage
from moiety.model.units import format_bytes

LOOK_S: Final = 5.0
"""Seconds between two checks whether an orphan still has memory."""
PATIENCE_S: Final = 1.0
"""Seconds that the driver may take to answer."""

NO_USER: Final = -1
"""The user of a process of which the last agent recorded nothing but its pid."""
Taken = dict[int, dict[int, int]]
"""Bytes by GPU by pid."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the last agent knew of a process."""

    uid: int = NO_USER
    workload: str = ""
    name: str = ""
    """Name of the workload's processes; empty: the one that they give themselves."""


@dataclass(slots=True)
class Orphan:
    """One orphan, as the arbiter knows it: a tenant that does nothing and cannot be moved."""

    number: int
    pid: int
    pidfd: int
    program: str
    known: Known
    gpus: frozenset[int]


class Orphans:
    """The orphans of one agent."""

    def __init__(
        self,
        runtime: Runtime,
        loop: EventLoop,
        *,
        probe: GpuProbe,
        kernel: Kernel,
        gpus: Gpus,
        settings: LiveSettings,
        timeline: Timeline,
        journal: Journal,
        next_number: Callable[[], int],
        known: Mapping[int, Known],
        account_of: Callable[[int], int],
        shared: bool = False,
    ) -> None:
        """`known` is by pid; `account_of` names the user whose limits count a user.

        `next_number` numbers a tenant.

        `shared`: programs of several users are here, who must not learn each other's names.
        """
        self._runtime = runtime
        self._loop = loop
        self._probe = probe
        self._kernel = kernel
        self._gpus = gpus
        self._settings = settings
        self._timeline = timeline
        self._journal = journal
        self._next_number = next_number
        self._known = known
        self._account_of = account_of
        self._shared = shared
        self._orphans: dict[int, Orphan] = {}
        """By pid."""
        self._used: dict[int, int] = {}
        """By GPU: the bytes in use that the driver reported last."""

    def count(
        self,
        pids: Iterable[int],
        is_missing: Callable[[int], bool],
        then: Callable[[], None],
    ) -> None:
        """Count what these processes have, as the driver says, then call `then`."""
        missing = list(pids)
        done = False

        def go_on() -> None:
            nonlocal done
            if not done:
                done = True
                then()

        def found(taken: Taken | None) -> None:
            if not done and taken is not None:
                for pid in missing:
                    if pid in taken and is_missing(pid):
                        self._count(pid, taken[pid])
            go_on()

        if missing:
            self._ask(sorted(self._gpus), {}, found)
            self._runtime.call_at(self._runtime.now() + PATIENCE_S, go_on)
        else:
            go_on()

    def number_of(self, pid: int) -> int:
        """Return an orphan's tenant, 0 for none, and stop watching it."""
        orphan = self._orphans.pop(pid, None)
        if orphan is None:
            return 0
        self._unwatch(orphan)
        return orphan.number

    def has(self, pid: int) -> bool:
        """Whether a process is an orphan."""
        return pid in self._orphans

    def by_number(self) -> dict[int, Orphan]:
        """Return all orphans by tenant."""
        return {orphan.number: orphan for orphan in self._orphans.values()}

    def is_stopped(self, orphan: Orphan) -> bool:
        """Whether its process is stopped, and so cannot come back."""
        return self._kernel.is_stopped(orphan.pid)

    def stop(self) -> None:
        """Stop watching all orphans."""
        for orphan in self._orphans.values():
            self._unwatch(orphan)
        self._orphans.clear()

    def _unwatch(self, orphan: Orphan) -> None:
        self._loop.remove_reader(orphan.pidfd)
        os.close(orphan.pidfd)

    def _count(self, pid: int, taken: dict[int, int]) -> None:
        try:
            pidfd = self._kernel.watch(pid)
        except OSError:
            return  # it is dead
        known = self._known.get(pid, Known())
        program = known.name or self._kernel.name_of(pid)
        name = f"{program} (pid {pid})"
        owner = known.uid
        orphan = Orphan(self._next_number(), pid, pidfd, program, known, frozenset(taken))
        self._orphans[pid] = orphan
        self._loop.add_reader(pidfd, self._gone, orphan)
        self._timeline.name(orphan.number, pid, program, known.workload)
        if owner != NO_USER:
            self._timeline.owners[orphan.number] = owner
        account = owner if owner == NO_USER else self._account_of(owner)
        told = f"tenant {orphan.number} of {name_of(owner)}" if self._shared else name
        # Its memory counts towards its user's limit.
        self._runtime.feed(ev.Hello(orphan.number, pinned=True, name=told, uid=account))
        total = 0
        for gpu, amount in taken.items():
            residue = min(amount, self._gpus[gpu].expected_residue_bytes(owner))
            data = amount - residue + self._allowed(gpu)
            total += amount
            self._runtime.feed(
                ev.Attach(orphan.number, gpu, 0, residue, data, data, data, exists=True)
            )
        self._runtime.log.warning("orphaned", pid=pid, bytes=total)
        text = f"{name} has {format_bytes(total)} of the GPUs and has not found the new agent"
        uid = None if owner == NO_USER else owner
        self._journal.note("Missing", text, pid=pid, program=program, uid=uid)
        self._runtime.call_at(self._runtime.now() + LOOK_S, self._look, orphan)

    def _allowed(self, gpu: int) -> int:
        """Bytes of credit that a process may have on a GPU, at most what is free there."""
        budget = self._gpus[gpu].budget
        free = budget.total_bytes - self._used.get(gpu, 0)
        return max(0, min(most_bytes(self._settings.now, budget.capacity_bytes), free))

    def _look(self, orphan: Orphan) -> None:
        """Check whether an orphan still has memory: it may have ended its work, or called exec."""
        if self._orphans.get(orphan.pid) is orphan:
            self._ask(sorted(self._gpus), {}, lambda taken: self._looked(orphan, taken))

    def _looked(self, orphan: Orphan, taken: Taken | None) -> None:
        if self._orphans.get(orphan.pid) is not orphan:
            return
        if taken is None or orphan.pid in taken or self._kernel.is_stopped(orphan.pid):
            self._runtime.call_at(self._runtime.now() + LOOK_S, self._look, orphan)
        else:
            self._gone(orphan)

    def _gone(self, orphan: Orphan) -> None:
        if self._orphans.pop(orphan.pid, None) is orphan:
            self._unwatch(orphan)
            self._runtime.feed(ev.Left(orphan.number))
            self._timeline.forget(orphan.number)

    def _ask(
        self,
        gpus: list[int],
        taken: Taken,
        then: Callable[[Taken | None], None],
    ) -> None:
        """Ask what all processes have, GPU by GPU; `then` gets None if NVML does not answer."""
        if not gpus:
            then(taken)
            return

        def looked(usage: Usage | None) -> None:
            if usage is None:
                then(None)
                return
            self._used[gpus[0]] = usage.used_bytes
            for pid, amount in usage.processes.items():
                if amount:
                    taken.setdefault(pid, {})[gpus[0]] = amount
            self._ask(gpus[1:], taken, then)

        self._probe.usage(gpus[0], looked)
