"""How the tenants of a class divide the time that the class receives. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from moiety.arbiter.state.tenant import Tenant
from moiety.model.share import Share

LEFT_OVER = 0.02
"""The part for all tenants without a request together, when the whole GPU is promised to others."""


def weights(members: Sequence[Tenant]) -> list[float]:
    """The weight of each tenant: a gang counts as one, divided among its members."""
    counts = Counter(tenant.gang.name for tenant in members if tenant.gang is not None)
    return [1.0 / counts[t.gang.name] if t.gang is not None else 1.0 for t in members]


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
