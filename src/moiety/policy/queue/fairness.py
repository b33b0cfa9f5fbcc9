"""How much of a resource each of several queues should have: quota, then surplus.

Amounts are whole numbers (thousandths of GPUs, of CPUs, MiB). First each queue gets what it wants
of its quota. The surplus goes to the queues of the highest priority by weight, as far as they want
more, then to the next priority.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

USAGE_STRENGTH: Final = 1.0
"""How much a queue's weight changes if it used more or less than its part; 0: not at all."""


class Claim(NamedTuple):
    """What one of several queues may have of one resource."""

    wanted: int
    """What it has and what it waits for, but not more than its limit."""
    quota: int | None
    """None: without bound"""
    weight: float = 1.0
    priority: int = 0
    standing: tuple[float, str] = (0.0, "")
    """Age and name, which decide between equals."""


def divide(total: int, claims: Sequence[Claim], unit: int = 1) -> list[int]:
    """What each should have of `total`, in the order of the claims.

    Quotas are kept even if they add up to more than there is: then the order in which queues are
    served decides. Surplus goes out in multiples of `unit`, by the method of the largest remainder;
    a claim that wants less than a unit more gets that.
    """
    given = [_guaranteed(claim) for claim in claims]
    left = total - sum(given)
    ranked = sorted(range(len(claims)), key=lambda at: -claims[at].priority)
    for _, group in groupby(ranked, key=lambda at: claims[at].priority):
        asking = [at for at in group if claims[at].weight > 0]
        while left > 0:
            asking = [at for at in asking if given[at] < claims[at].wanted]
            if not asking:
                break
            left -= _round(left, asking, claims, given, unit)
    return given


def _guaranteed(claim: Claim) -> int:
    return claim.wanted if claim.quota is None else min(claim.wanted, claim.quota)


def _round(
    left: int, asking: Sequence[int], claims: Sequence[Claim], given: list[int], unit: int
) -> int:
    """Hand out once; returns how much. Claims that are content with their part come first."""
    weight = sum(claims[at].weight for at in asking)
    parts = {at: left * claims[at].weight / weight for at in asking}
    content = [at for at in asking if parts[at] >= claims[at].wanted - given[at]]
    if content:
        handed = sum(claims[at].wanted - given[at] for at in content)
        for at in content:
            given[at] = claims[at].wanted
        return handed
    handed = 0
    for at in asking:
        whole = int(parts[at] // unit) * unit
        given[at] += whole
        handed += whole
    by_remainder = sorted(asking, key=lambda at: (-(parts[at] % unit), claims[at].standing))
    for at in by_remainder:
        more = min(unit, left - handed, claims[at].wanted - given[at])
        if more > 0:
            given[at] += more
            handed += more
    return handed


def weights_by_use(
    weights: Mapping[str, float],
    used: Mapping[str, float],
    strength: float = USAGE_STRENGTH,
    whole: float = 0.0,
) -> dict[str, float]:
    """Weights of siblings: more for a queue that used less than its part of late, and vice versa.

    `used` is what each had in the mean, older use counting less (`decayed`). A queue's part p of
    all weights becomes p + strength * (p - u), where u is its part of all use, and never less than
    nothing. Use that adds up to less than a tenth of the `whole` that is divided counts as a part
    of that tenth: so it fades when little is used for a while. Without any use, weights stay what
    they are.
    """
    weight = sum(weights.values())
    total = sum(used.get(name, 0.0) for name in weights)
    if weight <= 0 or total <= 0:
        return dict(weights)
    total = max(total, whole / 10)
    changed = {}
    for name, own in weights.items():
        part = own / weight
        changed[name] = max(0.0, part + strength * (part - used.get(name, 0.0) / total))
        if own <= 0:
            changed[name] = 0.0
    return changed if any(changed.values()) else dict(weights)


def decayed(used: float, amount: float, elapsed_s: float, half_life_s: float) -> float:
    """The mean use after `elapsed_s` more in which a queue had `amount`.

    What was before counts half as much after each half-life. Units are those of the amounts.
    """
    kept = fading(elapsed_s, half_life_s)
    return used * kept + amount * (1.0 - kept)


def fading(elapsed_s: float, half_life_s: float) -> float:
    """The part of what was that still counts after `elapsed_s`."""
    kept: float = 0.5 ** (elapsed_s / half_life_s)
    return kept
