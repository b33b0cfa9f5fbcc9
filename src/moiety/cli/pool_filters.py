"""Tells a project or user that has no work from one that is not there."""

from __future__ import annotations

from moiety.model.errors import ProjectUnknown, UserUnknown
from moiety.pool.client import PoolClient
from moiety.pool.model.records import PoolStatus


def must_be_there(pool: PoolClient, project: str = "", user: str = "") -> None:
    """Raise ProjectUnknown or UserUnknown for a name of which a list has nothing."""
    if project:
        known = [each.project.name for each in pool.get("/status", PoolStatus).projects]
        if project not in known:
            raise ProjectUnknown(project, known)
    from moiety.agent.system.users import is_listed  # seldom needed

    if user and not (user.isdecimal() or is_listed(user)):
        raise UserUnknown(user)
