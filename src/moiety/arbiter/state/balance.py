"""The sums of one GPU over all tenants, and what one tenant adds to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from moiety.arbiter.settings import GpuSpec
from moiety.arbiter.state.residency import Residency
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import STAYING


@dataclass(slots=True)
class Balance:
    """One GPU's sums."""

    tenants: int = 0
    """The number of tenants with a context there."""
    capacity_bytes: int = 0
    """Bytes that tenants' data may take."""
    allocated_bytes: int = 0
    """Bytes that all tenants have together, on the GPU or evicted; of each no more than fit."""
    charged_bytes: int = 0
    """Resident bytes, and room that was given for restores."""
    leaving_bytes: int = 0
    """Resident bytes that tenants were told to evict."""
    staying_bytes: int = 0
    """All bytes of holders and restoring tenants, and bytes of others that cannot leave."""
    pending_bytes: int = 0
    """The part of `staying_bytes` that is requested and not answered."""
    firm_bytes: int = 0
    """Bytes that would stay if no tenant held."""
    residue_bytes: int = 0
    expected_bytes: int = 0
    """The residue at admission; the measured one may be larger."""
    needed_bytes: int = 0
    """Bytes that are kept free for the driver reserve."""
    managed_bytes: int = 0
    """Bytes that the driver pages."""

    def add(self, more: tuple[int, ...], less: tuple[int, ...]) -> None:
        """Replace what one tenant adds to the sums."""
        self.residue_bytes += more[0] - less[0]
        self.expected_bytes += more[1] - less[1]
        self.needed_bytes += more[2] - less[2]
        self.allocated_bytes += more[3] - less[3]
        self.charged_bytes += more[4] - less[4]
        self.leaving_bytes += more[5] - less[5]
        self.staying_bytes += more[6] - less[6]
        self.pending_bytes += more[7] - less[7]
        self.firm_bytes += more[8] - less[8]
        self.managed_bytes += more[9] - less[9]

    @property
    def free_bytes(self) -> int:
        """Bytes neither resident nor given as room; negative while room is made for a context."""
        return self.capacity_bytes - self.charged_bytes

    @property
    def is_crowded(self) -> bool:
        """Whether the tenants have too many bytes for all of them to hold together."""
        return self.allocated_bytes > self.capacity_bytes


def entry_of(tenant: Tenant, gpu: int, on: Residency) -> tuple[int, ...]:
    """What one tenant adds to the sums of a GPU, in the order of `Balance.add`."""
    charged = on.charged_bytes
    if (
        tenant.memory.pinned
        or tenant.drain.silent
        or tenant.drain.detained
        or tenant.drain.stuck_until_s > 0
    ):
        firm = charged
    else:
        firm = min(tenant.kept_bytes(on), charged)
    pending = leaving = 0
    if tenant.state in STAYING:
        staying = on.need_bytes
        if tenant.requests:
            pending = tenant.growth_bytes(gpu)
    else:
        staying = firm
        if on.orders and not tenant.drain.silent:
            leaving = sum(on.orders)
    return (
        on.residue_bytes,
        on.expected_bytes,
        on.needed_bytes,
        on.need_bytes,
        charged,
        leaving,
        staying,
        pending,
        firm,
        on.managed_bytes,
    )


def stretched_bytes(
    spec: GpuSpec,
    capacity: int,
    expected: int,
    on_gpu: Iterable[tuple[Tenant, Residency]],
    units: Iterable[tuple[Tenant, int, int]],
) -> int:
    """The capacity where contexts turned out larger than expected.

    Resident bytes stay, and each tenant that was admitted must be able to come back, at the cost of
    the headroom. The result is never more than was promised with the `expected` residue.
    """
    entries = list(on_gpu)
    promised = sum(tenant.promised_bytes(on) for tenant, on in entries)
    most = max(allocated - stays for _, allocated, stays in units) + promised
    charged = sum(min(on.charged_bytes, on.required_bytes) for _, on in entries)
    limit = min(spec.capacity_bytes, spec.total_bytes - expected)
    return max(capacity, min(limit, max(most, charged)))
