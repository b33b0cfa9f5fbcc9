"""The arbiter: events in, instructions out. Who holds a lease on the GPUs of one node, and when.

It covers all GPUs of a node at once. A process has one lease for everything it uses. Two processes
that share no GPU never affect each other. A process that uses several GPUs gets them all together,
so no process holds one GPU and waits for another (docs/decisions/0003).

An event is handled in two steps: its handler writes down what happened (handlers/), then a round
looks at the whole state afresh and decides (schedule/).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.admission.credit import Credit, refill_bytes
from moiety.arbiter.admission.guarantees import (
    NOTHING,
    Promised,
    largest_part,
    refuse_resume,
    refuse_share,
)
from moiety.arbiter.admission.host_demand import needs
from moiety.arbiter.admission.just_freed import JustFreed
from moiety.arbiter.admission.memory import limited_beside, refuse_gang
from moiety.arbiter.handlers import configuration, lease, lifecycle, memory, pins, suspension
from moiety.arbiter.handlers.context import Context
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.schedule.armed import Armed, find
from moiety.arbiter.schedule.decide import decide
from moiety.arbiter.schedule.early_grants import EarlyGrants
from moiety.arbiter.schedule.fair_share import FairShare
from moiety.arbiter.schedule.quantum import Quantum
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.arbiter.snapshots import GpuView, TenantView, view_gpu, view_tenant
from moiety.arbiter.states import REVOKED, State
from moiety.model.share import Share

HANDLERS: Final[dict[type, Callable[[Context, Any], None]]] = {
    ev.Hello: lifecycle.on_hello,
    ev.GangJoined: lifecycle.on_gang_joined,
    ev.Left: lifecycle.on_left,
    ev.Attach: lifecycle.on_attach,
    ev.Measured: memory.on_measured,
    ev.Detach: lifecycle.on_detach,
    ev.AllocRequest: memory.on_alloc_request,
    ev.DriverOom: memory.on_driver_oom,
    ev.Free: memory.on_free,
    ev.CreditUsed: memory.on_credit_used,
    ev.CreditReturned: memory.on_credit_returned,
    ev.PinRequest: pins.on_pin_request,
    ev.Unpin: pins.on_unpin,
    ev.ChargeTransferred: memory.on_charge_transferred,
    ev.ChargeReleased: memory.on_charge_released,
    ev.LeaseRequest: lease.on_lease_request,
    ev.Restored: memory.on_restored,
    ev.Resident: memory.on_resident,
    ev.Drained: lease.on_drained,
    ev.Evicted: memory.on_evicted,
    ev.ContentReply: memory.on_content_reply,
    ev.Idle: lease.on_idle,
    ev.Busy: lease.on_busy,
    ev.Pinned: pins.on_pinned,
    ev.StopChecked: lifecycle.on_stop_checked,
    ev.Suspend: suspension.on_suspend,
    ev.Resume: suspension.on_resume,
    ev.ShareSet: configuration.on_share_set,
    ev.SettingsSet: configuration.on_settings_set,
    ev.UserLimitsSet: configuration.on_user_limits_set,
    ev.GuaranteesSet: configuration.on_guarantees_set,
    ev.PromiseSet: configuration.on_promise_set,
    ev.ArenaSet: configuration.on_arena_set,
    ev.GpuLost: configuration.on_gpu_lost,
    ev.DivisionSet: configuration.on_division_set,
    ev.Tick: configuration.on_tick,
    ev.Settled: configuration.on_settled,
}


class Arbiter:
    """Decides about one node.

    `settled=False` starts an arbiter that only listens until it is told `Settled`: processes that
    outlived the last agent come back first. `grants_early=False` is for comparisons: then no lease
    comes before the round that decides it.
    """

    def __init__(
        self,
        gpus: Iterable[GpuSpec],
        settings: Settings,
        *,
        settled: bool = True,
        grants_early: bool = True,
    ) -> None:
        ledger = Ledger(gpus, settings.arena_bytes)
        ledger.set_overcommit(settings.overcommit)
        quantum = Quantum(settings)
        fair_share = FairShare(ledger, quantum)
        credit, just_freed = Credit(ledger), JustFreed(ledger)
        self._context = Context(ledger, settings, quantum, fair_share, credit, just_freed, settled)
        self._early = EarlyGrants(ledger, is_on=grants_early)
        self._deadline_s: float | None = None
        self._is_handling = False

    @property
    def deadline_s(self) -> float | None:
        """When `handle(now, Tick())` is due, if nothing happens before; None: never."""
        return self._deadline_s

    def armed(self) -> list[Armed]:
        """What the next message of a tenant does to a lease, where that is certain already."""
        return list(find(self._context, self._early, self._deadline_s))

    def handle(self, now_s: float, event: ev.Event) -> Iterator[do.Instruction]:
        """Take in one event and yield each instruction as soon as it is decided.

        The caller carries out each instruction before it asks for the next one, and asks until
        there is none: a lease comes before the rest of the decision is made (docs/decisions/0020).
        Raises RuntimeError if the instructions of the last event were not all taken. Events about
        tenants or GPUs that are not known are ignored: messages of a dead process may still arrive.
        """
        if self._is_handling:
            raise RuntimeError(f"{event} came before all instructions of the last event were taken")
        self._is_handling = True
        return self._handle(now_s, event)

    def _handle(self, now_s: float, event: ev.Event) -> Iterator[do.Instruction]:
        context = self._context
        try:
            if type(event) is ev.Drained and not self._is_late(now_s):
                yield from self._early.due(event)
            context.now_s = now_s
            context.fair_share.advance(now_s)
            self._apply(event)
            if context.is_settled and not _is_quiet(event):
                context.credit.look_after(context.settings, now_s, context.out)
                yield from self._decide_all()
                while covered := context.take_covered():
                    for each in covered:
                        self._decide(each)
                    yield from self._decide_all()
            else:
                context.fair_share.refresh()
            context.fair_share.find_rates()
            if context.is_settled:
                self._look_at_classes()
            yield from self._take()
            yield from context.ledger.take_changes()
        except Exception:
            self._is_handling = False  # the error is reported; the next event is handled
            raise
        self._is_handling = False

    def _is_late(self, now_s: float) -> bool:
        """Whether time alone may have changed what the last round found (early_grants.py)."""
        return self._deadline_s is not None and now_s >= self._deadline_s

    def _decide_all(self) -> Iterator[do.Instruction]:
        """One round, and what it decides."""
        round_ = self._begin_round()
        for _ in decide(round_):
            yield from self._take()
        self._end_round(round_)

    def _apply(self, event: ev.Event) -> None:
        """Handle an event, and the requests that were held back until it happened."""
        context = self._context
        now_s = context.now_s
        context.just_freed.expire(event, now_s)
        if not context.credit.holds_up(event, context.settings, now_s, context.out):
            self._decide(event)
        for each in context.take_postponed():
            self._decide(each)
        for each in context.credit.released(now_s):
            self._decide(each)
        for late in context.just_freed.released(now_s):
            HANDLERS[type(late)](context, late)

    def _decide(self, event: ev.Event) -> None:
        """Handle an event, unless it waits for what others freed just now."""
        if not self._context.just_freed.holds_up(event, self._context.now_s):
            HANDLERS[type(event)](self._context, event)

    def _begin_round(self) -> Round:
        context = self._context
        round_ = Round(
            context.ledger,
            context.settings,
            context.quantum,
            context.fair_share,
            context.now_s,
            context.out,
            context.credit,
            self._early,
            context.visits,
        )
        round_.attaching = [context.ledger.tenants[each.tenant] for each in context.uncovered]
        return round_

    def _end_round(self, round_: Round) -> None:
        held_s = min(self._context.credit.deadline_s, self._context.just_freed.deadline_s)
        if held_s < math.inf:
            round_.wake_at(held_s)
        self._deadline_s = round_.deadline_s
        self._early.check()

    def _look_at_classes(self) -> None:
        """Have the next round by the time that a class budget changes, or who sits out."""
        context = self._context
        fair_share = context.fair_share
        for change_s in (
            fair_share.class_budgets.next_change_s(context.now_s),
            fair_share.next_change_s() if fair_share.uneven else None,
            fair_share.next_pause_s(),
        ):
            if change_s is not None and (self._deadline_s is None or change_s < self._deadline_s):
                self._deadline_s = change_s

    def _take(self) -> Iterator[do.Instruction]:
        """Decided instructions that were not yielded; state changes come before all but leases."""
        context = self._context
        for instruction in context.out:
            if type(instruction) is not do.Grant and type(instruction) is not do.Revoke:
                yield from context.ledger.take_changes()
            yield instruction
        context.out.clear()

    def check(self) -> None:
        """Compare the sums with a full recount; raises AssertionError where they differ."""
        self._context.ledger.recount()
        self._context.fair_share.class_budgets.check()

    def tenants(self) -> list[TenantView]:
        """A picture of every tenant, for `ps`."""
        ledger, now_s = self._context.ledger, self._context.now_s
        return [view_tenant(ledger, tenant, now_s) for tenant in ledger.tenants.values()]

    def evicted_bytes(self) -> int:
        """What all tenants have allocated and is on no GPU now."""
        tenants = self._context.ledger.tenants.values()
        on_gpus = (on for tenant in tenants for on in tenant.gpus.values())
        return sum(
            max(0, on.used_bytes - on.charged_bytes + on.credit.left_bytes) for on in on_gpus
        )

    def gpus(self) -> list[GpuView]:
        """A picture of every GPU, for `status`."""
        return [view_gpu(self._context.ledger, gpu) for gpu in self._context.ledger.specs]

    def queue(self) -> list[int]:
        """The tenants that wait for a turn, in order of arrival."""
        return list(self._context.ledger.queue)

    def refuse_share(
        self,
        gpu: int,
        share: Share,
        beside: Promised = NOTHING,
        own: Iterable[int] = (),
        owner: str = "",
    ) -> tuple[str, Share] | None:
        """Why a share cannot be promised on a GPU, with the largest that can; None if it can.

        `own` are the tenants whose present shares it replaces; `beside` is what was promised to
        processes that have not started yet; `owner` is whose time it is.
        """
        return refuse_share(self._context.ledger, gpu, share, beside, frozenset(own), owner)

    def refuse_resume(self, tenant: int) -> str:
        """Why a suspended tenant has no room any more for what it has, in words; empty: it has."""
        known = self._context.ledger.tenants.get(tenant)
        return refuse_resume(self._context.ledger, known) if known else ""

    def largest_part(self, owner: str) -> float:
        """The part of a GPU that an owner's program could request if no other program were here.

        The rest is guaranteed to other owners.
        """
        return largest_part(self._context.ledger, owner)

    def refuse_gang(self, tenants: Iterable[int]) -> str:
        """Why these tenants cannot hold together as a gang; empty if they can."""
        known = (self._context.ledger.tenants.get(number) for number in tenants)
        return refuse_gang(self._context.ledger, [tenant for tenant in known if tenant])

    def missing(self, gang: str) -> int:
        """How many processes a gang waits for before it begins; 0 if it has, or is not known."""
        known = self._context.ledger.gangs.get(gang)
        return known.missing if known else 0

    def resident_bytes(self, tenant: int, gpu: int) -> int:
        """A tenant's resident bytes on a GPU, including room that it was given; 0 if none."""
        entry = self._context.ledger.entry(tenant, gpu)
        return entry.charged_bytes - entry.credit.left_bytes if entry else 0

    def allocated_bytes(self, tenant: int) -> int:
        """What a tenant has allocated, or requested, on all GPUs together, without its credit."""
        known = self._context.ledger.tenants.get(tenant)
        return sum(on.used_bytes for on in known.gpus.values()) if known else 0

    def pinned_bytes(self, tenant: int) -> int:
        """What of a tenant's allocations never leaves, on all GPUs together, in bytes."""
        known = self._context.ledger.tenants.get(tenant)
        return sum(on.pinned_bytes for on in known.gpus.values()) if known else 0

    def has_bytes(self, tenant: int, gpu: int) -> tuple[int, int] | None:
        """What a tenant has allocated on a GPU, with credit, and has pinned; None: no context."""
        entry = self._context.ledger.entry(tenant, gpu)
        return (entry.allocated_bytes, entry.pinned_bytes) if entry else None

    def limited_beside_bytes(self, tenant: int, gpu: int) -> int | None:
        """What others have of its workload's limit on a GPU, without credit; None: no limit."""
        ledger = self._context.ledger
        known = ledger.tenants.get(tenant)
        beside = limited_beside(ledger, known, gpu) if known else None
        return None if beside is None else sum(on.used_bytes for on in beside)

    def credit_bytes(self, tenant: int, gpu: int) -> int:
        """What a process may still allocate on a GPU without a request, in bytes."""
        entry = self._context.ledger.entry(tenant, gpu)
        return entry.credit.left_bytes if entry else 0

    def refill_bytes(self, tenant: int, gpu: int) -> int:
        """What a process may free and return to its credit on a GPU, in bytes; 0 without credit."""
        entry = self._context.ledger.entry(tenant, gpu)
        return refill_bytes(entry) if entry else 0

    def spare_bytes(self, tenant: int, gpu: int) -> int:
        """A tenant's freed bytes that are kept on a GPU for its next allocations; 0 if none."""
        entry = self._context.ledger.entry(tenant, gpu)
        return entry.credit.spare_bytes if entry else 0

    def has_work(self, tenant: int) -> bool:
        """Whether work of a tenant may run: it has its lease, or has not drained since."""
        known = self._context.ledger.tenants.get(tenant)
        return known is not None and (known.holds or known.state in REVOKED)

    def has_order(self, tenant: int) -> bool:
        """Whether a tenant is to drain, to evict or to restore, and has not finished."""
        known = self._context.ledger.tenants.get(tenant)
        return known is not None and (
            known.has_orders or known.state in REVOKED or known.state is State.RESTORING
        )

    @property
    def is_overcommitted(self) -> bool:
        """Whether tenants may have asked for more than the GPUs and the arena hold."""
        return self._context.ledger.checks_host_room

    def host_needs(self) -> dict[int, int]:
        """Bytes of host memory that each tenant's data could need at one time."""
        return needs(self._context.ledger)

    def managed_bytes(self, tenant: int, gpu: int) -> int:
        """A tenant's bytes on a GPU that the driver pages; 0 if it has none."""
        entry = self._context.ledger.entry(tenant, gpu)
        return entry.managed_bytes if entry else 0


def _is_quiet(event: ev.Event) -> bool:
    """Whether no round has to follow: a count before `Drained`, or an allocation within credit."""
    kind = type(event)
    if kind is ev.Free:
        return event.allowed  # type: ignore[union-attr]  # faster than isinstance
    return kind is ev.Resident or kind is ev.CreditUsed
