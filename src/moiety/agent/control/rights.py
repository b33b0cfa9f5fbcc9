"""What users may do: administrators anything, others with their own programs."""

from __future__ import annotations

import os

from moiety.agent.system import processes
from moiety.agent.system.users import name_of
from moiety.model.errors import NotAllowed


def is_admin(peer: processes.Peer) -> bool:
    """Tell whether a user may do anything here: root, and the user whose agent it is."""
    return processes.may_use(peer, os.getuid())


def must_be_admin(peer: processes.Peer, what: str) -> None:
    """Raise NotAllowed unless a user is an administrator; `what` is what only they may do."""
    if not is_admin(peer):
        who = "root" if os.getuid() == 0 else f"root and {name_of(os.getuid())}"
        raise NotAllowed(f"only {who} may {what}")


def only_own(peer: processes.Peer) -> int | None:
    """Return the user whose programs alone are meant; None: the programs of all users."""
    return None if is_admin(peer) else peer.uid
