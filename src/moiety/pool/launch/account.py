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


def must_be_startable(uid: int, *, serves_all: bool) -> None:
    """Raise NotAllowed for a user whose programs cannot be started here.

    With `serves_all` these are root, and the server's own user, which could change the server.
    """
    if not serves_all:
        if uid != os.geteuid():
            raise NotAllowed(
                "this pool starts programs of its own user only", "the pool of the machine, as root"
            )
    elif uid in (0, os.geteuid()):
        who = "root" if uid == 0 else "its own account"
        raise NotAllowed(
            f"the pool of this machine starts no programs of {who}",
            "as another user: `runuser -u NAME -- moiety submit ...`",
        )


def account_of(uid: int, *, serves_all: bool) -> Account:
    """The user as the system knows it; raises NotAllowed for one that cannot be had."""
    must_be_startable(uid, serves_all=serves_all)
    if not serves_all and uid != 0:
        return Account(uid, os.getegid(), tuple(os.getgroups()))
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Account(uid, uid, ())
    return Account(uid, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)))
