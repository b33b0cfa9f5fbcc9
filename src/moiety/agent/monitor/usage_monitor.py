"""Looks who uses the GPUs past us, is idle or slows others down, and does what the policy says.

NVML is asked beside the loop, a few times a minute; what follows is decided in
moiety.enforcement. A process is ended only through a descriptor of it whose start time was
compared, so that a number that was used again is nobody's death.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from moiety.agent.core.client import Client
from moiety.agent.core.runtime import Node, Timer
from moiety.agent.system import processes
from moiety.agent.system.users import USERS, name_of
from moiety.arbiter.snapshots import TenantView
from moiety.arbiter.states import State
from moiety.devices.interface import User
from moiety.devices.process_identity import Origin, origin_of, sees_host_pids
from moiety.enforcement.escalation import Action, Deed, Watch
from moiety.enforcement.idle import Idleness
from moiety.enforcement.interference import WINDOW_S, Cost, Named, Neighbours, Stay
from moiety.enforcement.policy import Offence, Policy, Who
from moiety.enforcement.usage import Use
from moiety.model.format import format_bytes, format_duration
from moiety.wire.layout import SharedFlag
from moiety.wire.messages import WarningMessage

REASONS: Final = {
    Offence.UNREGISTERED: "Unregistered",
    Offence.LIMIT: "OverLimit",
    Offence.LEASE: "WithoutLease",
}
WITHOUT: Final = frozenset({"idle", "queued"})
"""states in which nothing of a tenant is under way on a GPU, but for its own moves"""
LEASE_MARGIN_S: Final = 2.5
"""work may be counted so late: NVML's samples cover the last seconds"""
NAMED_S: Final = 0.02
"""the system's tables may take to say what a user is called, the first time"""
IDLE_LOOK_S: Final = 10.0
"""every program's counters are read so often, unless who is idle for less is to be named"""
ACTIVE: Final = frozenset({"queued", "restoring"})


@dataclass(slots=True)
class Stranger:
    """One process on one GPU that does not share it."""

    use: Use
    since_s: float
    worked: deque[tuple[float, float]] = field(default_factory=deque)
    """when it was looked at, and for how many seconds its work had run while others shared it"""

    def worked_s(self, now_s: float) -> float:
        """How long its work ran within the last minute, beside programs that share the GPU."""
        while self.worked and self.worked[0][0] <= now_s - WINDOW_S:
            self.worked.popleft()
        return sum(much for _, much in self.worked)


Looked = tuple[dict[int, list[User] | None], dict[int, Origin]]
"""by GPU who computes there (None: NVML does not say), and by pid who that is"""


class Watching:
    """The watch of one node; begins with `start`."""

    def __init__(self, node: Node, policy: Policy) -> None:
        self.node = node
        self.policy = policy
        own = frozenset({os.getpid(), os.getppid()})
        self.watch = Watch(policy, os.geteuid(), own)
        self.strangers: dict[tuple[int, int, int], Stranger] = {}
        """by pid, start time and GPU"""
        self.costs: dict[int, Cost] = {}
        """by tenant, within the last minute"""
        self.idleness = Idleness()
        self.uses: list[Use] = []
        """as they were seen last"""
        self.is_blind = not sees_host_pids()
        """NVML's pids mean nothing here, so nobody can be told from anybody else"""
        self._neighbours = Neighbours()
        self._slow = Named()
        self._slow_strangers = Named()
        self._origins: dict[int, Origin] = {}
        self._idle_looked_s = float("-inf")
        self._since_us = 0
        self._before_s = 0.0
        self._evicted: dict[int, int] = {}
        self._is_looking = False
        self._timer: Timer | None = None

    def start(self) -> None:
        """Look now and then, from now on."""
        self.node.watching = self
        self.node.timeline.on_stay.append(self._stayed)
        self.node.on_left.append(self._left)
        self._since_us = time.time_ns() // 1000
        self._before_s = self.node.loop.time()
        if self.is_blind:
            problem = "the agent is not in the host's PID namespace, whose pids NVML tells"
            self.node.log.warning("watch is blind", problem=problem)
            self.node.journal.note("WatchBlind", problem)
        if self.policy.every_s > 0:
            self._arm()

    def change(self, policy: Policy) -> None:
        """Decide otherwise from now on; what goes on is not forgotten."""
        self.policy = policy
        self.watch.change(policy)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if policy.every_s > 0:
            self._arm()

    def stop(self) -> None:
        """Look no more."""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        when_s = self.node.loop.time() + self.policy.every_s
        self._timer = self.node.loop.call_at(when_s, self._look)

    def _look(self) -> None:
        self._arm()
        if self._is_looking:
            return  # NVML takes its time: one question at a time is enough
        self._is_looking = True
        gpus, since_us = list(self.node.gpus), self._since_us
        self._since_us = time.time_ns() // 1000

        def ask() -> None:
            try:
                found = self._ask(gpus, since_us)
            except Exception as error:  # what /proc shows may be anything: the next look may do
                self.node.log.warning("watch saw nothing", problem=str(error))
                found = {}, {}
            self.node.loop.call_soon_threadsafe(self.looked, found)

        self.node.beside(ask)

    def _ask(self, gpus: Iterable[int], since_us: int) -> Looked:
        """Beside the loop: it may take milliseconds."""
        users: dict[int, list[User] | None] = {}
        for gpu in gpus:
            try:
                users[gpu] = self.node.devices.users(gpu, since_us)
            except Exception:  # whatever NVML raises; the rest of the agent says that it does not
                users[gpu] = None  # answer
        pids = {user.pid for found in users.values() for user in found or ()}
        return users, {} if self.is_blind else self._origins_of(pids)

    def _origins_of(self, pids: set[int]) -> dict[int, Origin]:
        """Whose they are; what was read before counts while the start time is the same.

        Without those whose user has not been found out yet: rules may be about that, so they are
        seen when it has. Whoever waits for NVML waits for this as well, so it is not awaited.
        """
        found = {}
        for pid in pids:
            known = self._origins.get(pid)
            if known is None or processes.start_time(pid) != known.started:
                known = origin_of(pid, name_of=name_of)
            if known is None:
                continue
            user = USERS.wait_for(known.uid, NAMED_S)
            if user.is_known:
                found[pid] = dataclasses.replace(known, user=user.name)
        self._origins = found
        return found

    def looked(self, found: Looked) -> None:
        """This is what there was to see a moment ago."""
        self._is_looking = False
        users, origins = found
        now_s = self.node.loop.time()
        views = {view.tenant: view for view in self.node.arbiter.tenants()}
        clients = {client.pid: client for client in self.node.clients.values()}
        answered = [gpu for gpu, seen in users.items() if seen is not None]
        self.uses = [
            use
            for gpu, seen in users.items()
            for user in seen or ()
            if user.pid in origins
            and (use := self._use(gpu, user, origins[user.pid], clients.get(user.pid), views))
        ]
        self._meet(now_s, answered, views)
        if not self.is_blind:
            for action in self.watch.step(now_s, answered, self.uses):
                self._act(action)
        if now_s - self._idle_looked_s >= min(IDLE_LOOK_S, self.policy.idle_s / 8 or IDLE_LOOK_S):
            self._idle_looked_s = now_s
            self._find_idle(now_s, views)
        self._find_slow(now_s, views)
        self._before_s = now_s

    # What is seen

    def _use(
        self,
        gpu: int,
        user: User,
        origin: Origin,
        client: Client | None,
        views: dict[int, TenantView],
    ) -> Use | None:
        who = who_of(origin)
        if client is None:
            if self.node.outlived(user.pid):
                return None
            return Use(who, gpu, user.used_bytes, user.busy)
        view = views.get(client.number)
        on = view.gpus.get(gpu) if view else None
        if view is None or on is None:
            return None  # it came or left meanwhile
        limit: int | None = max(on.limit_bytes, on.allocated_bytes)
        if on.managed_bytes or client.shares & SharedFlag.IMPORTED:
            limit = None  # of what the driver pages, or others made, it tells something else
        slack = self.policy.slack_bytes
        if slack is None:
            slack = 2 * self.node.gpus[gpu].budget.residue_bytes
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
        """Whether it had none since long before the last look, and has not moved anything since."""
        if view.state not in WITHOUT or client.page.is_open:
            self._evicted.pop(client.number, None)
            return False
        evicted = client.counters().evicted_bytes
        before = self._evicted.get(client.number)
        self._evicted[client.number] = evicted
        return before == evicted and view.since_s < self._before_s - LEASE_MARGIN_S

    def _client_of(self, pid: int) -> Client | None:
        return next((c for c in self.node.clients.values() if c.pid == pid), None)

    def _meet(self, now_s: float, gpus: list[int], views: dict[int, TenantView]) -> None:
        """Keep the record of those who share nothing."""
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
            if key[2] not in gpus:
                seen.setdefault(key, known)
            elif key not in seen and not processes.is_alive(key[0], key[1]):
                for action in self.watch.left(key[0], key[1]):
                    self._act(action)
        self.strangers = seen

    def who(self, pid: int) -> Who | None:
        """Whose a process is that was seen on a GPU."""
        return next((use.who for use in self.uses if use.who.pid == pid), None)

    # What is done

    def _act(self, action: Action) -> None:
        use = action.use
        client = self.node.clients.get(use.tenant) if use.tenant is not None else None
        text = action.text + f"; {action.threat}" * bool(action.threat)
        self.node.log.warning(
            "watch",
            deed=action.deed.value,
            offence=action.offence.value,
            who=str(use.who),
            uid=use.who.uid,
            gpu=use.gpu,
            text=text,
            dry_run=action.dry_run,
        )
        if action.dry_run and action.deed in (Deed.WARN, Deed.EVENT, Deed.KILL):
            self._note("WouldAct", f"would {_WOULD[action.deed]}: {text}", action, client)
            return
        match action.deed:
            case Deed.WARN:
                if client:
                    said = f"this program {text}"
                    client.connection.send(WarningMessage(text=said).encode())
            case Deed.EVENT:
                self._note(REASONS[action.offence], text, action, client)
            case Deed.SPARE:
                self._note("Spared", text, action, client)
            case Deed.OVER:
                self._note("OffenceOver", f"{action.offence.value}: {text}", action, client)
            case Deed.KILL:
                self._kill(action, client)

    def _note(self, reason: str, text: str, action: Action, client: Client | None) -> None:
        who = action.use.who
        whose = f"user {who.user}" + f", {who.where}" * bool(who.where)
        self.node.journal.note(
            reason,
            f"{text} ({whose})",
            client,
            action.use.gpu,
            pid=who.pid,
            program=who.command,
            uid=who.uid,
            pod=who.pod,
        )

    def _kill(self, action: Action, client: Client | None) -> None:
        """End that very process, if it is still there and still what it was."""
        who = action.use.who
        if action.offence is Offence.UNREGISTERED and self._client_of(who.pid) is not None:
            return  # it came to us meanwhile
        try:
            pidfd = os.pidfd_open(who.pid)
        except OSError:
            return  # it is gone
        try:
            if processes.start_time(who.pid) != who.started:
                return  # somebody else has its number
            try:
                processes.kill(pidfd)
            except OSError as error:
                self._note("Spared", f"it cannot be ended: {error.strerror}", action, client)
                return
        finally:
            os.close(pidfd)
        self._note("Killed", action.text, action, client)

    def plan(self, policy: Policy) -> list[tuple[float, Action]]:
        """What would be done, and after how long, if what was seen last went on under a policy."""
        own = frozenset({os.getpid(), os.getppid()})
        trial = Watch(dataclasses.replace(policy, dry_run=True), os.geteuid(), own)
        times = {0.0}
        for offence in Offence:
            at_s = 0.0
            for rung in policy.ladder(offence).rungs:
                at_s += rung.after_s
                times.add(at_s)
        gpus = list(self.node.gpus)
        done = [(0.0, action) for action in trial.step(0.0, gpus, self.uses)]
        for at_s in sorted(times):
            done += [(at_s, action) for action in trial.step(at_s, gpus, self.uses)]
        return done

    # Who is idle, who slows others down

    def _find_idle(self, now_s: float, views: dict[int, TenantView]) -> None:
        for number, client in self.node.clients.items():
            view = views.get(number)
            if view is None or not view.gpus:
                self.idleness.forget(number)
                continue
            passes, inside = client.calls()
            works = inside or view.asks or view.state in ACTIVE
            self.idleness.see(number, passes, now_s, works=works)
        for number in self.idleness.due(now_s, self.policy.idle_s):
            client, view = self.node.clients[number], views[number]
            idle = format_duration(round(self.idleness.for_s(number, now_s)))
            text = f"has done nothing on a GPU for {idle}; it holds {holdings(view)}"
            self.node.log.info("idle", client=str(client), text=text)
            self.node.journal.note("Idle", text, client)

    def _find_slow(self, now_s: float, views: dict[int, TenantView]) -> None:
        going_on = [
            Stay(view.tenant, tuple(view.gpus), view.state, view.since_s, now_s)
            for view in views.values()
        ]
        going_on += [
            Stay(tenant, (gpu,), State.QUEUED.value, begin_s, now_s)
            for _, tenant, gpu, begin_s, *_ in self.node.timeline.waiting_for_more()
        ]
        self.costs = self._neighbours.costs(now_s, going_on, of=self.node.clients)
        waited = {who: cost.waited_s for who, cost in self.costs.items()}
        for number in self._slow.due(waited, self.policy.slow_s):
            client, text = self.node.clients[number], str(self.costs[number])
            self.node.log.warning("slow neighbour", client=str(client), text=text)
            self.node.journal.note("SlowNeighbour", text, client)
        worked: dict[int, float] = {}
        for stranger in self.strangers.values():
            pid = stranger.use.who.pid
            worked[pid] = worked.get(pid, 0.0) + stranger.worked_s(now_s)
        due = set(self._slow_strangers.due(worked, self.policy.slow_s))
        for stranger in self.strangers.values():
            who = stranger.use.who
            if who.pid in due and stranger.worked_s(now_s):
                text = took(stranger, now_s)
                self.node.log.warning("slow neighbour", who=str(who), text=text)
                self.node.journal.note(
                    "SlowNeighbour",
                    text,
                    gpu=stranger.use.gpu,
                    pid=who.pid,
                    program=who.command,
                    uid=who.uid,
                )

    def _stayed(
        self, tenant: int, gpus: tuple[int, ...], state: State, begin_s: float, end_s: float
    ) -> None:
        if self.policy.every_s <= 0:
            return  # nobody ever looks, so old ones would stay
        self._neighbours.ended(Stay(tenant, gpus, state.value, begin_s, end_s))

    def _left(self, client: Client) -> None:
        self.idleness.forget(client.number)
        self._evicted.pop(client.number, None)
        self.costs.pop(client.number, None)
        if not processes.is_alive(client.pid, client.started):  # else it may just come anew
            for action in self.watch.left(client.pid, client.started):
                self._act(action)


_WOULD: Final = {Deed.WARN: "warn it", Deed.EVENT: "tell of it", Deed.KILL: "end it"}


def who_of(origin: Origin) -> Who:
    """A process as the policy knows it."""
    placed = origin.placement
    return Who(
        pid=origin.pid,
        started=origin.started,
        uid=origin.uid,
        user=origin.user,
        command=origin.command,
        container=placed.container,
        runtime=placed.runtime,
        pod=placed.pod,
        where=origin.where,
    )


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
        parts.append(f"{format_bytes(view.share.memory_bytes)} that nobody else may use")
    return ", ".join(parts) or "nothing"


def took(stranger: Stranger, now_s: float) -> str:
    """What a process that shares nothing takes from those who do."""
    use = stranger.use
    worked = format_duration(round(stranger.worked_s(now_s), 1))
    return (
        f"took {worked} of GPU {use.gpu}'s time within the last minute, beside programs that share "
        f"it; it uses it without moiety ({use.figures})"
    )
