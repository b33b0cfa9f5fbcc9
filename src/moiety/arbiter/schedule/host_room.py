"""Overcommitted memory: no data leaves a GPU that the host has no room for.

Programs may have asked for more than the GPUs and the arena hold (`Settings.overcommit`), because
most of it is zeros that they never wrote. What a tenant's bytes are is known only once it has
drained and its process has counted them; what is not counted is taken for data. If the bytes that
must leave do not fit into the arena by that, the processes are asked. If they do not fit then,
nothing leaves, and a tenant that they would leave for is given up for now: others may fit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from moiety.arbiter import instructions as do
from moiety.arbiter.admission.driver_reserve import forget
from moiety.arbiter.admission.memory import instead
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.schedule.throttle import postpone
from moiety.arbiter.settings import WhenFull
from moiety.arbiter.state.residency import HostShortage, Request, Residency
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import REVOKED, State
from moiety.model.units import format_bytes

Plan = list[tuple[Tenant, int, int]]
"""What should leave: of which tenant, from which GPU, how many bytes."""
_LAST_DOUBLINGS: Final = 20
_RECOUNTS_MAX: Final = 16
"""A process that voids more counts by what it frees is not asked again before its next lease: its
bytes are taken for data, so that others do not wait for one count after the other."""


def short_bytes(round_: Round, plan: Plan) -> int:
    """By how much the arena is too small for the data in a plan; 0: it has room.

    Host memory that tenants give back while they restore is room for what leaves the same GPU: a
    restore and the evictions for it go step by step, data first and zeros first.
    """
    planned: dict[tuple[int, int], int] = {}
    for victim, gpu, amount in plan:
        planned[victim.number, gpu] = planned.get((victim.number, gpu), 0) + amount
    growth = 0
    for gpu in round_.ledger.specs:
        out = back = 0
        for tenant, on in round_.ledger.on(gpu):
            leaving = planned.get((tenant.number, gpu), 0) + sum(on.orders)
            if leaving:
                out += max(0, leaving - zero_bytes(on))
            elif tenant.state is State.RESTORING and on.content is not None:
                back += _host_bytes(tenant, gpu, on)
        growth += max(0, out - back)
    return max(0, growth - _room_bytes(round_.ledger)) if growth else 0


def zero_bytes(on: Residency) -> int:
    """Resident bytes that are known to be zeros, and need no room."""
    return 0 if on.content is None else min(on.content.zero_bytes, on.charged_bytes)


def ask_content(round_: Round, plan: Plan) -> bool:
    """Have processes count what is not known yet; whether there is anything to wait for."""
    waits = False
    victims = {(victim.number, gpu) for victim, gpu, _ in plan}
    for gpu in round_.ledger.specs:
        for tenant, on in round_.ledger.on(gpu):
            is_victim = (tenant.number, gpu) in victims
            if tenant.holds or tenant.state in REVOKED:
                waits = waits or is_victim  # it is draining, and counts once it has
                continue
            if on.content is not None or tenant.is_firm or on.recounts > _RECOUNTS_MAX:
                continue
            if is_victim or on.orders or _host_bytes(tenant, gpu, on):
                waits = True
                if not (on.orders or on.content_asked):
                    _ask(round_, tenant, gpu, on)
    return waits


def _ask(round_: Round, tenant: Tenant, gpu: int, on: Residency) -> None:
    if not tenant.has_orders:
        round_.expect(tenant, round_.settings.revoke_deadline_s)
    on.content_asked = True
    round_.out.append(do.ContentQuery(tenant.number, gpu))


def give_up(round_: Round, plan: Plan, short: int) -> bool:
    """Give up the last tenant that bytes would have to leave for; False: there is none.

    What it requested is refused. Without a request it goes back into the queue for a while.
    """
    gpus = {gpu for _, gpu, _ in plan}
    arena = format_bytes(round_.ledger.arena_bytes)
    text = (
        f"the host has no room for others' data that must leave the GPU first: "
        f"host memory for evicted data ({arena}) is {format_bytes(short)} short; "
        f"{instead(round_.ledger)}"
    )
    for tenant in reversed(round_.coming):
        if _lacks(tenant, gpus):
            if not _refuse(round_, tenant, text):
                _bar(round_, tenant, text, short)
            return True
    for tenant in reversed(round_.asking):
        if tenant.is_growing and _lacks(tenant, gpus) and _refuse(round_, tenant, text):
            return True
    return any(_refuse_context(round_, tenant, gpus, text) for tenant in reversed(round_.asking))


def _lacks(tenant: Tenant, gpus: set[int]) -> bool:
    """Whether bytes must leave one of these GPUs before a tenant has all of its own there."""
    return any(on.need_bytes > on.charged_bytes for gpu, on in tenant.gpus.items() if gpu in gpus)


def _refuse(round_: Round, tenant: Tenant, text: str) -> bool:
    """Refuse what a tenant requested and has not got; False: nothing."""
    requests = [request for request in tenant.requests if request.bytes]
    for request in requests:
        round_.ledger.withdraw(tenant, request)
        _answer_no(round_, tenant, request, text)
    return bool(requests)


def _refuse_context(round_: Round, tenant: Tenant, gpus: set[int], text: str) -> bool:
    """Refuse a context, or room for the driver, that bytes would have to leave for."""
    for request in tenant.requests:
        balance = round_.balances[request.gpu]
        if not request.is_context or request.gpu not in gpus or balance.free_bytes >= 0:
            continue
        if not request.is_need and not tenant.gpus[request.gpu].allocated_bytes:
            _detach(round_, tenant, request.gpu, text)
            return True
        tenant.requests.remove(request)
        if request.is_need:
            forget(round_.ledger, tenant)
        _answer_no(round_, tenant, request, text)
        return True
    return False


def _detach(round_: Round, tenant: Tenant, gpu: int, text: str) -> None:
    """Refuse a context with all that was requested on its GPU: the tenant is not there."""
    ledger = round_.ledger
    for request in [request for request in tenant.requests if request.gpu == gpu]:
        tenant.requests.remove(request)
        if request.is_need:
            forget(ledger, tenant)
        _answer_no(round_, tenant, request, text)
    ledger.end_stay(tenant, (gpu,), tenant.state)
    round_.credit.forget([ledger.detach(tenant, gpu)])
    tenant.memory.counted.pop(gpu, None)
    tenant.memory.hearsay.discard(gpu)
    ledger.members_changed = True
    round_.fair_share.refresh()  # the rest of the round, and the next charge, go by who is there


def _answer_no(round_: Round, tenant: Tenant, request: Request, text: str) -> None:
    round_.out.append(do.Refused(tenant.number, request.gpu, request.serial, "capacity", text))


def _bar(round_: Round, tenant: Tenant, text: str, short: int) -> None:
    """Send a tenant back into the queue, until there is room or a wait is over."""
    settings = round_.settings
    before = tenant.memory.host_short
    tries = before.tries + 1 if before else 0
    wait_s = min(settings.retry_min_s * 2 ** min(tries, _LAST_DOUBLINGS), settings.retry_max_s)
    enough = _both_bytes(round_, tenant) + short
    until_s = round_.now_s + wait_s
    tenant.memory.host_short = HostShortage(text, until_s, tries, enough)
    round_.wake_at(until_s)
    postpone(round_, tenant)
    tenant.blocked_by = text
    is_fatal = settings.when_full is WhenFull.KILL
    round_.out.append(do.HostShort(tenant.number, text, kill=is_fatal))


def look_after_short(round_: Round, tenant: Tenant) -> None:
    """Let a tenant that was given up be tried again once there is room for it."""
    short = tenant.memory.host_short
    if short is None or round_.now_s >= short.until_s:
        return
    if _both_bytes(round_, tenant) >= short.enough_bytes:
        tenant.memory.host_short = replace(short, until_s=round_.now_s)
    else:
        round_.wake_at(short.until_s)


def _both_bytes(round_: Round, tenant: Tenant) -> int:
    """Room in the arena, and on the GPUs of a tenant."""
    balances = round_.ledger.balances()
    return _room_bytes(round_.ledger) + sum(balances[gpu].free_bytes for gpu in tenant.gpus)


def _room_bytes(ledger: Ledger) -> int:
    """What of the arena is left; negative if it was made smaller than what it holds.

    Room for all managed memory is kept: the driver moves it when it likes.
    """
    used = 0
    for gpu in ledger.specs:
        for tenant, on in ledger.on(gpu):
            used += _host_bytes(tenant, gpu, on) + on.managed_bytes
    return ledger.arena_bytes - used


def _host_bytes(tenant: Tenant, gpu: int, on: Residency) -> int:
    """The most host memory that a tenant's evicted data takes."""
    if tenant.holds or tenant.state in REVOKED:
        return 0
    pending = tenant.pending_bytes(gpu)
    most = max(0, on.allocated_bytes - pending - on.charged_bytes - on.managed_bytes)
    return most if on.content is None else min(most, on.content.host_bytes)
