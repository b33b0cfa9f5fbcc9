"""The account as which the server of a machine's pool runs: one of its own, and never root."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import Final

from moiety.agent.system.users import WAIT_S, beside
from moiety.model.errors import PoolAccountUnusable

SHARED_UIDS: Final = frozenset({65534, 0xFFFFFFFE})
"""Users as which other services run, too."""
SHARED_NAMES: Final = frozenset({"nobody", "nfsnobody"})


@dataclass(frozen=True, slots=True)
class PoolAccount:
    """A user with the groups that the system gives it."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]


def find(name: str) -> PoolAccount:
    """The account of this name or number; raises PoolAccountUnusable.

    A number that no table lists is accepted: a user that nothing else is, such as a dynamic one.
    """
    try:
        entry = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except (KeyError, OverflowError, ValueError):
        if not name.isdecimal() or not 0 < int(name) < 0xFFFFFFFF:
            raise PoolAccountUnusable(
                name,
                "there is no such user",
                f"`useradd --system --no-create-home --shell /usr/sbin/nologin {name}`",
            ) from None
        found = PoolAccount(name, int(name), int(name), ())
    else:
        groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
        found = PoolAccount(entry.pw_name, entry.pw_uid, entry.pw_gid, tuple(groups))
    if found.uid == 0:
        raise PoolAccountUnusable(name, "the server of a pool must not be root", "an own account")
    if found.uid in SHARED_UIDS or found.name in SHARED_NAMES:
        raise PoolAccountUnusable(
            name, "other services run as that user, and could act for the pool", "an own account"
        )
    return found


def uid_of(name: str, wait_s: float = WAIT_S) -> int | None:
    """The number of the account; None if there is none that can be used, or no answer in time."""
    try:
        return beside(lambda: find(name)).result(wait_s).uid
    except (PoolAccountUnusable, TimeoutError):
        return None
