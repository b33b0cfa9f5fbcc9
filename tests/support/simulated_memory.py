"""One allocation of a simulated tenant: its chunks, where they are, and what is in them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Block:
    """One allocation: whole chunks, mapped by the program's thread once it was admitted."""

    gpu: int
    chunks: list[int]
    pinned: bool = False
    serial: int = 0
    admitted: bool = False
    resident: list[bool] = field(default_factory=list)
    """For each chunk; empty until mapped."""
    written: set[int] = field(default_factory=set)
    """The chunks that are not zero."""

    @property
    def bytes(self) -> int:
        """What was asked for."""
        return sum(self.chunks)

    @property
    def resident_bytes(self) -> int:
        """What is on the GPU."""
        return sum(size for size, there in zip(self.chunks, self.resident, strict=False) if there)

    def in_chunks(self, *, resident: bool, data: bool) -> int:
        """Bytes of its chunks that are, or are not, on the GPU, and are, or are not, data."""
        return sum(
            size
            for i, (size, there) in enumerate(zip(self.chunks, self.resident, strict=False))
            if there == resident and (i in self.written) == data
        )
