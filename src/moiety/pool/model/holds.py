"""Who keeps waiting work from starting: the reason of held work names them.

What an administrator holds, only an administrator releases, as with Slurm (JobHeldAdmin).
"""

from __future__ import annotations

from typing import Final

BY_ITS_USER: Final = "held by its user"
BY: Final = "held by "


def reason_of(user: str) -> str:
    """The reason of work that this user holds."""
    return f"{BY}{user}"


def other_holder(reason: str, user: str) -> str | None:
    """Who holds a user's work for this reason; None for the user, and for what no one has held."""
    if reason in ("", BY_ITS_USER, reason_of(user)) or not reason.startswith(BY):
        return None
    return reason.removeprefix(BY)
