"""What users may do: administrators anything, others with their own programs."""

from __future__ import annotations

import os

from moiety.agent.control.protocol import CreateWorkload
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


def is_pool(peer: processes.Peer, pool_uid: int | None) -> bool:
    """Tell whether this is the account of the machine's pool, which root's settings name."""
    return pool_uid is not None and peer.uid == pool_uid


def program_of(
    asked: CreateWorkload, peer: processes.Peer, pool_uid: int | None = None
) -> processes.Peer:
    """Return the process that becomes the program, and its user; raises NotAllowed.

    A user names processes of the user's own. An administrator also names another user. The account
    of the pool names any user but root, and a process of root, which will be that user's.
    """
    if not asked.pid and asked.uid < 0:
        return peer
    pid = asked.pid or peer.pid
    acts_for_users = is_pool(peer, pool_uid) and asked.uid > 0
    owners = (peer.uid, 0) if acts_for_users else (peer.uid,)
    if not is_admin(peer) and processes.owner_of(pid) not in owners:
        raise NotAllowed(f"process {pid} is not a process of yours", "the id of one of your own")
    if asked.uid not in (-1, peer.uid) and not acts_for_users:
        must_be_admin(peer, "start programs for other users")
    return processes.Peer(pid, peer.uid if asked.uid < 0 else asked.uid, peer.gid)
