"""Requests that wait because of bytes that others freed just now.

Such bytes still count as their owners', so that a program which frees and allocates finds what it
had. A request that would be refused for them alone waits until they count no more, for at most a
second, and is decided then: so it is neither refused nor admitted because of the moment when it
came.
"""

from __future__ import annotations

import math
from typing import Final

from moiety.arbiter import events as ev
from moiety.arbiter.admission.memory import refuse_bytes, refuse_context
from moiety.arbiter.admission.pins import refuse_pin
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.state.tenant import Tenant

Waiting = ev.Attach | ev.AllocRequest | ev.PinRequest
_ASKS: Final = frozenset({ev.Attach, ev.AllocRequest, ev.PinRequest, ev.DriverOom})
"""Looked up for each event: a set is quicker than the kinds of `Waiting` one by one."""


class JustFreed:
    """The requests that wait; the ledger's residencies know what was freed."""

    def __init__(self, ledger: Ledger) -> None:
        """No request waits."""
        self._ledger = ledger
        self._held: list[tuple[float, Waiting]] = []

    @property
    def deadline_s(self) -> float:
        """When the next waiting request is decided; infinite: none waits."""
        return min(due_s for due_s, _ in self._held) if self._held else math.inf

    def expire(self, event: ev.Event, now_s: float) -> None:
        """Before a request is decided: forget what was freed longer ago than a moment."""
        if type(event) in _ASKS:
            self._expire(now_s)

    def _expire(self, now_s: float) -> None:
        for tenant in self._ledger.tenants.values():
            for on in tenant.gpus.values():
                on.freed.expire(now_s)

    def holds_up(self, event: ev.Event, now_s: float) -> bool:
        """Whether an event waits until what others freed counts no more."""
        if type(event) not in _ASKS or not isinstance(event, Waiting):
            return False
        tenant = self._ledger.tenants.get(event.tenant)
        others = (each for each in self._ledger.tenants.values() if each is not tenant)
        until_s = max((on.freed.until_s for o in others for on in o.gpus.values()), default=0.0)
        if tenant is None or until_s <= now_s:
            return False
        if not _is_refused(self._ledger, tenant, event, reach=True):
            return False
        if _is_refused(self._ledger, tenant, event, reach=False):
            return False
        self._held.append((until_s, event))
        return True

    def released(self, now_s: float) -> list[Waiting]:
        """The requests that are decided now, in order of arrival."""
        if not self._held:
            return []
        ready = [event for due_s, event in self._held if now_s >= due_s]
        self._held = [(due_s, event) for due_s, event in self._held if now_s < due_s]
        if ready:
            self._expire(now_s)
        return ready

    def drop(self, tenant: int, gpu: int | None = None) -> None:
        """Forget the requests of a process that has left, or only those for `gpu`."""
        self._held = [
            (due_s, event)
            for due_s, event in self._held
            if event.tenant != tenant or (gpu is not None and event.gpu != gpu)
        ]


def _is_refused(ledger: Ledger, tenant: Tenant, event: Waiting, *, reach: bool) -> bool:
    """Whether a request would be refused now, for a reason that freed bytes can be part of."""
    if isinstance(event, ev.Attach):
        if event.exists or event.gpu in tenant.gpus or event.gpu not in ledger.specs:
            return False
        return refuse_context(ledger, event.gpu, event.residue_bytes, reach=reach) is not None
    if event.gpu != ev.EVERY_GPU and event.gpu not in tenant.gpus:
        return False
    if isinstance(event, ev.PinRequest):
        return refuse_pin(ledger, tenant, event, reach=reach) is not None
    pinned, managed = event.pinned, event.managed
    no = refuse_bytes(
        ledger, tenant, event.gpu, event.bytes, pinned=pinned, managed=managed, reach=reach
    )
    return no is not None
