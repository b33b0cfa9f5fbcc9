"""Credit: what a process may allocate without asking, while nobody else needs it.

A process that asks for memory again and again is allowed some ahead (`CreditGrant`). The credit
counts as allocated and resident, as if the process had it, so that it breaks no decision; only
what people see leaves it out. It is given where everything fits with room to spare. It comes back
before it could cause a refusal or a wait: a request that needs it is held until then, or until a
process that does not answer has had its time (docs/decisions/0022).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec.structs import replace

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.admission.memory import budget_bytes, refuse_bytes
from moiety.arbiter.admission.user_limits import user_room_bytes
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.settings import Settings
from moiety.arbiter.state.balance import Balance
from moiety.arbiter.state.residency import Residency
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import State

ROOM_PART = 16
"""such a part of a GPU stays free beside allowances"""

Held = ev.Attach | ev.AllocRequest | ev.DriverOom


def most_bytes(settings: Settings, capacity: int) -> int:
    """The most that one process is ever allowed on a GPU of so many bytes."""
    most = min(settings.allowance_bytes, capacity // settings.allowance_part)
    return most // settings.allowance_step * settings.allowance_step


class Credit:
    """Who has one is known by the ledger; this knows what is held because of them."""

    def __init__(self, ledger: Ledger) -> None:
        """Nobody has one."""
        self._ledger = ledger
        self._held: list[tuple[float, Held]] = []
        self._calm_s: dict[int, float] = {}
        """by GPU: when the next may be given"""
        self.given = 0
        """the number of allowances: nothing else is looked at while there are none"""

    @property
    def deadline_s(self) -> float:
        """When what is held is let through at the latest; infinite: nothing is."""
        return min((due_s for due_s, _ in self._held), default=math.inf)

    # Giving

    def give(
        self,
        asked: Tenant,
        gpu: int,
        balance: Balance,
        settings: Settings,
        now_s: float,
        out: list[do.Instruction],
        *,
        is_calm: bool,
    ) -> None:
        """Allow a process more, whose request was answered just now, if no other could need it.

        `balance` has the sums of the GPU. `is_calm` says that no tenant comes, goes, waits, asks or
        takes turns.
        """
        on = asked.gpus[gpu]
        again = now_s - on.asked_s <= settings.allowance_asks_s
        on.asked_s = now_s
        capacity = budget_bytes(self._ledger, gpu)
        step = settings.allowance_step
        most = most_bytes(settings, capacity)
        if not again or most <= on.allowed_bytes or not is_calm:
            return
        if not _may_have(asked) or balance.needed_bytes or now_s < self._calm_s.get(gpu, -math.inf):
            return
        taken = sum(each.allocated_bytes for _, each in self._ledger.on(gpu))
        room = capacity - capacity // ROOM_PART - taken
        more = min(most - on.allowed_bytes, room, on.limit_bytes - on.allocated_bytes)
        of_user = user_room_bytes(self._ledger, asked, gpu)
        more = (more if of_user is None else min(more, of_user)) // step * step
        if more <= 0 or balance.free_bytes < more:
            return
        self._count(on, given=True)
        self._ledger.grant_credit(asked, gpu, more)
        out.append(do.CreditGrant(asked.number, gpu, more, most))

    def _count(self, on: Residency, *, given: bool) -> None:
        self.given += given - on.is_allowed
        on.is_allowed = given

    # What processes do with them

    def took(self, event: ev.CreditUsed) -> None:
        """Count what a process took of it."""
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is not None and event.gpu in tenant.gpus:
            self._ledger.use_credit(tenant, event.gpu, event.bytes, event.spare_bytes)

    def freed(self, event: ev.Free) -> None:
        """Some of it is there again, as if it had been given now."""
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is not None and (on := tenant.gpus.get(event.gpu)):
            self._ledger.refill_credit(tenant, event.gpu, event.bytes, event.resident_bytes)
            self._count(on, given=True)

    def returned(self, event: ev.CreditReturned) -> None:
        """A process has given it back, or what it had of it when it said so."""
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is None or (on := tenant.gpus.get(event.gpu)) is None:
            return
        self._ledger.return_credit(tenant, event.gpu, event.bytes)
        on.is_recalled = False
        self._count(on, given=on.allowed_bytes > 0)  # more of it may be on the way to it

    def forget(self, entries: Iterable[Residency]) -> None:
        """These are gone, with the processes or contexts they were of."""
        for on in entries:
            self._count(on, given=False)

    # Taking back

    def holds_up(
        self, event: ev.Event, settings: Settings, now_s: float, out: list[do.Instruction]
    ) -> bool:
        """Whether an event has to wait for allowances to come back; then they are recalled."""
        if not self.given or not isinstance(event, ev.Attach | ev.AllocRequest | ev.DriverOom):
            return False
        if isinstance(event, ev.Attach) and event.exists:
            return False  # it is there, whatever is free
        if not self._is_given_on(event.gpu) or not self._lacks(event):
            return False
        if isinstance(event, ev.DriverOom) and event.free_bytes is not None:
            spare = sum(on.spare_bytes for _, on in self._ledger.on(event.gpu))
            event = replace(event, free_bytes=event.free_bytes + spare)
        self._held.append((now_s + settings.allowance_wait_s, event))
        self.recall(event.gpu, settings, now_s, out)
        return True

    def _lacks(self, event: Held) -> bool:
        """Whether what is allowed could make a difference to it."""
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is None:
            return False
        if isinstance(event, ev.Attach):
            return event.gpu not in tenant.gpus
        if event.gpu not in tenant.gpus or isinstance(event, ev.DriverOom):
            return event.gpu in tenant.gpus
        if event.bytes > tenant.gpus[event.gpu].limit_bytes:
            return False  # it is too much for it alone
        taken = sum(on.allocated_bytes for _, on in self._ledger.on(event.gpu))
        needed = sum(on.needed_bytes for _, on in self._ledger.on(event.gpu))
        room = budget_bytes(self._ledger, event.gpu) - needed
        no = refuse_bytes(self._ledger, tenant, event.gpu, event.bytes, pinned=event.pinned)
        return no is not None or taken + event.bytes > room

    def recall(self, gpu: int, settings: Settings, now_s: float, out: list[do.Instruction]) -> None:
        """Take all of them on a GPU back."""
        self._calm_s[gpu] = now_s + settings.allowance_calm_s
        for tenant, on in self._ledger.on(gpu):
            self._recall(tenant, gpu, on, out)

    def recall_from(self, tenant: Tenant, out: list[do.Instruction]) -> None:
        """Take back all that one process has: it is not what it was when it got them."""
        for gpu, on in tenant.gpus.items():
            self._recall(tenant, gpu, on, out)

    def _recall(self, tenant: Tenant, gpu: int, on: Residency, out: list[do.Instruction]) -> None:
        if on.is_allowed and not on.is_recalled:
            on.is_recalled = True
            out.append(do.CreditRevoke(tenant.number, gpu))

    def look_after(self, settings: Settings, now_s: float, out: list[do.Instruction]) -> None:
        """Something else may have become larger, so that not all fit any more."""
        for gpu in self._ledger.specs if self.given else ():
            if self._is_given_on(gpu):
                taken = sum(on.allocated_bytes for _, on in self._ledger.on(gpu))
                needed = sum(on.needed_bytes for _, on in self._ledger.on(gpu))
                if taken > budget_bytes(self._ledger, gpu) - needed:
                    self.recall(gpu, settings, now_s, out)

    def _is_given_on(self, gpu: int) -> bool:
        return any(on.is_allowed for _, on in self._ledger.on(gpu))

    # What is held

    def released(self, now_s: float) -> list[Held]:
        """What need not wait any more, in the order in which it came."""
        if not self._held:
            return []
        ready = [e for due_s, e in self._held if now_s >= due_s or not self._is_given_on(e.gpu)]
        self._held = [(due_s, e) for due_s, e in self._held if e not in ready]
        return ready

    def drop(self, tenant: int, gpu: int | None = None) -> None:
        """A process has left, or a GPU: what it asked for is void."""
        self._held = [
            (due_s, e)
            for due_s, e in self._held
            if e.tenant != tenant or (gpu is not None and e.gpu != gpu)
        ]


def _may_have(tenant: Tenant) -> bool:
    """Whether a tenant can have credit: it holds by itself, and its memory can leave."""
    return tenant.state is State.HOLDING and tenant.gang is None and not tenant.memory.pinned
