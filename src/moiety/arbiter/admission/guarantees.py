"""What may be promised: guaranteed parts of a GPU's time, and memory that stays on it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from moiety.arbiter.admission.memory import budget_bytes, promised_bytes
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.state.gang import mates
from moiety.arbiter.state.tenant import Tenant
from moiety.model.format import format_bytes, format_fraction
from moiety.model.share import Share

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Promised:
    """What was promised to workloads whose processes have not come to the GPU yet."""

    by_owner: Mapping[str, float] = field(default_factory=dict)
    """By owner of time: the parts of a GPU's time that its workloads request together."""
    memory_bytes: int = 0

    @property
    def gpu(self) -> float:
        """The part of the GPU's time for all owners together."""
        return sum(self.by_owner.values())


NOTHING = Promised()


def refuse_share(
    ledger: Ledger,
    gpu: int,
    share: Share,
    beside: Promised = NOTHING,
    own: frozenset[int] = frozenset(),
    owner: str = "",
) -> tuple[str, Share] | None:
    """Why an owner cannot be promised `share` on `gpu`, with the largest that could be.

    None if it can.
    """
    others = [(t, on) for t, on in ledger.on(gpu) if t.number not in own]
    free = _free(ledger, beside, [t for t, _ in others], owner)
    asked = round(1 - free, 9)
    if share.gpu is not None and share.gpu > free + _ROUNDING:
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
        if any(mate.number in own or mate.suspension for mate in mates(tenant)):
            continue  # whether a suspended one can come back is asked when it is resumed
        beside_it = budget_bytes(ledger, gpu) - promised + stays
        if beside_it - allocated < free_bytes:
            free_bytes = beside_it - allocated
            why = f"tenant {tenant.number} has {format_bytes(allocated)} and needs them"
    if share.memory_bytes <= free_bytes:
        return None
    text = f"{format_bytes(share.memory_bytes)} of GPU {gpu} cannot be kept for one program: {why}"
    return text, dataclasses.replace(share, memory_bytes=max(0, free_bytes))


def refuse_resume(ledger: Ledger, tenant: Tenant) -> str:
    """Why a suspended tenant has no room any more for what it has, in words; empty: it has."""
    for gpu, on in tenant.gpus.items():
        others = promised_bytes(ledger, gpu) - tenant.promised_bytes(on)
        if on.required_bytes > budget_bytes(ledger, gpu) - others:
            return (
                f"its {format_bytes(on.required_bytes)} do not fit into the "
                f"{format_bytes(budget_bytes(ledger, gpu))} of GPU {gpu} beside "
                f"{format_bytes(others)} that are promised to others, or cannot leave"
            )
    return ""


def largest_part(ledger: Ledger, owner: str) -> float:
    """The part of a GPU that an owner's program could request if no other program were there."""
    return _free(ledger, NOTHING, [], owner)


def _free(ledger: Ledger, beside: Promised, others: list[Tenant], owner: str) -> float:
    """The part of a GPU that an owner's program may still request.

    What others are guaranteed is kept for them. What the owner or its group is guaranteed is there
    for its own requests: no program is refused for the sake of its own owner's guarantee.
    """
    asked = Counter(beside.by_owner)
    for tenant in others:
        asked[tenant.owner] += tenant.share.gpu or 0.0  # type: ignore[assignment]
    guarantees = ledger.guarantees
    whole = guarantees.reserved(asked)
    kept = max(0.0, guarantees.parts.get(owner, 0.0) - asked[owner])
    if name := guarantees.group_of(owner):
        part, owners = guarantees.groups[name]
        used = sum(max(guarantees.parts.get(o, 0.0), asked[o]) for o in owners)
        kept += max(0.0, part - used)
    return max(0.0, round(1 - whole, 9)) + kept
