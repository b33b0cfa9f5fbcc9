"""How the tenants of a class divide the time that the class receives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from moiety.arbiter.schedule.owners import path, weights
from moiety.arbiter.state.promise import Guarantees
from moiety.arbiter.state.tenant import Tenant
from moiety.model.share import Share

LEFT_OVER = 0.02
"""The part for all tenants without a request together, when the whole GPU is promised to others."""


def class_parts(
    members: Sequence[Tenant], shares: Sequence[Share], guarantees: Guarantees
) -> list[float]:
    """The part of each tenant of a class with these shares; they sum up to 1.

    Also sets what each is promised.

    What requests leave is divided among the owners of tenants without a request (owners.py). An
    owner's equal part of it is raised to what the owner is guaranteed, at the cost of the others.
    """
    without = [tenant for tenant in members if tenant.share.gpu is None]
    paths = [path(tenant) for tenant in without]
    found = weights(paths)
    for tenant in members:
        tenant.usage.promised = tenant.share.gpu or 0.0
    if guarantees and without:
        asked: dict[str, float] = {}
        for tenant in members:
            asked[tenant.owner] = asked.get(tenant.owner, 0.0) + (tenant.share.gpu or 0.0)
        rest = max(LEFT_OVER, 1.0 - sum(asked.values()))
        owners = list(dict.fromkeys(tenant.owner for tenant in without))
        portions, floors = divide_among_owners(owners, asked, guarantees, rest)
        for i, tenant in enumerate(without):
            own = found[i] * len(owners)  # its part of what its owner gets
            found[i] = own * portions[tenant.owner] / rest
            tenant.usage.promised = own * floors[tenant.owner]
    weight = dict(zip((tenant.number for tenant in without), found, strict=True))
    return parts(shares, [weight.get(t.number, 0.0) for t in members])


def divide_among_owners(
    owners: Sequence[str], asked: Mapping[str, float], guarantees: Guarantees, rest: float
) -> tuple[dict[str, float], dict[str, float]]:
    """How owners divide the part `rest` of a GPU, and how much of it each is guaranteed.

    Each gets an equal part, or what it is guaranteed beyond its `asked` requests if that is more. A
    group as a whole gets what the group is guaranteed at least.
    """
    floors = {o: max(0.0, guarantees.parts.get(o, 0.0) - asked.get(o, 0.0)) for o in owners}
    pots: list[tuple[float, list[str]]] = []
    grouped: set[str] = set()
    for part, members in guarantees.groups.values():
        inside = [owner for owner in owners if owner in members]
        if inside:
            left = part - sum(asked.get(owner, 0.0) for owner in members)
            pots.append((max(sum(floors[owner] for owner in inside), left), inside))
            grouped.update(inside)
    pots += [(floors[owner], [owner]) for owner in owners if owner not in grouped]
    amounts = fill([len(inside) for _, inside in pots], [floor for floor, _ in pots], rest)
    portions: dict[str, float] = {}
    for (floor, inside), amount in zip(pots, amounts, strict=True):
        own = fill([1.0] * len(inside), [floors[owner] for owner in inside], amount)
        portions.update(zip(inside, own, strict=True))
        if floor > sum(floors[owner] for owner in inside):
            promised = fill([1.0] * len(inside), [floors[owner] for owner in inside], floor)
            floors.update(zip(inside, promised, strict=True))
    return portions, floors


def fill(counts: Sequence[float], floors: Sequence[float], whole: float) -> list[float]:
    """Divide `whole` by `counts`, but no part below its floor. Floors shrink if they exceed it.

    Those without a floor have LEFT_OVER of it together at least, so that no part is 0.
    """
    least = sum(floors)
    without = sum(count for count, floor in zip(counts, floors, strict=True) if not floor)
    left_over = LEFT_OVER * whole if without else 0.0
    if least >= whole - left_over:
        return [
            floor / least * (whole - left_over) if floor else count / without * left_over
            for count, floor in zip(counts, floors, strict=True)
        ]
    found = list(floors)
    above, left = set(range(len(floors))), whole
    while True:
        count = sum(counts[i] for i in above)
        below = {i for i in above if floors[i] > left * counts[i] / count}
        if not below:
            break
        above -= below
        left -= sum(floors[i] for i in below)
    for i in above:
        found[i] = left * counts[i] / count
    return found


def parts(shares: Iterable[Share], counts: Sequence[float] = ()) -> list[float]:
    """How a class divides what it receives: requests are floors, limits are caps; sums up to 1.

    Tenants without a request have equal parts of what requests leave, or parts by `counts`. Time
    that a limit denies one tenant is divided among the others in proportion.
    """
    known = list(shares)
    if len(known) == 1:
        return [1.0]
    asked = sum(share.gpu for share in known if share.gpu is not None)
    each = counts or [1.0] * len(known)
    modest = sum(count for share, count in zip(known, each, strict=True) if share.gpu is None)
    rest = max(LEFT_OVER, 1.0 - asked) / modest if modest else 0.0
    weights = [
        rest * count if share.gpu is None else share.gpu
        for share, count in zip(known, each, strict=True)
    ]
    whole = sum(weights)
    found = [weight / whole for weight in weights]
    if all(share.gpu_limit >= 1 for share in known):
        return found
    limits = [share.gpu_limit for share in known]
    full: set[int] = set()
    while over := {i for i, part in enumerate(found) if i not in full and part > limits[i]}:
        full |= over
        free = 1.0 - sum(limits[i] for i in full)
        others = sum(weights[i] for i in range(len(found)) if i not in full)
        for i in range(len(found)):
            found[i] = limits[i] if i in full else weights[i] / others * free
    whole = sum(found)
    return [part / whole for part in found]
