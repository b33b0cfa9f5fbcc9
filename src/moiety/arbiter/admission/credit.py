"""Credit: bytes that a process may allocate without a request, while no other process needs them.

A process that asks for memory often gets credit (`CreditGrant`). Credit counts as allocated and
resident, so its use contradicts no decision; only `ps` and `status` leave it out. It is granted
where everything fits with room to spare. It is revoked before it could cause a refusal or a wait:
a request that needs its bytes is held until they are returned, or until the time for an answer is
over (docs/decisions/0022).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec.structs import replace

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.admission.memory import budget_bytes, limited_bytes, refuse_bytes
from moiety.arbiter.admission.pins import refuse_pin
from moiety.arbiter.admission.user_limits import user_room_bytes
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.settings import Settings
from moiety.arbiter.state.balance import Balance
from moiety.arbiter.state.residency import Residency
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import State

ROOM_PART = 16
"""The capacity divided by this stays free beside credit."""

Held = ev.Attach | ev.AllocRequest | ev.DriverOom | ev.PinRequest


def most_bytes(settings: Settings, capacity: int) -> int:
    """The most credit that one process gets on a GPU with a capacity of `capacity` bytes."""
    most = min(settings.allowance_bytes, capacity // settings.allowance_part)
    return most // settings.allowance_step * settings.allowance_step


def refill_bytes(on: Residency) -> int:
    """The bytes that a process may free and return to its credit.

    Its credit may be twice as much as it was granted at most: it may not have heard of the last
    grant when it frees.
    """
    return max(0, 2 * on.credit.most_bytes - on.credit.left_bytes) if on.credit.is_given else 0


class Credit:
    """The requests that are held until credit is returned; the ledger knows the credit itself."""

    def __init__(self, ledger: Ledger) -> None:
        """No process has credit."""
        self._ledger = ledger
        self._held: list[tuple[float, Held]] = []
        self._calm_s: dict[int, float] = {}
        """For each GPU: when credit may be granted again."""
        self.given = 0
        """The number of residencies with credit; while it is 0, nothing else is checked."""

    @property
    def deadline_s(self) -> float:
        """When the next held request is handled at the latest; infinite: none is held."""
        return min((due_s for due_s, _ in self._held), default=math.inf)

    # Grants

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
        """Grant credit to a process whose request was just answered, if no other could need it.

        `balance` has the sums of the GPU. `is_calm` says that no tenant is restoring, draining,
        queued or asking, and that none take turns.
        """
        on = asked.gpus[gpu]
        again = now_s - on.credit.asked_s <= settings.allowance_asks_s
        on.credit.asked_s = now_s
        capacity = budget_bytes(self._ledger, gpu)
        step = settings.allowance_step
        most = most_bytes(settings, capacity)
        if on.credit.is_late or not again or most <= on.credit.left_bytes or not is_calm:
            return
        if not _may_have(asked) or balance.needed_bytes or now_s < self._calm_s.get(gpu, -math.inf):
            return
        taken = sum(each.allocated_bytes for _, each in self._ledger.on(gpu))
        room = capacity - capacity // ROOM_PART - taken
        of_limit = on.limit_bytes - limited_bytes(self._ledger, asked, gpu)
        more = min(most - on.credit.left_bytes, room, of_limit)
        of_user = user_room_bytes(self._ledger, asked, gpu)
        more = (more if of_user is None else min(more, of_user)) // step * step
        if more <= 0 or balance.free_bytes < more:
            return
        self._count(on, given=True)
        self._ledger.grant_credit(asked, gpu, more, most)
        out.append(do.CreditGrant(asked.number, gpu, more, most))

    def _count(self, on: Residency, *, given: bool) -> None:
        self.given += given - on.credit.is_given
        on.credit.is_given = given

    # Use and return

    def took(self, event: ev.CreditUsed) -> None:
        """Count bytes that a process allocated from its credit."""
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is not None and event.gpu in tenant.gpus:
            self._ledger.use_credit(tenant, event.gpu, event.bytes, event.spare_bytes)

    def freed(self, event: ev.Free) -> None:
        """Return freed bytes to the credit, as if they were granted now."""
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is not None and event.gpu in tenant.gpus:
            self._ledger.refill_credit(tenant, event.gpu, event.bytes, event.resident_bytes)

    def returned(self, event: ev.CreditReturned) -> None:
        """Release the credit that a process had left when it returned it."""
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is None or (on := tenant.gpus.get(event.gpu)) is None:
            return
        self._ledger.return_credit(tenant, event.gpu, event.bytes)
        on.credit.is_recalled = on.credit.is_late = False
        self._count(on, given=on.credit.left_bytes > 0)  # another grant may be on its way

    def forget(self, entries: Iterable[Residency]) -> None:
        """Forget the credit of residencies whose processes or contexts are gone."""
        for on in entries:
            self._count(on, given=False)

    # Revokes

    def holds_up(
        self, event: ev.Event, settings: Settings, now_s: float, out: list[do.Instruction]
    ) -> bool:
        """Whether an event has to wait until credit is returned; if so, that credit is revoked."""
        if not self.given or not isinstance(event, Held):
            return False
        if isinstance(event, ev.Attach) and event.exists:
            return False  # the context exists already
        if not self._is_given_on(event.gpu) or not self._lacks(event):
            return False
        if isinstance(event, ev.DriverOom) and event.free_bytes is not None:
            spare = sum(on.credit.spare_bytes for _, on in self._ledger.on(event.gpu))
            event = replace(event, free_bytes=event.free_bytes + spare)
        self._held.append((now_s + settings.allowance_wait_s, event))
        for gpu in self._gpus(event.gpu):
            self.recall(gpu, settings, now_s, out)
        return True

    def _lacks(self, event: Held) -> bool:
        """Whether the return of credit could change the answer to a request."""
        tenant = self._ledger.tenants.get(event.tenant)
        if tenant is None:
            return False
        if isinstance(event, ev.Attach):
            return event.gpu not in tenant.gpus
        if isinstance(event, ev.PinRequest) and event.gpu == ev.EVERY_GPU:
            return refuse_pin(self._ledger, tenant, event) is not None
        if event.gpu not in tenant.gpus or isinstance(event, ev.DriverOom):
            return event.gpu in tenant.gpus
        if isinstance(event, ev.PinRequest):
            return refuse_pin(self._ledger, tenant, event) is not None
        if event.bytes > tenant.gpus[event.gpu].limit_bytes:
            return False  # it exceeds the tenant's own limit
        taken = sum(on.allocated_bytes for _, on in self._ledger.on(event.gpu))
        needed = sum(on.needed_bytes for _, on in self._ledger.on(event.gpu))
        room = budget_bytes(self._ledger, event.gpu) - needed
        no = refuse_bytes(self._ledger, tenant, event.gpu, event.bytes, pinned=event.pinned)
        return no is not None or taken + event.bytes > room

    def recall(self, gpu: int, settings: Settings, now_s: float, out: list[do.Instruction]) -> None:
        """Revoke all credit on a GPU."""
        self._calm_s[gpu] = now_s + settings.allowance_calm_s
        for tenant, on in self._ledger.on(gpu):
            self._recall(tenant, gpu, on, out)

    def recall_from(self, tenant: Tenant, out: list[do.Instruction]) -> None:
        """Revoke all credit of one process, because its share, gang or pinning has changed."""
        for gpu, on in tenant.gpus.items():
            self._recall(tenant, gpu, on, out)

    def _recall(self, tenant: Tenant, gpu: int, on: Residency, out: list[do.Instruction]) -> None:
        if on.credit.is_given and not on.credit.is_recalled:
            on.credit.is_recalled = True
            out.append(do.CreditRevoke(tenant.number, gpu))

    def look_after(self, settings: Settings, now_s: float, out: list[do.Instruction]) -> None:
        """Revoke the credit on each GPU where it no longer fits beside the driver reserve."""
        for gpu in self._ledger.specs if self.given else ():
            if self._is_given_on(gpu):
                taken = sum(on.allocated_bytes for _, on in self._ledger.on(gpu))
                needed = sum(on.needed_bytes for _, on in self._ledger.on(gpu))
                if taken > budget_bytes(self._ledger, gpu) - needed:
                    self.recall(gpu, settings, now_s, out)

    def _gpus(self, gpu: int) -> Iterable[int]:
        return self._ledger.specs if gpu == ev.EVERY_GPU else (gpu,)

    def _is_given_on(self, gpu: int) -> bool:
        """Whether there is credit that will be returned soon."""
        return any(
            on.credit.is_given and not on.credit.is_late
            for each in self._gpus(gpu)
            for _, on in self._ledger.on(each)
        )

    def _wait_no_more(self, gpu: int) -> None:
        """Let no further request wait for credit that was revoked and is not returned."""
        for each in self._gpus(gpu):
            for _, on in self._ledger.on(each):
                on.credit.is_late = on.credit.is_recalled

    # Held requests

    def released(self, now_s: float) -> list[Held]:
        """The held requests that need not wait any more, in order of arrival."""
        if not self._held:
            return []
        for _, event in [held for held in self._held if now_s >= held[0]]:
            self._wait_no_more(event.gpu)
        ready = [e for due_s, e in self._held if now_s >= due_s or not self._is_given_on(e.gpu)]
        self._held = [(due_s, e) for due_s, e in self._held if e not in ready]
        return ready

    def drop(self, tenant: int, gpu: int | None = None) -> None:
        """Forget the held requests of a process that has left, or only those for `gpu`."""
        self._held = [
            (due_s, e)
            for due_s, e in self._held
            if e.tenant != tenant or (gpu is not None and e.gpu != gpu)
        ]


def _may_have(tenant: Tenant) -> bool:
    """Whether a tenant can have credit: it holds by itself, and its memory can leave."""
    return tenant.state is State.HOLDING and tenant.gang is None and not tenant.memory.pinned
