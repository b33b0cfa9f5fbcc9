"""The user and the groups of a workload."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

from moiety.model.errors import NotAllowed


@dataclass(frozen=True, slots=True)
class Account:
    """A user with the groups that the system gives it."""

    uid: int
    gid: int
    groups: tuple[int, ...]


def account_of(uid: int) -> Account:
    """The user as the system knows it; raises NotAllowed for one that this process cannot be."""
    if uid == os.geteuid() and uid != 0:
        return Account(uid, os.getegid(), tuple(os.getgroups()))
    if os.geteuid() != 0:
        raise NotAllowed(
            "this pool starts programs of its own user only", "the pool of the machine, as root"
        )
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Account(uid, uid, ())
    return Account(uid, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)))
