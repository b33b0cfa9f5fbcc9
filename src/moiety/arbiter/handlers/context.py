"""What a handler works on: the state of the arbiter, the time, and what has been decided so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.admission.credit import Credit
from moiety.arbiter.admission.just_freed import JustFreed
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.schedule.attaching import must_wait
from moiety.arbiter.schedule.fair_share import FairShare
from moiety.arbiter.schedule.quantum import Quantum
from moiety.arbiter.settings import Settings
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.state.visits import Visits

Postponed = ev.Attach | ev.AllocRequest | ev.DriverOom | ev.PinRequest


@dataclass(slots=True)
class Context:
    """The state of one arbiter. `now_s` is the time of the event that is being handled."""

    ledger: Ledger
    settings: Settings
    quantum: Quantum
    fair_share: FairShare
    credit: Credit
    just_freed: JustFreed
    is_settled: bool
    """False until `Settled`: a new agent listens first, and decides nothing."""
    postponed: list[Postponed] = field(default_factory=list)
    """Requests that wait for `Settled`, in the order in which they came."""
    uncovered: list[ev.Attach] = field(default_factory=list)
    """GPUs that tenants attach once they have given their leases back (schedule/attaching.py)."""
    out: list[do.Instruction] = field(default_factory=list)
    """Instructions that were decided and not yielded yet."""
    now_s: float = 0.0
    visits: Visits = field(default_factory=Visits)

    def refuse(self, event: Postponed, code: str, text: str) -> None:
        """Answer a request with no; `code` and `text` are those of `Refused`."""
        self.out.append(do.Refused(event.tenant, event.gpu, event.serial, code, text))

    def drop(self, tenant: int, gpu: int | None = None) -> None:
        """Forget the requests of a process that has left, or only those for `gpu`."""
        self.postponed = [e for e in self.postponed if not _is_of(e, tenant, gpu)]
        self.uncovered = [e for e in self.uncovered if not _is_of(e, tenant, gpu)]
        self.credit.drop(tenant, gpu)
        self.just_freed.drop(tenant, gpu)

    def answered(self, tenant: Tenant) -> None:
        """Note that a tenant did what it was told, or a part of it: it is not late any more."""
        tenant.drain.stopped = False
        tenant.drain.due_s = 0.0
        if tenant.drain.silent:
            tenant.drain.silent = False
            self.ledger.touch(tenant)

    def take_postponed(self) -> list[Postponed]:
        """The requests that need not wait any more."""
        if not (self.is_settled and self.postponed):
            return []
        ready, self.postponed = self.postponed, []
        return ready

    def take_covered(self) -> list[ev.Attach]:
        """The attaches of tenants that have given their leases back."""
        if not self.uncovered:
            return []
        ready = [
            event
            for event in self.uncovered
            if not must_wait(self.ledger, self.ledger.tenants[event.tenant], event.gpu)
        ]
        self.uncovered = [event for event in self.uncovered if event not in ready]
        return ready


def _is_of(event: Postponed, tenant: int, gpu: int | None) -> bool:
    return event.tenant == tenant and (gpu is None or event.gpu == gpu)
