"""Room that is kept on a GPU for workloads whose processes have not come to any GPU yet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Promise:
    """Bytes of one GPU: for the data of such workloads, and for the first context of each."""

    memory_bytes: int = 0
    residue_bytes: int = 0


NOTHING = Promise()
