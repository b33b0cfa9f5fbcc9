"""The bytes of a node's GPUs: who has how much of which, what is free, what may be added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moiety.arbiter.settings import GpuSpec
from moiety.arbiter.tenant import OnGpu, Tenant
from moiety.model.units import format_bytes


class Ledger:
    """Sums over tenants. It changes nothing by itself: the arbiter does."""

    def __init__(self, gpus: Iterable[GpuSpec], arena_bytes: int) -> None:
        self.specs = {spec.gpu: spec for spec in gpus}
        self.arena_bytes = arena_bytes
        self.tenants: dict[int, Tenant] = {}

    def on(self, gpu: int) -> Iterator[tuple[Tenant, OnGpu]]:
        """The tenants that have a context on this GPU, in order of arrival."""
        for tenant in self.tenants.values():
            entry = tenant.gpus.get(gpu)
            if entry is not None:
                yield tenant, entry

    def budget_bytes(self, gpu: int, extra_residue: int = 0) -> int:
        """What may be promised: contexts eat into the capacity once the reserve is used up."""
        spec = self.specs[gpu]
        residue = sum(entry.residue_bytes for _, entry in self.on(gpu))
        return min(spec.capacity_bytes, spec.total_bytes - residue - extra_residue)

    def capacity_bytes(self, gpu: int) -> int:
        """What tenants' data may take now: the budget, or what was promised before it shrank.

        A context can turn out larger than estimated. Whoever was admitted before must still be
        able to come back, at the cost of the headroom.
        """
        stays = sum(t.unmovable_bytes(gpu) for t, _ in self.on(gpu))
        promised = (e.allocated_bytes + stays - t.unmovable_bytes(gpu) for t, e in self.on(gpu))
        return max(self.budget_bytes(gpu), *promised, 0)

    def free_bytes(self, gpu: int) -> int:
        """Neither resident nor promised; negative while room is being made for a context."""
        return self.capacity_bytes(gpu) - sum(e.charged_bytes for _, e in self.on(gpu))

    def evicting_bytes(self, gpu: int) -> int:
        """Ordered out and still there."""
        return sum(e.evicting_bytes for _, e in self.on(gpu))

    def spill_bytes(self) -> int:
        """Host memory that what is allocated now can need: what the GPUs cannot hold of it."""
        return sum(
            max(0, sum(e.allocated_bytes for _, e in self.on(gpu)) - self.capacity_bytes(gpu))
            for gpu in self.specs
        )

    def fits_bytes(self, tenant: Tenant, gpu: int, leaving: frozenset[int] = frozenset()) -> int:
        """How much is left on `gpu` once `tenant` is wholly there beside those that hold it.

        `leaving` are holders that count as revoked. Negative: it does not fit.
        """
        left = self.capacity_bytes(gpu) - tenant.gpus[gpu].allocated_bytes
        for other, entry in self.on(gpu):
            if other is tenant:
                continue
            stays = other.stays and other.number not in leaving
            left -= entry.allocated_bytes if stays else other.unmovable_bytes(gpu)
        return left

    def refusal_for_bytes(
        self, tenant: Tenant, gpu: int, wanted: int, *, pinned: bool
    ) -> tuple[str, str] | None:
        """Why `wanted` more bytes cannot be allocated, as (code, sentence); None if they can."""
        entry = tenant.gpus[gpu]
        asked = f"{format_bytes(wanted)} more on GPU {gpu}"
        if entry.allocated_bytes + wanted > entry.limit_bytes:
            return "limit", (
                f"{asked} would exceed this program's limit of "
                f"{format_bytes(entry.limit_bytes)} ({format_bytes(entry.allocated_bytes)} in use)"
            )
        stays = wanted if pinned or tenant.pinned else 0
        for other, theirs in self.on(gpu):
            own = theirs.allocated_bytes + (wanted if other is tenant else 0)
            beside = sum(t.unmovable_bytes(gpu) for t, _ in self.on(gpu) if t is not other)
            room = self.budget_bytes(gpu) - beside - (0 if other is tenant else stays)
            if own > room and (other is tenant or stays):
                return "capacity", (
                    f"{asked} cannot be had: {format_bytes(max(0, room))} of the GPU remain beside "
                    f"memory that cannot leave; end the program that holds it (moiety ps)"
                )
        spill = sum(e.allocated_bytes for _, e in self.on(gpu)) + wanted - self.capacity_bytes(gpu)
        now = sum(e.allocated_bytes for _, e in self.on(gpu)) - self.capacity_bytes(gpu)
        if self.spill_bytes() - max(0, now) + max(0, spill) > self.arena_bytes:
            return "capacity", (
                f"{asked} cannot be had: GPU and host memory for evicted data "
                f"({format_bytes(self.arena_bytes)}) are full; end a program or raise --arena"
            )
        return None

    def refusal_for_context(self, gpu: int, residue: int) -> tuple[str, str] | None:
        """Why one more context does not fit on the GPU; None if it does."""
        capacity = self.budget_bytes(gpu, residue)
        for tenant, entry in self.on(gpu):
            beside = sum(t.unmovable_bytes(gpu) for t, _ in self.on(gpu) if t is not tenant)
            if entry.allocated_bytes + beside > capacity:
                return "capacity", (
                    f"no room for another context ({format_bytes(residue)}) on GPU {gpu}: "
                    f"tenant {tenant.number} needs {format_bytes(entry.allocated_bytes)} of "
                    f"{format_bytes(self.capacity_bytes(gpu))}; give it a --memory-limit"
                )
        if capacity < 0:
            return "capacity", f"no room for another context ({format_bytes(residue)}) on GPU {gpu}"
        return None
