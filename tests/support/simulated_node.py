"""A node that carries messages between simulated tenants and an arbiter.

A `SimulatedNode` delivers messages one at a time, in order for each process and each direction, as
late as the test wants. Nothing here reads a clock.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.schedule.armed import Armed
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.arbiter.snapshots import TenantView
from moiety.arbiter.states import Apart
from tests.support.simulated_tenants import SimulatedTenant

EXACT_S = 1e-6
LATE_S = 1000.0
UNTOLD = do.Overdue | do.CheckStopped | do.HostShort | do.Suspended
"""What no process is told."""
MEANWHILE_S = 0.05
"""How long after the first half of a hand-off its holder may ask for the next (MEANWHILE_NS)."""


def handle(arbiter: Arbiter, now_s: float, event: ev.Event) -> list[do.Instruction]:
    """All that an arbiter wants done after an event, without what is only written down."""
    told = arbiter.handle(now_s, event)
    return [each for each in told if not isinstance(each, do.StateChanged)]


def leases(told: Iterable[do.Instruction]) -> list[do.Instruction]:
    """What an arbiter wants done to leases."""
    return [each for each in told if isinstance(each, do.Grant | do.Revoke)]


def decided(armed: Armed) -> do.Instruction:
    """An armed transition as the arbiter decides it."""
    kind = do.Grant if armed.grants else do.Revoke
    return kind(armed.target, armed.epoch)


def message(armed: Armed) -> ev.Event:
    """The message that fires an armed transition."""
    if armed.silent_epoch is not None:
        return ev.Idle(armed.source, armed.silent_epoch)
    if armed.drained_epoch is None:
        return ev.LeaseRequest(armed.source)
    return ev.Drained(armed.source, armed.drained_epoch)


def matches(armed: Armed, event: ev.Event) -> bool:
    """Whether an event fires an armed transition."""
    if isinstance(event, ev.Drained):
        return (event.tenant, event.epoch) == (armed.source, armed.drained_epoch)
    return isinstance(event, ev.LeaseRequest | ev.Idle) and event == message(armed)


def is_armed(arbiter: Arbiter, wanted: Armed) -> bool:
    """Whether an arbiter has armed a transition, at any time at which this one may fire."""
    return any(
        replace(each, then=None, not_before_s=0.0, not_after_s=0.0)
        == replace(wanted, then=None, not_before_s=0.0, not_after_s=0.0)
        and each.not_before_s <= max(wanted.not_before_s, arbiter._context.now_s)
        and each.not_after_s >= wanted.not_after_s
        for each in arbiter.armed()
    )


def following(armed: Armed, fired_s: float) -> Armed:
    """What follows a transition that was carried out then: the thread lets no drain take longer."""
    assert armed.then is not None
    then, until_s = armed.then, fired_s + MEANWHILE_S
    if not then.grants:
        return then
    return replace(
        then,
        not_after_s=min(then.not_after_s, until_s),
        asks_until_s=min(then.asks_until_s, until_s),
    )


class SimulatedNode:
    """An arbiter with its tenants; `told` and `heard` keep what was said, for tests to read.

    With `compares`, another arbiter that grants no lease early comes to the same each time.
    """

    def __init__(
        self, gpus: Iterable[GpuSpec], settings: Settings, *, compares: bool = False
    ) -> None:
        """A node without processes, at time 0."""
        self.specs = {spec.gpu: spec for spec in gpus}
        self.settings = settings
        self._compares = compares
        self._begin(settled=True)
        self.tenants: dict[int, SimulatedTenant] = {}
        self.now_s = 0.0
        self.gangs: dict[str, list[SimulatedTenant]] = {}
        self.gang_sizes: dict[str, int] = {}
        self.guarantees = ev.GuaranteesSet({})
        """What owners are guaranteed, which a new agent reads again."""
        self.told: list[do.Instruction] = []
        self._numbers = itertools.count(1)
        self.arms = False
        """Each transition that the arbiter arms is compared with what it decides."""
        self.fired: list[Armed] = []

    def _begin(self, *, settled: bool) -> None:
        """A new agent decides from now on."""
        specs, settings = self.specs.values(), self.settings
        self.arbiter = Arbiter(specs, settings, settled=settled)
        self._slower: Arbiter | None = None
        if self._compares:
            self._slower = Arbiter(specs, settings, settled=settled, grants_early=False)

    def _step(self, event: ev.Event) -> list[do.Instruction]:
        """What the arbiter wants, in order."""
        armed = self._armed(event) if self.arms else None
        told = handle(self.arbiter, self.now_s, event)
        self.arbiter.check()
        if armed is not None:
            self._check(self.arbiter, armed, told)
            self.fired.append(armed)
        if self._slower is not None:
            same = handle(self._slower, self.now_s, event)
            of = attrgetter("tenant")  # between processes there is no order
            assert sorted(told, key=of) == sorted(same, key=of), (event, told, same)
            assert self.arbiter.deadline_s == self._slower.deadline_s
            assert self.arbiter.tenants() == self._slower.tenants()
        return told

    def _armed(self, event: ev.Event) -> Armed | None:
        """The transition that an event fires; each that is armed is tried on a copy."""
        armed = self.arbiter.armed()
        for each in armed:
            self._try(each)
        is_in_time = [a for a in armed if a.not_before_s <= self.now_s <= a.not_after_s]
        return next((each for each in is_in_time if matches(each, event)), None)

    def _try(self, armed: Armed) -> None:
        """At the first and the last moment, the arbiter decides what is armed."""
        self._follow(self.arbiter, armed, self.now_s)
        if armed.grants:
            self._ask(self.arbiter, armed, self.now_s, self.now_s + LATE_S)

    def _follow(self, arbiter: Arbiter, armed: Armed, from_s: float) -> None:
        """The same of each that follows: it is armed once the one before it is decided.

        At the last moment itself the arbiter looks as well, and may first grant what became due.
        """
        last_s = min(from_s + LATE_S, armed.not_after_s - EXACT_S)
        for now_s in {max(from_s, armed.not_before_s), last_s}:
            if from_s <= now_s <= armed.not_after_s:
                after = copy.deepcopy(arbiter)
                self._check(after, armed, handle(after, now_s, message(armed)))
                if armed.then is not None:
                    then = following(armed, now_s)
                    if then.grants:
                        self._ask(after, then, now_s, now_s + MEANWHILE_S)
                    self._follow(after, then, now_s)

    def _ask(self, arbiter: Arbiter, armed: Armed, first_s: float, last_s: float) -> None:
        """Whoever has to drain may ask for its next lease first: nothing of this changes.

        Nothing follows it then.
        """
        not_after_s = min(armed.not_after_s, armed.asks_until_s)
        armed = replace(armed, then=None, not_after_s=not_after_s)
        for now_s in {first_s, min(last_s, armed.asks_until_s) - EXACT_S}:
            if first_s <= now_s < armed.asks_until_s:
                asked = copy.deepcopy(arbiter)
                told = handle(asked, now_s, ev.LeaseRequest(armed.source))
                assert not leases(told), (armed, told)
                assert not [each for each in told if each.tenant == armed.target], (armed, told)
                assert is_armed(asked, armed), (armed, asked.armed(), told)
                late = copy.deepcopy(asked)
                self._check(asked, armed, handle(asked, now_s, message(armed)))
                self._check(late, armed, handle(late, not_after_s, message(armed)))

    @staticmethod
    def _check(arbiter: Arbiter, armed: Armed, told: list[do.Instruction]) -> None:
        """A transition is what was decided first; what follows is armed now, and was not hindered.

        Its note overtakes what its target is told by the decision before it, so that is nothing.
        """
        assert leases(told)[:1] == [decided(armed)], (armed, told)
        if armed.then is not None:
            assert leases(told) == [decided(armed)], (armed, told)
            then = following(armed, arbiter._context.now_s)
            is_over = arbiter._context.now_s > then.not_after_s
            assert is_over or is_armed(arbiter, then), (armed, arbiter.armed(), told)
            assert told == leases(told), (armed, told)

    def join(
        self, gang: str = "", size: int = 0, uid: int = -1, *, owner: str = "", workload: str = ""
    ) -> SimulatedTenant:
        """A new process, of this user."""
        tenant = SimulatedTenant(next(self._numbers))
        tenant.owner, tenant.workload = owner, workload
        self.tenants[tenant.number] = tenant
        self.feed(ev.Hello(tenant.number, uid=uid, owner=owner, workload=workload))
        if gang:
            self.band(tenant, gang, size)
        return tenant

    def band(self, tenant: SimulatedTenant, gang: str, size: int = 0) -> None:
        """Make a process a member of a gang."""
        members = self.gangs.setdefault(gang, [])
        self.gang_sizes[gang] = max(size, self.gang_sizes.get(gang, 0))
        members.append(tenant)
        tenant.gang = members
        tenant.launched = max(mate.launched for mate in members)
        self.feed(ev.GangJoined(tenant.number, gang, size))

    def guarantee(self, event: ev.GuaranteesSet) -> list[do.Instruction]:
        """Guarantee owners parts of the time."""
        self.guarantees = event
        return self.feed(event)

    def divide(self, tenant: SimulatedTenant, apart: Apart) -> list[do.Instruction]:
        """Say with which others a process takes turns, as the GPU's division is not equal."""
        tenant.apart = apart
        return self.feed(ev.DivisionSet(tenant.number, apart))

    def suspend(self, tenant: SimulatedTenant, *, suspended: bool = True) -> list[do.Instruction]:
        """Suspend a process, or resume it."""
        tenant.suspended = suspended
        kind = ev.Suspend if suspended else ev.Resume
        return self.feed(kind(tenant.number))

    def start(
        self, chunks: dict[int, list[int]], residue_bytes: int = 0, uid: int = -1
    ) -> SimulatedTenant:
        """A new process that has its memory, as far as it was admitted and nobody stands still."""
        tenant = self.join(uid=uid)
        for gpu, sizes in chunks.items():
            tenant.attach(gpu, residue_bytes, self.specs[gpu].capacity_bytes)
            self.settle()
            if sizes:
                tenant.allocate(gpu, sizes)
            self.settle()
        tenant.touch()
        self.settle()
        return tenant

    def view(self, tenant: SimulatedTenant) -> TenantView:
        """What the arbiter says of a process."""
        return next(v for v in self.arbiter.tenants() if v.tenant == tenant.number)

    def kill(self, tenant: SimulatedTenant) -> None:
        """A process dies; what it said before may still arrive."""
        del self.tenants[tenant.number]
        if tenant.gang:
            tenant.gang.remove(tenant)
        self.feed(ev.Left(tenant.number))

    def feed(self, event: ev.Event) -> list[do.Instruction]:
        """Tell the arbiter and carry out what it wants: lease words change at once."""
        told = self._step(event)
        for instruction in told:
            tenant = self.tenants[instruction.tenant]
            if isinstance(instruction, do.Grant):
                tenant.is_open = True
            elif isinstance(instruction, do.Revoke):
                tenant.is_open = False
            if not isinstance(instruction, UNTOLD):
                tenant.inbox.append(instruction)
        self.told += told
        for each in [i.tenant for i in told if isinstance(i, do.CheckStopped)]:
            told = told + self.feed(ev.StopChecked(each, self.tenants[each].stopped))
        return told

    def hear(self, tenant: SimulatedTenant) -> list[do.Instruction]:
        """Deliver the oldest thing that a process said."""
        return self.feed(tenant.sent.popleft())

    def tick(self, seconds: float) -> list[do.Instruction]:
        """Let time pass, as far as the arbiter asked to be woken on the way."""
        until_s = self.now_s + seconds
        told: list[do.Instruction] = []
        while (due_s := self.arbiter.deadline_s) is not None and due_s <= until_s:
            self.now_s = max(self.now_s, due_s)
            told += self.feed(ev.Tick())
            if self.arbiter.deadline_s == due_s:
                raise AssertionError(f"asked again to be woken at {due_s}")
        self.now_s = until_s
        return told

    def settle(self, steps: int = 10_000) -> None:
        """Deliver and work until nothing is under way."""
        for _ in range(steps):
            busy = False
            for tenant in list(self.tenants.values()):
                if tenant.has_work:
                    tenant.work()
                    busy = True
                elif tenant.sent:
                    self.hear(tenant)
                    busy = True
            if not busy:
                return
        raise AssertionError("this does not come to rest")

    def restart(self) -> None:
        """The agent dies and another one begins, which knows only what processes tell it.

        What was under way is lost. A process whose lease word is open goes on; everybody else
        drains, says what it has, and asks again for what was not answered.
        """
        self._begin(settled=False)
        for tenant in self.tenants.values():
            tenant.inbox.clear()
            tenant.sent.clear()
            tenant.orders.clear()
            tenant.credit.clear()
            tenant.restoring = tenant.watched = tenant.wanted = tenant.told_idle = False
            tenant.draining = None
            tenant.apart = Apart.NO
            for gpu in list(tenant.allowed_most):
                tenant.end_allowance(gpu, quietly=True)
        if self.guarantees.parts or self.guarantees.groups:
            self.feed(self.guarantees)

    def resume(self, tenant: SimulatedTenant) -> None:
        """A process finds the new agent, which told it no bound yet."""
        tenant.queue_s = 0.0
        self.feed(
            ev.Hello(
                tenant.number,
                tenant.is_open,
                tenant.epoch,
                resumed=True,
                owner=tenant.owner,
                workload=tenant.workload,
            )
        )
        for name, members in self.gangs.items():
            if tenant in members:
                size = self.gang_sizes[name]
                self.feed(ev.GangJoined(tenant.number, name, size, begun=tenant.is_open))
        known = tenant.contexts.keys() | {b.gpu for b in tenant.blocks}
        for gpu in sorted(known):
            admitted = [b for b in tenant.blocks if b.gpu == gpu and b.admitted]
            self.feed(
                ev.Attach(
                    tenant.number,
                    gpu,
                    0,
                    tenant.contexts[gpu],
                    self.specs[gpu].capacity_bytes,
                    sum(b.bytes for b in admitted),
                    tenant.resident_bytes(gpu),
                    sum(b.bytes for b in admitted if b.pinned),
                    exists=True,
                )
            )
        if tenant.suspended:
            self.feed(ev.Suspend(tenant.number))
        limit = {gpu: spec.capacity_bytes for gpu, spec in self.specs.items()}
        for serial, (gpu, amount) in tenant.needing.items():
            tenant.sent.append(ev.DriverOom(tenant.number, gpu, serial, amount))
        for serial, (gpu, residue) in tenant.attaching.items():
            tenant.sent.append(ev.Attach(tenant.number, gpu, serial, residue, limit[gpu]))
        for block in tenant.blocks:
            if not block.admitted:
                tenant.sent.append(
                    ev.AllocRequest(
                        tenant.number, block.gpu, block.serial, block.bytes, block.pinned
                    )
                )
