"""How much of a GPU may be shared out, and in what pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIB: Final = 1 << 20
GIB: Final = 1 << 30

BIG_CARD_BYTES: Final = 16 * GIB
GRANULE_BYTES: Final = 2 * MIB
"""The driver maps memory in whole pieces of this size; a smaller rest is of no use."""
CONTEXTS_RESERVED: Final = 4
"""Number of contexts for which memory is reserved; further contexts reduce the capacity."""


@dataclass(frozen=True, slots=True)
class GpuBudget:
    """The division of one GPU's memory: headroom | residue reserve | capacity."""

    total_bytes: int
    headroom_bytes: int
    """Memory that no tenant may use, for the driver's own needs and fragmentation."""
    residue_bytes: int
    """Expected size of one context."""
    capacity_bytes: int
    """The most that the data of all tenants may take, in whole granules; also a tenant's default
    limit."""
    chunk_bytes: int
    """The largest piece with which allocations are backed."""

    @property
    def moving_bytes(self) -> int:
        """Bytes in transfer, two chunks each way: the host needs them beside evicted bytes."""
        return 4 * self.chunk_bytes


def budget(total_bytes: int, wanted_capacity_bytes: int | None = None) -> GpuBudget:
    """The division of a card of this size; a capacity may be lowered, not raised."""
    headroom = min(256 * MIB, total_bytes // 50)
    residue = 512 * MIB if total_bytes >= BIG_CARD_BYTES else total_bytes * 3 // 100
    possible = max(0, total_bytes - headroom - CONTEXTS_RESERVED * residue)
    capacity = possible if wanted_capacity_bytes is None else min(wanted_capacity_bytes, possible)
    capacity -= capacity % GRANULE_BYTES
    return GpuBudget(total_bytes, headroom, residue, capacity, chunk_bytes(total_bytes))


def chunk_bytes(total_bytes: int) -> int:
    """64 MiB on big cards; on others a power of two near 1/256 of the card, 2 MiB at least."""
    if total_bytes >= BIG_CARD_BYTES:
        return 64 * MIB
    below = 1 << max(0, (total_bytes // 256).bit_length() - 1)
    return max(GRANULE_BYTES, min(64 * MIB, below))
