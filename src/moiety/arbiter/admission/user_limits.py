"""What one user may have of each GPU, all programs of that user together.

To change a limit: its setting is in `UserLimits` of src/moiety/config/table.py, its rule here.
A limit of memory is an amount or a part of the GPU (`AllocationLimit`): `_limit_on` makes bytes of
it, `parse_memory_limit` of model/units.py reads it. agent/control/limits.py carries the rules here
(`UserLimitsSet`). `refuse` answers what a share may ask for, when a program starts; memory.py asks
`refuse_user_bytes` for each allocation, credit.py `user_room_bytes` before it gives credit on a
GPU. A rule is kept with the place where it stands, so that a refusal can name it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from moiety.arbiter.ledger import Ledger
from moiety.arbiter.state.tenant import Tenant
from moiety.model.format import format_bytes, format_duration, format_fraction
from moiety.model.share import Mode, Priority, Share
from moiety.model.units import AllocationLimit

T = TypeVar("T")
Refusal = tuple[str, str]
"""A sentence, and the place of the rule."""
_ROUNDING: Final = 1e-9
_LEAST: Final = 0.001
"""The smallest part of a GPU for each program when a user's limit is divided among its programs."""


@dataclass(frozen=True, slots=True)
class Rule(Generic[T]):
    """One rule: `where` is FILE:LINE and whose it is."""

    value: T
    where: str


@dataclass(frozen=True, slots=True)
class Entitlement:
    """The rules for one user; None: this is not limited."""

    user: str
    gpu: Rule[float] | None = None
    """Part of the GPU's time that all programs of this user may take together."""
    memory: Rule[AllocationLimit] | None = None
    """What they may allocate together on one GPU; of an amount and a part the larger."""
    priority: Rule[Priority] | None = None
    """The highest."""
    latency: Rule[bool] | None = None
    """Whether one may be of the latency class."""
    workloads: Rule[int] | None = None
    """How many may run or wait at one time."""
    quantum_s: Rule[float] | None = None
    """The longest turns that one may ask for; 0: as the agent makes them."""
    gpus: Rule[tuple[int, ...]] | None = None
    """Indices of the only GPUs that they may be on."""


FIELDS: Final = tuple(f.name for f in dataclasses.fields(Entitlement) if f.name != "user")
Rules = Mapping[str, Rule[Any]]
"""By field of Entitlement."""


def entitle(user: str, own: Rules, groups: Iterable[Rules], defaults: Rules) -> Entitlement:
    """The rules for a user: its own, else the most generous of its groups', else the defaults."""
    rules: dict[str, Rule[Any]] = {}
    of_groups = list(groups)
    for field in FIELDS:
        shared = [group[field] for group in of_groups if field in group]
        if field in own:
            rules[field] = own[field]
        elif shared and field == "gpus":  # a member of two groups may use the GPUs of both
            together = sorted({gpu for rule in shared for gpu in rule.value})
            rules[field] = Rule(tuple(together), shared[0].where)
        elif shared and field == "memory":
            rules[field] = _most_generous(shared)
        elif shared:
            rules[field] = max(shared, key=lambda rule: rule.value)
        elif field in defaults:
            rules[field] = defaults[field]
    return Entitlement(user, **rules)


def _most_generous(shared: Sequence[Rule[AllocationLimit]]) -> Rule[AllocationLimit]:
    """The largest amount and the largest part: which is more depends on the GPU."""
    sizes = [rule for rule in shared if rule.value.size_bytes is not None]
    parts = [rule for rule in shared if rule.value.part is not None]
    size = max(sizes, key=lambda rule: rule.value.size_bytes or 0, default=None)
    part = max(parts, key=lambda rule: rule.value.part or 0.0, default=None)
    if size is None or part is None:
        return size or part or shared[0]
    both = AllocationLimit(size.value.size_bytes, part.value.part)
    return Rule(both, f"{size.where}, {part.where}")


def most_bytes(limit: AllocationLimit, capacity: int) -> int | None:
    """What a user may allocate on a GPU that shares out `capacity` bytes.

    None: that is not known, because the capacity is 0, for unknown.
    """
    if limit.part is None:
        return limit.size_bytes
    return max(limit.size_bytes or 0, int(limit.part * capacity)) if capacity else None


def refuse(
    may: Entitlement,
    share: Share,
    others: Sequence[Share],
    capacity: int = 0,
    number: int | None = None,
) -> Refusal | None:
    """Why a user may not have `share` on a GPU beside `others` of its own there; None: it may.

    `capacity` is what the GPU shares out; 0: unknown, so that parts of it bound nothing. `number`
    is how many programs the user has on all GPUs; None: these others alone.
    """
    user = may.user
    has = len(others) if number is None else number
    if may.workloads and has >= may.workloads.value:
        most = may.workloads.value
        programs = (
            "no programs" if most == 0 else "one program" if most == 1 else f"{most} programs"
        )
        return f"{user} may have {programs} at one time", may.workloads.where
    if may.priority and share.priority > may.priority.value:
        return (
            f"{user} may have priority {may.priority.value} at most, not {share.priority}",
            may.priority.where,
        )
    if may.latency and share.latency and not may.latency.value:
        return f"{user} may have no program of the latency class", may.latency.where
    if may.quantum_s and (share.quantum_s or 0.0) > may.quantum_s.value:
        most_s, asked_s = may.quantum_s.value, share.quantum_s or 0.0
        turns = f"turns of {format_duration(most_s)} at most" if most_s else "no turns of its own"
        return f"{user} may ask for {turns}, not {format_duration(asked_s)}", may.quantum_s.where
    if may.gpu and share.gpu is not None:
        taken = sum(other.gpu or 0.0 for other in others)
        if taken + share.gpu > may.gpu.value + _ROUNDING:
            beside = f"; {format_fraction(taken)} of it are guaranteed already" if taken else ""
            return (
                f"{format_fraction(share.gpu)} of a GPU cannot be guaranteed to {user}: {user} may "
                f"have {format_fraction(may.gpu.value)} in all{beside}",
                may.gpu.where,
            )
    most_memory = most_bytes(may.memory.value, capacity) if may.memory else None
    if may.memory and most_memory is not None:
        return _refuse_memory(may.user, may.memory, most_memory, share, others)
    return None


def _refuse_memory(
    user: str, rule: Rule[AllocationLimit], most: int, share: Share, others: Sequence[Share]
) -> Refusal | None:
    limit = share.memory_limit_bytes
    if limit is not None and limit > most:
        return (
            f"a memory limit of {format_bytes(limit)} is more than {user} may have, "
            f"{format_bytes(most)}",
            rule.where,
        )
    kept = sum(other.memory_bytes for other in others)
    if kept + share.memory_bytes > most:
        return (
            f"{format_bytes(share.memory_bytes)} cannot be kept for {user}: {user} may have "
            f"{format_bytes(most)} in all; {format_bytes(kept)} are kept already",
            rule.where,
        )
    return None


def user_room_bytes(ledger: Ledger, tenant: Tenant, gpu: int) -> int | None:
    """What the user of a tenant may still allocate on a GPU, in bytes; None: there is no limit.

    It is negative where the limit became smaller than what is allocated.
    """
    found = _limit_on(ledger, tenant.uid, gpu)
    if found is None:
        return None
    return found[0] - sum(on.allocated_bytes for t, on in ledger.on(gpu) if t.uid == tenant.uid)


def _limit_on(ledger: Ledger, uid: int, gpu: int) -> tuple[int, str] | None:
    """The limit of a user on a GPU, with the rule in words; None: there is none."""
    found = [ledger.user_limits[uid]] if uid in ledger.user_limits else []
    if uid in ledger.user_parts:
        part, rule = ledger.user_parts[uid]
        found.append((int(part * ledger.specs[gpu].capacity_bytes), rule))
    return max(found, default=None)


def refuse_user_bytes(ledger: Ledger, tenant: Tenant, gpu: int, wanted: int) -> str | None:
    """Why the limit of its user forbids a tenant `wanted` more bytes; None: it does not."""
    room = user_room_bytes(ledger, tenant, gpu)
    if room is None or wanted <= room:
        return None
    most, rule = _limit_on(ledger, tenant.uid, gpu) or (wanted, "")
    used = format_bytes(most - room)
    return f"{format_bytes(wanted)} more on GPU {gpu} would exceed what {rule} ({used} in use)"


def within(may: Entitlement, share: Share, gpu_limit: float = 1.0, capacity: int = 0) -> Share:
    """A share with nothing in it that its user may not have; `gpu_limit` is from `divide`.

    `capacity` is what the largest GPU shares out; 0: unknown.
    """
    limit, part, kept = share.memory_limit_bytes, share.memory_limit_part, share.memory_bytes
    if may.memory:
        allowed = may.memory.value
        most = most_bytes(allowed, capacity)
        kept = kept if most is None else min(kept, most)
        if allowed.part is not None and not allowed.size_bytes:  # less on a smaller GPU
            highest = allowed.part if share.mode is Mode.MANAGED else min(1.0, allowed.part)
            part = highest if part is None else min(part, highest)
        elif most is not None:
            limit = most if limit is None else min(limit, most)
    cap = min(share.gpu_limit, gpu_limit)
    quantum_s = share.quantum_s
    if quantum_s is not None and may.quantum_s:
        quantum_s = min(quantum_s, may.quantum_s.value) or None
    return dataclasses.replace(
        share,
        gpu=None if share.gpu is None else min(share.gpu, cap),
        gpu_limit=cap,
        memory_limit_bytes=limit,
        memory_limit_part=part,
        memory_bytes=kept,
        priority=min(share.priority, may.priority.value) if may.priority else share.priority,
        latency=share.latency and (may.latency is None or may.latency.value),
        quantum_s=quantum_s,
    )


def divide(most: float, shares: Sequence[Share]) -> list[float]:
    """The largest part that each program of one user may take, so that all together take `most`.

    Guaranteed parts come first. The rest is divided equally among the programs that may have more.
    """
    floors = [share.gpu or 0.0 for share in shares]
    asked = sum(floors)
    if asked > most:  # the rule was made stricter while they ran
        return [max(_LEAST, floor * most / asked) for floor in floors]
    caps = list(floors)
    open_ = [i for i, share in enumerate(shares) if share.gpu_limit > floors[i] + _ROUNDING]
    rest = most - asked
    while open_ and rest > _ROUNDING:
        each = rest / len(open_)
        rest = 0.0
        for i in list(open_):
            room = shares[i].gpu_limit - caps[i]
            if room <= each:
                open_.remove(i)
                rest += each - room
            caps[i] += min(room, each)
    return [min(1.0, max(_LEAST, cap)) for cap in caps]
