"""What may happen on a node, as rules of a state machine of Hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from moiety.arbiter import events as ev
from moiety.arbiter.settings import OverduePolicy
from moiety.arbiter.states import Apart
from moiety.model.share import NOTHING_ASKED, Priority, Share
from tests.support.arbiter_invariants import CAPACITY, CHUNKS, GPUS, Invariants
from tests.support.simulated_tenants import SimulatedTenant

Chance = st.DataObject | Random
T = TypeVar("T")
NEVER = 1 << 40
PROCESSES = 5
SHARES = [
    NOTHING_ASKED,
    Share(gpu=0.1),
    Share(gpu=0.5),
    Share(gpu_limit=0.5),
    Share(gpu=0.2, gpu_limit=0.3, memory_bytes=2),
    Share(memory_bytes=4),
    Share(priority=Priority.HIGH),
    Share(priority=Priority.LOW, gpu=0.1),
    Share(latency=True, memory_bytes=1),
]

GUARANTEES = [
    ev.GuaranteesSet({}),
    ev.GuaranteesSet({"a": 0.6}),
    ev.GuaranteesSet({"b": 0.3}, {"both": (0.9, ("a", "b"))}),
    ev.GuaranteesSet({}, {"others": (0.4, ("b", "c"))}),
]
"""What owners may be guaranteed, by turns; some of the owners never come."""


class Anything(Invariants):
    """Processes on two small GPUs whose messages arrive as late as they like."""

    @staticmethod
    def pick(data: Chance, among: Sequence[T]) -> T:
        """One of several, by Hypothesis or by the dice."""
        if isinstance(data, Random):
            return data.choice(among)
        return data.draw(st.sampled_from(among))

    def some(self, data: Chance) -> SimulatedTenant:
        """Any process that the agent knows."""
        return self.pick(data, self.known)

    # What programs do

    @precondition(lambda self: len(self.node.tenants) < PROCESSES)
    @rule(data=st.data())
    def join(self, data: Chance) -> None:
        """One more process, of one of the owners."""
        owner, workload = self.pick(data, self.owners)
        self.node.join(owner=owner, workload=workload)

    @precondition(lambda self: len(self.node.tenants) < PROCESSES and self.unsettled is None)
    @rule(data=st.data(), gang=st.sampled_from("gh"), size=st.integers(0, 3))
    def join_gang(self, data: Chance, gang: str, size: int) -> None:
        """One more process, of a gang that may not be whole yet."""
        owner, workload = self.pick(data, self.owners)
        self.node.join(gang, size, owner=owner, workload=workload)

    @precondition(lambda self: self.known and self.unsettled is None)
    @rule(data=st.data(), gang=st.sampled_from("gh"))
    def band(self, data: Chance, gang: str) -> None:
        """Processes that run already turn out to compute together."""
        tenant = self.some(data)
        members = [member.number for member in self.node.gangs.get(gang, [])]
        if not tenant.gang and not self.node.arbiter.refuse_gang([*members, tenant.number]):
            self.node.band(tenant, gang)

    @precondition(lambda self: any(t.gang and t.is_open for t in self.known))
    @rule(data=st.data(), count=st.integers(1, 3))
    def compute(self, data: Chance, count: int) -> None:
        """One of a gang submits operations that end once all of it have begun them."""
        tenant = self.pick(data, [t for t in self.known if t.gang and t.is_open])
        tenant.launched += count

    @precondition(lambda self: self.known)
    @rule(data=st.data(), gpu=st.integers(0, GPUS - 1), residue=st.integers(0, 1))
    def attach(self, data: Chance, gpu: int, residue: int) -> None:
        """A first context on a GPU."""
        tenant = self.some(data)
        under_way = any(at == gpu for at, _ in tenant.attaching.values())
        if gpu not in tenant.contexts and not under_way:
            limit = self.pick(data, [CAPACITY, CAPACITY, 6])
            tenant.attach(gpu, residue, limit)

    @precondition(lambda self: any(t.contexts for t in self.known))
    @rule(data=st.data(), chunks=CHUNKS, pinned=st.sampled_from([False] * 5 + [True]))
    def allocate(self, data: Chance, chunks: list[int], pinned: bool) -> None:
        """Memory is asked for, from any state."""
        tenant = self.pick(data, [t for t in self.known if t.contexts])
        gpu = self.pick(data, sorted(tenant.contexts))
        tenant.allocate(gpu, chunks, pinned=pinned)

    @precondition(lambda self: any(b.admitted for t in self.known for b in t.blocks))
    @rule(data=st.data())
    def free(self, data: Chance) -> None:
        """Memory is freed, from any state."""
        blocks = [(t, b) for t in self.known for b in t.blocks if b.admitted]
        tenant, block = self.pick(data, blocks)
        tenant.free(block)

    @precondition(lambda self: any(t.allowed_most for t in self.known))
    @rule(data=st.data())
    def churn(self, data: Chance) -> None:
        """One that has an allowance allocates and frees that much, or loses interest in it."""
        tenant = self.pick(data, [t for t in self.known if t.allowed_most])
        gpu = self.pick(data, sorted(tenant.allowed_most))
        chunks = self.pick(data, [[1], [1, 1], [2, 1], [2, 2], []])
        if chunks:
            tenant.allocate(gpu, chunks)
            tenant.touch()
        elif mapped := [b for b in tenant.blocks if b.resident and b.gpu == gpu]:
            tenant.free(self.pick(data, mapped))
        else:
            tenant.end_allowance(gpu)

    @precondition(lambda self: any(t.is_open and t.blocks for t in self.known))
    @rule(data=st.data())
    def write(self, data: Chance) -> None:
        """A holder writes to some of its memory, which was zero."""
        tenant = self.pick(data, [t for t in self.known if t.is_open and t.blocks])
        block = self.pick(data, tenant.blocks)
        tenant.write(block, self.pick(data, range(len(block.chunks))))

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def touch(self, data: Chance) -> None:
        """A thread goes through the gate or stands at it."""
        self.some(data).touch()

    @precondition(lambda self: any(t.contexts for t in self.known))
    @rule(data=st.data())
    def detach(self, data: Chance) -> None:
        """The last context on a GPU goes, with all memory there."""
        tenant = self.pick(data, [t for t in self.known if t.contexts])
        gpu = self.pick(data, sorted(tenant.contexts))
        if not any(order[0] == gpu for order in tenant.orders):
            tenant.detach(gpu)

    @precondition(lambda self: any(t.contexts for t in self.known))
    @rule(data=st.data(), more=st.integers(0, 2))
    def measure(self, data: Chance, more: int) -> None:
        """A context takes more than was expected, out of the headroom."""
        tenant = self.pick(data, [t for t in self.known if t.contexts])
        gpu = self.pick(data, sorted(tenant.contexts))
        self.check(self.node.feed(ev.Measured(tenant.number, gpu, tenant.contexts[gpu] + more)))

    @precondition(lambda self: any(t.contexts for t in self.known))
    @rule(data=st.data(), amount=st.integers(1, 4))
    def need(self, data: Chance, amount: int) -> None:
        """A driver runs out by itself."""
        tenant = self.pick(data, [t for t in self.known if t.contexts])
        tenant.need(self.pick(data, sorted(tenant.contexts)), amount)

    @precondition(lambda self: any(t.watched for t in self.known))
    @rule(data=st.data())
    def fall_idle(self, data: Chance) -> None:
        """A watched holder does nothing for a while."""
        self.pick(data, [t for t in self.known if t.watched]).fall_idle()

    @precondition(lambda self: self.known)
    @rule(data=st.data(), rare=st.integers(0, 5))
    def misbehave(self, data: Chance, rare: int) -> None:
        """A process is pinned, hangs, is stopped or continued, or cannot move its memory."""
        tenant = self.some(data)
        if rare == 0:
            tenant.pin("cuIpcGetMemHandle")
        elif rare == 1:
            tenant.hung = not tenant.hung
        elif rare == 2:
            tenant.eviction_fails = not tenant.eviction_fails
        elif rare == 4:
            tenant.stopped = not tenant.stopped

    @precondition(lambda self: self.known)
    @rule(data=st.data(), times=st.sampled_from([0, 1, 3, NEVER]))
    def depend(self, data: Chance, times: int) -> None:
        """What runs on the GPU waits for threads to pass the gate, or for ever."""
        tenant = self.some(data)
        if tenant.is_open or not times:
            tenant.depends = times

    @precondition(lambda self: self.known and self.unsettled is None)
    @rule(policy=st.sampled_from([OverduePolicy.REPORT, OverduePolicy.FENCE]))
    def decide_otherwise(self, policy: OverduePolicy) -> None:
        """What is done about late ones is changed."""
        settings = replace(self.node.settings, overdue=policy)
        self.check(self.node.feed(ev.SettingsSet(settings)))

    @precondition(lambda self: self.known and self.unsettled is None)
    @rule(data=st.data())
    def promise(self, data: Chance) -> None:
        """A share is changed while all goes on, if it can be promised."""
        tenant, share = self.some(data), self.pick(data, SHARES)
        own = [tenant.number]
        gpus = self.node.view(tenant).gpus
        if not any(self.node.arbiter.refuse_share(gpu, share, own=own) for gpu in gpus):
            self.check(self.node.feed(ev.ShareSet(tenant.number, share)))
            self.promised[tenant.number] = share

    @precondition(lambda self: self.unsettled is None)
    @rule(data=st.data())
    def guarantee(self, data: Chance) -> None:
        """An administrator guarantees owners other parts of the time."""
        self.check(self.node.guarantee(self.pick(data, GUARANTEES)))

    @precondition(lambda self: self.known and self.unsettled is None)
    @rule(data=st.data(), apart=st.sampled_from(Apart))
    def divide(self, data: Chance, apart: Apart) -> None:
        """The GPUs of a process turn out to divide their time unequally, or equally again."""
        self.check(self.node.divide(self.some(data), apart))

    @precondition(lambda self: self.known and self.unsettled is None)
    @rule(data=st.data())
    def suspend(self, data: Chance) -> None:
        """A process is suspended, or resumed if its share can be kept."""
        tenant = self.some(data)
        if not tenant.suspended:
            self.check(self.node.suspend(tenant))
        elif self.may_resume(tenant):
            self.check(self.node.suspend(tenant, suspended=False))

    def may_resume(self, tenant: SimulatedTenant) -> bool:
        """Whether the promises of a suspended process can be kept again."""
        share, own = self.promised.get(tenant.number, NOTHING_ASKED), [tenant.number]
        gpus = self.node.view(tenant).gpus
        arbiter = self.node.arbiter
        may = not any(arbiter.refuse_share(gpu, share, own=own) for gpu in gpus)
        return may and not arbiter.refuse_resume(tenant.number)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def die(self, data: Chance) -> None:
        """A process ends, whatever it was doing."""
        self.node.kill(self.some(data))

    # What time and the kernel do

    @precondition(lambda self: any(t.has_work for t in self.known))
    @rule(data=st.data(), steps=st.integers(1, 5))
    def work(self, data: Chance, steps: int) -> None:
        """A control thread gets to run."""
        tenant = self.pick(data, [t for t in self.known if t.has_work])
        for _ in range(steps):
            tenant.work()

    @precondition(lambda self: any(t.sent for t in self.known))
    @rule(data=st.data(), count=st.integers(1, 5))
    def hear(self, data: Chance, count: int) -> None:
        """Messages of one process arrive."""
        tenant = self.pick(data, [t for t in self.known if t.sent])
        for _ in range(min(count, len(tenant.sent))):
            self.check(self.node.hear(tenant))

    @rule(seconds=st.sampled_from([0.0005, 0.03, 0.2, 3.0, 11.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.check(self.node.tick(seconds))

    @rule()
    def come_to_rest(self) -> None:
        """Everybody does what there is to do."""
        if self.unsettled is None:
            self.node.settle()

    # The agent restarts

    @precondition(lambda self: self.unsettled is None)
    @rule(rare=st.integers(0, 3))
    def restart(self, rare: int) -> None:
        """The agent dies; nobody has found the new one yet."""
        if rare == 0:
            self.node.restart()
            self.unsettled = list(self.node.tenants.values())

    @precondition(lambda self: self.unsettled)
    @rule()
    def come_back(self) -> None:
        """A process reconnects."""
        assert self.unsettled
        self.node.resume(self.unsettled.pop())

    @precondition(lambda self: self.unsettled == [])
    @rule()
    def settle(self) -> None:
        """All are back."""
        self.unsettled = None
        self.check(self.node.feed(ev.Settled()))

    # The end

    def teardown(self) -> None:
        """Once all behave, every wait ends; once all left, nothing is left."""
        if not hasattr(self, "node"):
            return
        while self.unsettled:
            self.come_back()
        if self.unsettled is not None:
            self.settle()
        self.behave(stubborn=True)
        self.serve("do not fit into", "cannot be drained", "that have not started")
        self.behave()
        self.serve("do not fit into", "that have not started")
        for tenant in list(self.node.tenants.values()):
            self.node.kill(tenant)
        for gpu in self.node.arbiter.gpus():
            assert (gpu.resident_bytes, gpu.allocated_bytes, gpu.residue_bytes) == (0, 0, 0)
            assert gpu.free_bytes == gpu.capacity_bytes == CAPACITY

    def serve(self, *expected: str) -> None:
        """Every wait ends, or has one of these reasons."""
        waiting = [t for t in self.node.tenants.values() if t.waits and not t.is_stubborn]
        for _ in range(20 * PROCESSES):
            self.node.settle()
            self.holders_have_every_byte()
            self.what_is_there_fits()
            self.node.tick(70.0)
            waiting = [t for t in waiting if t.waits]
        self.node.settle()
        views = self.node.arbiter.tenants()
        reasons = {v.tenant: v.reason for v in views}
        for tenant in waiting:
            if tenant.waits:
                reason = reasons[tenant.number]
                if "the host has no room" in reason:
                    assert not self.could_hold(tenant), reasons
                    continue
                is_cut_off = bool(tenant.gang) and "is fenced" in reason  # its last operation is
                assert is_cut_off or any(text in reason for text in expected), reasons

    def could_hold(self, tenant: SimulatedTenant) -> bool:
        """Whether the host has room for what must leave before it has a turn, on its only GPU."""
        tenants = self.node.tenants.values()
        views = {view.tenant: view for view in self.node.arbiter.tenants()}
        on = views[tenant.number].gpus
        if len(on) != 1 or any(view.pinned or view.share.memory_bytes for view in views.values()):
            return False  # what may leave is another question
        (gpu,) = on
        free = next(each.free_bytes for each in self.node.arbiter.gpus() if each.gpu == gpu)
        leaves = on[gpu].allocated_bytes - on[gpu].resident_bytes - free
        zeros = sum(t.chunks_on(gpu, resident=True, data=False) for t in tenants if t != tenant)
        used = [t.chunks_on(g, resident=False, data=True) for t in tenants for g in range(GPUS)]
        back = tenant.chunks_on(gpu, resident=False, data=True)
        more = max(0, leaves - zeros)
        return not more or more - back <= self.node.settings.arena_bytes - sum(used)

    def behave(self, *, stubborn: bool = False) -> None:
        """From now on everybody does what it is told, in time, and nobody is in a higher class."""
        for tenant in self.node.tenants.values():
            tenant.hung = tenant.eviction_fails = tenant.stopped = False
            if tenant.depends < NEVER or not stubborn:
                tenant.depends = 0
            if tenant.suspended:
                self.node.feed(ev.ShareSet(tenant.number, NOTHING_ASKED))
                self.node.suspend(tenant, suspended=False)
            share = self.node.view(tenant).share
            share = replace(share, priority=Priority.NORMAL, latency=False)
            self.node.feed(ev.ShareSet(tenant.number, share))
