"""Looks for processes that use GPUs without moiety, are idle, or slow others down.

NVML is asked beside the loop, a few times a minute. moiety.enforcement decides what follows, and
the enforcer carries it out.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from moiety.agent.core.client import Client
from moiety.agent.core.gpu_probe import GpuProbe
from moiety.agent.core.gpus import Gpus
from moiety.agent.core.journal import Journal
from moiety.agent.core.recovery import Recovery
from moiety.agent.core.runtime import Runtime
from moiety.agent.core.timeline import Timeline
from moiety.agent.monitor.division_monitor import DivisionMonitor
from moiety.agent.monitor.enforcer import Enforcer
from moiety.agent.monitor.process_finder import Found, ProcessFinder, who_of
from moiety.agent.system import processes
from moiety.agent.system.event_loop import EventLoop, Timer
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.snapshots import TenantView
from moiety.arbiter.states import State
from moiety.devices.interface import Devices, GpuProcess
from moiety.devices.process_identity import Origin
from moiety.enforcement.escalation import Action, Escalation
from moiety.enforcement.idle import Idleness
from moiety.enforcement.interference import (
    WINDOW_S,
    Interference,
    InterferenceCost,
    NotifyOnce,
    Stay,
)
from moiety.enforcement.policy import Offence, Policy, Who
from moiety.enforcement.usage import Use
from moiety.model.format import format_bytes, format_duration
from moiety.wire.layout import SharedFlag

WITHOUT: Final = frozenset({"idle", "queued", "suspended"})
"""States in which a tenant has no work on a GPU except its own transfers."""
LEASE_MARGIN_S: Final = 2.5
"""How late work may be counted: NVML's samples cover the last seconds."""
IDLE_LOOK_S: Final = 10.0
"""Seconds between two looks at all counters, unless a shorter idle time is to be reported."""
ACTIVE: Final = frozenset({"queued", "restoring", "suspended"})
"""States in which a tenant does nothing by no choice of its own."""


@dataclass(slots=True)
class Stranger:
    """One process that uses one GPU without moiety."""

    use: Use
    since_s: float
    worked: deque[tuple[float, float]] = field(default_factory=deque)
    """Time of each look, and the seconds of its work beside programs that share the GPU."""

    def worked_s(self, now_s: float) -> float:
        """How long its work ran within the last minute, beside programs that share the GPU."""
        while self.worked and self.worked[0][0] <= now_s - WINDOW_S:
            self.worked.popleft()
        return sum(much for _, much in self.worked)


class UsageMonitor:
    """Watches which processes use the GPUs; begins with `start`."""

    def __init__(
        self,
        runtime: Runtime,
        loop: EventLoop,
        devices: Devices,
        policy: Policy,
        *,
        probe: GpuProbe,
        gpus: Gpus,
        clients: Mapping[int, Client],
        arbiter: Arbiter,
        recovery: Recovery,
        timeline: Timeline,
        journal: Journal,
    ) -> None:
        self.policy = policy
        self.finder = ProcessFinder(devices)
        self.escalation = Escalation(policy, os.geteuid(), _own_pids())
        self.strangers: dict[tuple[int, int, int], Stranger] = {}
        """By pid, start time and GPU."""
        self.costs: dict[int, InterferenceCost] = {}
        """By tenant: what it cost others within the last minute."""
        self.idleness = Idleness()
        self.uses: list[Use] = []
        """The uses that the last look saw."""
        self._runtime = runtime
        self._loop = loop
        self._probe = probe
        self._gpus = gpus
        self._clients = clients
        self._arbiter = arbiter
        self._recovery = recovery
        self._timeline = timeline
        self._journal = journal
        self._enforcer = Enforcer(runtime, clients, journal)
        self._division = DivisionMonitor(runtime, arbiter, journal)
        self._interference = Interference()
        self._slow = NotifyOnce()
        self._slow_strangers = NotifyOnce()
        self._idle_looked_s = float("-inf")
        self._since_us = 0
        self._before_s = 0.0
        self._evicted: dict[int, int] = {}
        self._is_looking = False
        self._timer: Timer | None = None

    def start(self) -> None:
        """Look every `policy.every_s` from now on."""
        self._timeline.on_stay.append(self._stayed)
        self._since_us = time.time_ns() // 1000
        self._before_s = self._runtime.now()
        if self.finder.is_blind:
            problem = "the agent is not in the host's PID namespace, whose pids NVML tells"
            self._runtime.log.warning("usage_unreadable", problem=problem)
            self._journal.note("WatchBlind", problem)
        if self.policy.every_s > 0:
            self._arm()

    def change(self, policy: Policy) -> None:
        """Decide by this policy from now on; open cases stay open."""
        self.policy = policy
        self.escalation.change(policy)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if policy.every_s > 0:
            self._arm()
        else:
            self._division.stop()

    def stop(self) -> None:
        """Look no more."""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        when_s = self._runtime.now() + self.policy.every_s
        self._timer = self._runtime.call_at(when_s, self._look)

    def _look(self) -> None:
        self._arm()
        if self._is_looking:
            return  # NVML takes its time: one question at a time is enough
        self._is_looking = True
        since_us, self._since_us = self._since_us, time.time_ns() // 1000
        self.find(self.looked, since_us)

    def find(self, then: Callable[[Found], None], since_us: int | None = None) -> None:
        """Ask NVML which processes use the GPUs; nothing is found if it cannot be asked.

        Their work is that since `since_us`, microseconds since 1970; None: since now.
        """
        gpus = list(self._gpus)
        since_us = time.time_ns() // 1000 if since_us is None else since_us

        def ask() -> None:
            try:
                found = self.finder.find(gpus, since_us)
            except Exception as error:  # /proc may show anything; the next look may succeed
                self._runtime.log.warning("usage_not_read", problem=str(error))
                found = {}, {}
            self._loop.call_soon_threadsafe(then, found)

        self._probe.submit(ask)

    def looked(self, found: Found) -> None:
        """Take in what the finder saw a moment ago, and act on it.

        A process whose user is not known yet is left out: rules may depend on the user.
        """
        self._is_looking = False
        users, origins = found
        now_s = self._runtime.now()
        views = {view.tenant: view for view in self._arbiter.tenants()}
        clients = {client.pid: client for client in self._clients.values()}
        answered = [gpu for gpu, seen in users.items() if seen is not None]
        self.uses = [
            use
            for gpu, seen in users.items()
            for user in seen or ()
            if user.pid in origins
            and origins[user.pid].is_named
            and (use := self._use(gpu, user, origins[user.pid], clients.get(user.pid), views))
        ]
        self._meet(now_s, answered, views)
        if not self.finder.is_blind:
            for action in self.escalation.step(now_s, answered, self.uses):
                self._enforcer.act(action)
            self.escalation.acted(self._runtime.now())
        if now_s - self._idle_looked_s >= min(IDLE_LOOK_S, self.policy.idle_s / 8 or IDLE_LOOK_S):
            self._idle_looked_s = now_s
            self._find_idle(now_s, views)
        self._find_slow(now_s, views)
        if self.policy.every_s > 0 and not self.finder.is_blind:
            self._division.look(now_s, users, clients, views)
        self._before_s = now_s

    # What is seen

    def _use(
        self,
        gpu: int,
        user: GpuProcess,
        origin: Origin,
        client: Client | None,
        views: dict[int, TenantView],
    ) -> Use | None:
        who = who_of(origin)
        if client is None:
            if self._recovery.outlived(user.pid):
                return None
            return Use(who, gpu, user.used_bytes, user.busy)
        view = views.get(client.number)
        on = view.gpus.get(gpu) if view else None
        if view is None or on is None:
            return None  # it came or left meanwhile
        limit: int | None = max(on.limit_bytes, on.allocated_bytes)
        if on.managed_bytes or client.shares & SharedFlag.IMPORTED:
            limit = None  # NVML counts managed and imported memory differently
        slack = self.policy.slack_bytes
        if slack is None:
            slack = 2 * self._gpus[gpu].budget.residue_bytes
        return Use(
            who,
            gpu,
            user.used_bytes,
            user.busy,
            client.number,
            limit_bytes=limit,
            beside_bytes=on.residue_bytes + slack,
            leaseless=self._has_no_lease(client, view),
        )

    def _has_no_lease(self, client: Client, view: TenantView) -> bool:
        """Whether a tenant had no lease since long before the last look, and evicted nothing."""
        if view.state not in WITHOUT or client.page.is_open:
            self._evicted.pop(client.number, None)
            return False
        evicted = client.counters().evicted_bytes
        before = self._evicted.get(client.number)
        self._evicted[client.number] = evicted
        return before == evicted and view.since_s < self._before_s - LEASE_MARGIN_S

    def _meet(self, now_s: float, gpus: list[int], views: dict[int, TenantView]) -> None:
        """Update the record of processes that use GPUs without moiety."""
        shared = {gpu for view in views.values() for gpu in view.gpus}
        seen = {}
        for use in self.uses:
            if use.tenant is None:
                key = (use.who.pid, use.who.started, use.gpu)
                known = self.strangers.get(key) or Stranger(use, now_s)
                known.use = use
                if use.gpu in shared and use.busy:
                    known.worked.append((now_s, use.busy * (now_s - self._before_s)))
                seen[key] = known
        for key, known in self.strangers.items():
            if key in seen:
                continue
            if not processes.is_alive(key[0], key[1]):
                for action in self.escalation.left(key[0], key[1]):
                    self._enforcer.act(action)
            elif key[2] not in gpus:
                seen[key] = known
        self.strangers = seen

    def who(self, pid: int) -> Who | None:
        """The identity of a process that was seen on a GPU; None: it was not seen."""
        return next((use.who for use in self.uses if use.who.pid == pid), None)

    def plan(self, policy: Policy) -> list[tuple[float, Action]]:
        """The steps that a policy would take, and when, if the uses seen last went on."""
        dry = dataclasses.replace(policy, dry_run=True)
        trial = Escalation(dry, os.geteuid(), _own_pids())
        times = {0.0}
        for offence in Offence:
            at_s = 0.0
            for rung in policy.ladder(offence).rungs:
                at_s += rung.after_s
                times.add(at_s)
        gpus = list(self._gpus)
        done = [(0.0, action) for action in trial.step(0.0, gpus, self.uses)]
        for at_s in sorted(times):
            done += [(at_s, action) for action in trial.step(at_s, gpus, self.uses)]
        return done

    # Who is idle, who slows others down

    def see_work(self, client: Client, view: TenantView, now_s: float) -> None:
        """Take in whether a process has done anything on a GPU since this was called last."""
        if not view.gpus:
            self.idleness.forget(client.number)
            return
        passes, inside = client.calls()
        works = inside or view.asks or view.state in ACTIVE
        self.idleness.see(client.number, passes, now_s, works=works)

    def _find_idle(self, now_s: float, views: dict[int, TenantView]) -> None:
        for number, client in self._clients.items():
            if view := views.get(number):
                self.see_work(client, view, now_s)
        for number in self.idleness.due(now_s, self.policy.idle_s):
            client, view = self._clients[number], views[number]
            idle = format_duration(round(self.idleness.for_s(number, now_s)))
            text = f"has done nothing on a GPU for {idle}; it holds {holdings(view)}"
            self._runtime.log.info("idle", client=str(client), text=text)
            self._journal.note("Idle", text, client)

    def _find_slow(self, now_s: float, views: dict[int, TenantView]) -> None:
        going_on = [
            Stay(view.tenant, tuple(view.gpus), view.state, view.since_s, now_s)
            for view in views.values()
        ]
        going_on += [
            Stay(tenant, (gpu,), State.QUEUED.value, begin_s, now_s)
            for _, tenant, gpu, begin_s, *_ in self._timeline.waiting_for_more()
        ]
        self.costs = self._interference.costs(now_s, going_on, of=self._clients)
        waited = {who: cost.waited_s for who, cost in self.costs.items()}
        for number in self._slow.due(waited, self.policy.slow_s):
            client, text = self._clients[number], str(self.costs[number])
            self._runtime.log.warning("interference", client=str(client), text=text)
            self._journal.note("SlowNeighbour", text, client)
        worked: dict[int, float] = {}
        for stranger in self.strangers.values():
            pid = stranger.use.who.pid
            worked[pid] = worked.get(pid, 0.0) + stranger.worked_s(now_s)
        due = set(self._slow_strangers.due(worked, self.policy.slow_s))
        for stranger in self.strangers.values():
            who, gpu = stranger.use.who, stranger.use.gpu
            if who.pid in due and stranger.worked_s(now_s):
                text = took(stranger, now_s)
                self._runtime.log.warning("interference", who=str(who), text=text)
                self._journal.note(
                    "SlowNeighbour", text, gpu=gpu, pid=who.pid, program=who.command, uid=who.uid
                )

    def _stayed(
        self, tenant: int, gpus: tuple[int, ...], state: State, begin_s: float, end_s: float
    ) -> None:
        if self.policy.every_s <= 0:
            return  # without looks, old stays would never be dropped
        self._interference.ended(Stay(tenant, gpus, state.value, begin_s, end_s))

    def on_left(self, client: Client) -> None:
        """A process is gone."""
        self.idleness.forget(client.number)
        self._evicted.pop(client.number, None)
        self.costs.pop(client.number, None)
        if not processes.is_alive(client.pid, client.started):  # else it may reconnect
            for action in self.escalation.left(client.pid, client.started):
                self._enforcer.act(action)


def _own_pids() -> frozenset[int]:
    return frozenset({os.getpid(), os.getppid()})


def holdings(view: TenantView) -> str:
    """What a tenant has while it is idle, in words."""
    parts = []
    for gpu, on in sorted(view.gpus.items()):
        host = max(0, on.allocated_bytes - on.resident_bytes)
        text = f"{format_bytes(on.allocated_bytes)} of GPU {gpu}"
        if host:
            text += f" ({format_bytes(host)} of it in host memory)"
        if on.residue_bytes:
            text += f" and {format_bytes(on.residue_bytes)} for its context"
        parts.append(text)
    if view.share.gpu:
        parts.append(f"a guaranteed {view.share.gpu:.0%} of the GPU's time")
    if view.share.memory_bytes:
        parts.append(f"{format_bytes(view.share.memory_bytes)} reserved for it")
    return ", ".join(parts) or "nothing"


def took(stranger: Stranger, now_s: float) -> str:
    """What a process without moiety takes from programs that share the GPU, in words."""
    use = stranger.use
    worked = format_duration(round(stranger.worked_s(now_s), 1))
    return (
        f"took {worked} of GPU {use.gpu}'s time within the last minute, beside programs that share "
        f"it; it uses it without moiety ({use.figures})"
    )
