"""What may be promised: guaranteed parts of a GPU's time, and memory that stays on it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from moiety.arbiter.admission.memory import budget_bytes
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.state.gang import mates
from moiety.model.format import format_bytes, format_fraction
from moiety.model.share import Share

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Promised:
    """What was promised to workloads whose processes have not come to the GPU yet."""

    gpu: float = 0.0
    memory_bytes: int = 0


NOTHING = Promised()


def refuse_share(
    ledger: Ledger,
    gpu: int,
    share: Share,
    beside: Promised = NOTHING,
    own: frozenset[int] = frozenset(),
) -> tuple[str, Share] | None:
    """Why `share` cannot be promised on `gpu`, with the largest that could; None if it can."""
    others = [(t, on) for t, on in ledger.on(gpu) if t.number not in own]
    asked = beside.gpu + sum(t.share.gpu or 0.0 for t, _ in others)
    if share.gpu is not None and asked + share.gpu > 1 + _ROUNDING:
        free = max(0.0, round(1 - asked, 9))
        possible = dataclasses.replace(share, gpu=min(free, share.gpu_limit) or None)
        return (
            f"{format_fraction(share.gpu)} of GPU {gpu} cannot be guaranteed: "
            f"{format_fraction(asked)} of it are promised to others"
        ), possible
    if share.memory_bytes == 0:
        return None
    promised = beside.memory_bytes + sum(t.promised_bytes(on) for t, on in others)
    free_bytes = budget_bytes(ledger, gpu) - promised
    why = f"it has {format_bytes(budget_bytes(ledger, gpu))} for programs"
    if promised:
        why = f"{format_bytes(promised)} of it are promised to others, or cannot leave"
    for tenant, allocated, stays in ledger.units(gpu):
        if any(mate.number in own for mate in mates(tenant)):
            continue
        beside_it = budget_bytes(ledger, gpu) - promised + stays
        if beside_it - allocated < free_bytes:
            free_bytes = beside_it - allocated
            why = f"tenant {tenant.number} has {format_bytes(allocated)} and needs them"
    if share.memory_bytes <= free_bytes:
        return None
    text = f"{format_bytes(share.memory_bytes)} of GPU {gpu} cannot be kept for one program: {why}"
    return text, dataclasses.replace(share, memory_bytes=max(0, free_bytes))
