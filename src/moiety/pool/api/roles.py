"""Who may do what in which project: its viewers and administrators, by user and group."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import msgspec

from moiety.agent.system.users import USERS
from moiety.pool.model.project_rows import ProjectRow


@dataclass(frozen=True, slots=True)
class ProjectRoles:
    """The roles that all projects give."""

    projects: Mapping[str, ProjectRow] = field(default_factory=dict)

    def is_admin(self, uid: int, project: str) -> bool:
        """Whether a user is an administrator of a project, or of one above it."""
        seen: set[str] = set()
        name: str | None = project
        while name is not None and name not in seen and (row := self.projects.get(name)):
            if are_named(uid, row.admins):
                return True
            seen.add(name)
            name = row.parent
        return False

    def is_viewer(self, uid: int, project: str) -> bool:
        """Whether a user sees all of the work of a project."""
        row = self.projects.get(project)
        return row is not None and (are_named(uid, row.viewers) or self.is_admin(uid, project))


NO_ROLES: Final = ProjectRoles()


def are_named(uid: int, names: list[str]) -> bool:
    """Whether a user is one of these: names of users, `@` and names of groups."""
    if not names:
        return False
    user = USERS.of(uid)
    return user.name in names or any(f"@{group}" in names for group in user.groups)


def roles_of(connection: sqlite3.Connection) -> ProjectRoles:
    """The roles that the projects in the store give now."""
    found = connection.execute("SELECT name, row FROM project").fetchall()
    return _parsed(tuple((name, row) for name, row in found))


@lru_cache(2)
def _parsed(found: tuple[tuple[str, bytes], ...]) -> ProjectRoles:
    return ProjectRoles({name: msgspec.json.decode(row, type=ProjectRow) for name, row in found})
