"""What users may have, as the pool's server asks for it: it plans within these limits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from moiety.agent.control.limits import LimitEnforcer
from moiety.agent.control.rows import UserLimitRow
from moiety.agent.system.users import USERS
from moiety.config.values import Visible


async def limits_of(
    limits: LimitEnforcer | None, uids: Iterable[int], asker: int, visible: Visible
) -> dict[int, UserLimitRow]:
    """By user: what it may have, if the asker may see it; nothing where there are no limits."""
    found: dict[int, UserLimitRow] = {}
    if limits is None:
        return found
    seen = {uid for uid in uids if visible is Visible.ALL or uid == asker}
    await asyncio.gather(*(USERS.found(limits.account_of(uid)) for uid in seen))
    for uid in seen:
        if (row := limits.row_of(uid)) is not None:
            found[uid] = row
    return found


def guarantees_of(limits: LimitEnforcer | None, visible: Visible) -> dict[str, float]:
    """By user, group or namespace: the part of each GPU's time that is guaranteed."""
    return limits.guarantees.names() if limits and visible is not Visible.NOTHING else {}
