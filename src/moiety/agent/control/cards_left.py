"""The GPUs on which the limits of a user leave room for a share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from moiety.agent.control.card_loads import CardLoads
from moiety.agent.control.cards import Cards
from moiety.agent.control.limits import LimitEnforcer
from moiety.agent.control.running_workload import RunningWorkload
from moiety.model.cards import CardRequest
from moiety.model.errors import UserLimit
from moiety.model.share import Share


def cards_left(
    limits: LimitEnforcer | None,
    cards: Cards,
    request: CardRequest,
    share: Share,
    uid: int,
    only: Sequence[int] | None,
    loads: CardLoads,
    own: RunningWorkload | None = None,
) -> Sequence[int] | None:
    """Of the GPUs `only`, those on which the limits of a user leave room for a share.

    None stands for all GPUs. `own` is the workload that has this share instead of its own, and
    `loads` what others have. Raises UserLimit if too few are left, and as `Cards.possible`.
    """
    if limits is None:
        return only
    possible, count = cards.possible(request, only)
    found: list[int] = []
    refusal: UserLimit | None = None
    for index in possible:
        capacity = cards.capacity_bytes(index)
        there = cards.share_on([index], request, share)
        limit = there.asked_limit_bytes(capacity)
        there = dataclasses.replace(there, memory_limit_bytes=limit)
        try:
            limits.check(uid, there, own=own, capacity=capacity, on=[loads.of[index]])
        except UserLimit as error:
            refusal = error
        else:
            found.append(index)
    if refusal is not None and len(found) < count:
        raise refusal
    return only if refusal is None else found
