"""What holds on a node whatever happens there: a state machine of Hypothesis without rules."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.arbiter.snapshots import TenantView
from moiety.arbiter.states import Apart
from moiety.model.share import Share
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant

CAPACITY = 10
TOTAL = 12
GPUS = 2
DEADLINE_S = 10.0
CHUNK_MOST = 4
ONE_OWNER = (("", ""),)
UNEQUAL_OWNERS = (("a", "1"), ("a", "1"), ("a", "2"), ("b", "3"))
"""Owners with workloads, from which those of processes are chosen: most processes are of `a`."""
CHUNKS = st.lists(st.integers(1, CHUNK_MOST), min_size=1, max_size=4)


class Invariants(RuleBasedStateMachine):
    """Two small GPUs with processes that have memory, and what must hold of them."""

    compares = False
    """Whether leases that are given at once are compared with those of whole steps."""

    def __init__(self) -> None:
        """Nothing has happened."""
        super().__init__()
        self.whole: dict[str, list[int]] = {}
        """The members of each gang when all of it held last."""
        self.unsettled: list[SimulatedTenant] | None = None
        self.owners: tuple[tuple[str, str], ...] = ONE_OWNER
        """The owners and workloads that processes may be of."""
        self.promised: dict[int, Share] = {}
        """The share that each process got last."""
        self.liars: list[SimulatedTenant] = []
        """Processes that say false things of what their memory is."""

    @initialize(
        arena=st.sampled_from([1000, 1000, 5]),
        factor=st.sampled_from([0.0, 9.0]),
        allowance=st.sampled_from([0, 4]),
        sizes=st.lists(
            st.tuples(st.sampled_from([(0,), (0,), (1,), (0, 1)]), CHUNKS), min_size=2, max_size=4
        ),
        owners=st.sampled_from([ONE_OWNER, UNEQUAL_OWNERS]),
    )
    def begin(
        self,
        arena: int,
        factor: float,
        sizes: list[tuple[tuple[int, ...], list[int]]],
        allowance: int = 0,
        overcommit: float = 1.0,
        owners: tuple[tuple[str, str], ...] = ONE_OWNER,
    ) -> None:
        """A node with two GPUs, and some processes that have memory already."""
        self.owners = owners
        self.node = SimulatedNode(
            [GpuSpec(gpu, TOTAL, CAPACITY) for gpu in range(GPUS)],
            Settings(
                arena_bytes=arena,
                turn_factor=factor,
                revoke_deadline_s=DEADLINE_S,
                overcommit=overcommit,
                allowance_bytes=allowance,
                allowance_part=2,
                allowance_step=1,
            ),
            compares=self.compares,
        )
        for number, (gpus, chunks) in enumerate(sizes):
            owner, workload = owners[number % len(owners)]
            tenant = self.node.join(owner=owner, workload=workload)
            for gpu in gpus:
                tenant.attach(gpu, 0, CAPACITY)
                self.node.settle()
                tenant.allocate(gpu, chunks)
            self.node.settle()
            self.node.tick(1.0)
            self.node.settle()

    @property
    def known(self) -> list[SimulatedTenant]:
        """Those who are connected."""
        return [t for t in self.node.tenants.values() if t not in (self.unsettled or [])]

    # What must hold

    def check(self, told: list[do.Instruction]) -> None:
        """Nobody is interrupted unless somebody else waits for it."""
        for instruction in told:
            if isinstance(instruction, do.Revoke):
                views = self.node.arbiter.tenants()
                waiting = {v.tenant for v in views if v.state in ("queued", "restoring") or v.asks}
                served = {i.tenant for i in told if isinstance(i, do.Grant | do.Admitted)}
                view = next(v for v in views if v.tenant == instruction.tenant)
                gang = [v for v in views if v is view or (view.gang and v.gang == view.gang)]
                is_limited = any(v.share.gpu_limit < 1 for v in gang)
                revoked = {i.tenant for i in told if isinstance(i, do.Revoke)}
                is_split = any(v.state == "draining" and v.tenant not in revoked for v in gang)
                rivals = [r for v in gang for r in self.rivals(v.tenant, undrainable=True)]
                attaches = any(self.node.tenants[v.tenant].attaching for v in gang)
                gpus = {gpu for member in gang for gpu in member.gpus}
                beside = [v for v in views if v.gpus.keys() & gpus]
                is_uneven = any(self.is_timed(v) or v.gang for v in beside)
                is_uneven = is_uneven or any(map(self.is_divided_unequally, gpus))
                is_suspended = any(v.is_suspended for v in gang)
                if not (is_limited or is_split or rivals or attaches or is_uneven or is_suspended):
                    assert (waiting | served) - {instruction.tenant}
            if self.unsettled is not None:
                assert isinstance(instruction, do.Admitted)

    def rivals(self, number: int, *, undrainable: bool = False) -> list[int]:
        """Those with an open gate who must not hold together with this one."""
        views = {view.tenant: view for view in self.node.arbiter.tenants()}
        own = views[number]
        return [
            other.tenant
            for other in views.values()
            if other.tenant != number
            and not (own.gang and other.gang == own.gang)
            and (undrainable or "undrainable" not in (own.state, other.state))
            and self.node.tenants[other.tenant].is_open
            and own.gpus.keys() & other.gpus.keys()
            and (
                own.share.latency != other.share.latency
                or self.are_apart(number, other.tenant)
                or (
                    (self.is_timed(own) or self.is_timed(other))
                    and any(self.is_crowded(gpu) for gpu in own.gpus.keys() & other.gpus.keys())
                )
            )
        ]

    @staticmethod
    def is_timed(view: TenantView) -> bool:
        """Whether a process or its owner was promised a part of the time, or has a limit."""
        return view.share.is_timed or view.guaranteed > 0

    def are_apart(self, one: int, other: int) -> bool:
        """Whether two processes take turns, as a GPU divides its time unequally between them."""
        kinds = {self.node.tenants[number].apart for number in (one, other)}
        return Apart.OF_ALL in kinds or kinds == {Apart.OF_MPS}

    def is_divided_unequally(self, gpu: int) -> bool:
        """Whether parts of a GPU's time differ in a class, because owners have different numbers
        of processes that want it, or because one takes turns with the others.
        """
        classes: dict[int, list[SimulatedTenant]] = {}
        for view in self.node.arbiter.tenants():
            if gpu in view.gpus and view.state not in ("idle", "suspended"):
                classes.setdefault(view.share.rank, []).append(self.node.tenants[view.tenant])
        for wanting in classes.values():
            workloads = Counter((t.owner, t.workload or str(t.number)) for t in wanting)
            owners = Counter(owner for owner, _ in workloads)
            if len({*owners.values()}) > 1 or len({*workloads.values()}) > 1:
                return True
            if len(wanting) > 1 and any(t.apart is not Apart.NO for t in wanting):
                return True
        return False

    def is_crowded(self, gpu: int) -> bool:
        """Whether what the tenants that want a GPU's time allocated there does not fit together."""
        resting = ("idle", "suspended")
        idle = {view.tenant for view in self.node.arbiter.tenants() if view.state in resting}
        wanted = sum(
            block.bytes
            for tenant in self.node.tenants.values()
            for block in tenant.blocks
            if block.gpu == gpu and block.admitted and (block.pinned or tenant.number not in idle)
        )
        return wanted > CAPACITY

    @invariant()
    def rivals_never_hold_together(self) -> None:
        """Who goes first has the GPU alone; promises need turns where not all fit."""
        if self.unsettled is None:
            for tenant in self.node.tenants.values():
                if tenant.is_open:
                    assert not self.rivals(tenant.number)

    @invariant()
    def who_is_suspended_has_no_turn(self) -> None:
        """Its gate is closed, unless its last work cannot end without passing it."""
        if self.unsettled is not None:
            return
        for view in self.node.arbiter.tenants():
            tenant = self.node.tenants[view.tenant]
            assert view.is_suspended == tenant.suspended
            if view.state == "suspended":
                assert tenant.suspended
                assert not tenant.is_open
            elif tenant.suspended:
                assert view.state not in ("idle", "queued", "restoring"), view

    @invariant()
    def a_gang_holds_whole_or_not_at_all(self) -> None:
        """All of its members have their lease, or none; but for who has just become one."""
        if self.unsettled is not None:
            self.whole.clear()
            return
        for name, members in self.node.gangs.items():
            numbers = [member.number for member in members]
            together = len({member.is_open for member in members}) <= 1
            if not together and set(numbers) <= set(self.whole.get(name, [])):
                raise AssertionError((name, [(m.number, m.is_open) for m in members]))
            if all(member.is_open for member in members):
                self.whole[name] = numbers

    @invariant()
    def what_is_there_fits(self) -> None:
        """The truth of all processes never exceeds what the GPU has."""
        for gpu in range(GPUS):
            tenants = self.node.tenants.values()
            resident = sum(t.resident_bytes(gpu) + t.spare_bytes(gpu) for t in tenants)
            assert resident <= CAPACITY
            assert resident + sum(t.contexts.get(gpu, 0) for t in tenants) <= TOTAL

    @invariant()
    def holders_have_every_byte(self) -> None:
        """Behind an open gate everything is resident and nothing leaves."""
        for tenant in self.node.tenants.values():
            if tenant.is_open:
                leaving = {gpu for gpu, _ in tenant.orders}
                leaving |= {told.gpu for told in tenant.inbox if isinstance(told, do.Evict)}
                assert not leaving & tenant.contexts.keys()
                for gpu in range(GPUS):
                    assert tenant.resident_bytes(gpu) == tenant.mapped_bytes(gpu)

    @invariant()
    def bounds_are_as_they_should_be(self) -> None:
        """A holder that nobody shares a GPU with has no bound on its work; any other has one."""
        if self.unsettled is not None:
            return
        views = self.node.arbiter.tenants()
        for view in views:
            tenant = self.node.tenants[view.tenant]
            if not tenant.is_open:
                continue
            gang = [v for v in views if v is view or (view.gang and v.gang == view.gang)]
            gpus = {gpu for member in gang for gpu in member.gpus}
            others = [v for v in views if v not in gang and v.gpus.keys() & gpus]
            if gpus and (others or min(member.share.gpu_limit for member in gang) < 1):
                assert 0 < tenant.bound_s <= self.node.settings.queue_beside_s
            else:
                assert tenant.bound_s == 0

    @invariant()
    def evicted_data_has_room(self) -> None:
        """What of all processes is in host memory fits there, but for a chunk that moves.

        A process that has room on the GPU and has not used it is about to give as much back. What
        processes have there that say false things of it may come on top.
        """
        settings = self.node.settings
        if settings.overcommit <= 1 or self.unsettled is not None:
            return
        used = 0
        for view in self.node.arbiter.tenants():
            tenant = self.node.tenants[view.tenant]
            if tenant in self.liars:
                continue
            for gpu, on in view.gpus.items():
                room = on.resident_bytes - tenant.resident_bytes(gpu)
                used += max(0, tenant.chunks_on(gpu, resident=False, data=True) - room)
        assert used <= settings.arena_bytes + GPUS * (CHUNK_MOST - 1), used

    @invariant()
    def the_ledger_never_says_less(self) -> None:
        """What the arbiter believes to be taken covers what is taken."""
        if self.unsettled is not None:
            return
        for view in self.node.arbiter.tenants():
            tenant = self.node.tenants[view.tenant]
            for gpu, on in view.gpus.items():
                assert on.resident_bytes + on.allowed_bytes >= (
                    tenant.resident_bytes(gpu) + tenant.spare_bytes(gpu)
                )

    @invariant()
    def spare_memory_is_allowed(self) -> None:
        """What is kept without being asked for is part of what was allowed."""
        if self.unsettled is not None:
            return
        for view in self.node.arbiter.tenants():
            tenant = self.node.tenants[view.tenant]
            for gpu, on in view.gpus.items():
                assert tenant.spare_bytes(gpu) <= tenant.allowed.get(gpu, 0)
                under_way = any(
                    isinstance(said, ev.Free | ev.CreditUsed | ev.CreditReturned | ev.Detach)
                    for said in tenant.sent
                ) or any(
                    isinstance(told, do.CreditGrant | do.CreditRevoke) for told in tenant.inbox
                )
                if not under_way:
                    assert on.allowed_bytes == tenant.allowed.get(gpu, 0)
                    assert on.spare_bytes == tenant.spare_bytes(gpu)
                    assert on.allocated_bytes >= sum(
                        b.bytes for b in tenant.blocks if b.gpu == gpu and b.admitted
                    )

    @invariant()
    def allowances_are_in_nobodys_way(self) -> None:
        """Where there are any, all that everybody has fits, unless they are being taken back."""
        if self.unsettled is not None:
            return
        views = self.node.arbiter.tenants()
        for gpu in range(GPUS):
            on = [view.gpus[gpu] for view in views if gpu in view.gpus]
            allowed = sum(each.allowed_bytes for each in on)
            told = [each for tenant in self.node.tenants.values() for each in tenant.inbox]
            said = [each for tenant in self.node.tenants.values() for each in tenant.sent]
            recalled = any(isinstance(each, do.CreditRevoke | do.Revoke) for each in told)
            recalled = recalled or any(isinstance(each, ev.CreditReturned) for each in said)
            if allowed and not recalled and not any(t.stopped or t.hung for t in self.known):
                assert allowed + sum(each.allocated_bytes for each in on) <= CAPACITY
