"""The administrators of a pool: root, the owner of an own pool, and users of the settings."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from moiety.agent.system.users import USERS, name_of
from moiety.config.table import PoolSettings


@dataclass(frozen=True, slots=True)
class Administrators:
    """Who may do everything in one pool."""

    owner: int | None = None
    """The user whose own pool it is; None: it is the machine's."""
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def has(self, uid: int) -> bool:
        """Whether a user is one of them; groups count once the system's tables have answered."""
        if uid == 0 or uid == self.owner:
            return True
        if not self.users and not self.groups:
            return False
        user = USERS.of(uid)
        return user.name in self.users or bool(user.groups & self.groups)

    def described(self) -> str:
        """Who they are, in words."""
        owner = [] if self.owner in (None, 0) else [name_of(self.owner or 0)]
        groups = [f"group {name}" for name in sorted(self.groups)]
        *first, last = ["root", *owner, *sorted(self.users), *groups]
        return f"{', '.join(first)} and {last}" if first else last


OWN: Final = Administrators(owner=os.getuid())
"""Those of a pool of one's own."""


def of_settings(settings: PoolSettings) -> Administrators:
    """Those of a machine's pool."""
    names = settings.admins or ()
    return Administrators(
        None,
        frozenset(name for name in names if not name.startswith("@")),
        frozenset(name[1:] for name in names if name.startswith("@")),
    )
