"""The users of this machine, by number and by name."""

from __future__ import annotations

import functools
import grp
import os
import pwd
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may come; without an entry in the system's tables only a number."""

    uid: int
    name: str
    groups: frozenset[str] = frozenset()


@functools.lru_cache(maxsize=1024)
def user_of(uid: int) -> User:
    """What the system's tables say of a user; what they said before is remembered."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return User(uid, str(uid))
    try:
        gids = os.getgrouplist(entry.pw_name, entry.pw_gid)
    except OSError:
        gids = [entry.pw_gid]
    return User(uid, entry.pw_name, frozenset(map(group_name, gids)))


def name_of(uid: int) -> str:
    """What a user is called."""
    return user_of(uid).name


def group_name(gid: int) -> str:
    """What a group is called, its number if it has no name."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def forget() -> None:
    """Ask the tables again from now on."""
    user_of.cache_clear()
