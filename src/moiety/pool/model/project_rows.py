"""Projects as pool.yaml, commands and the API have them."""

from __future__ import annotations

from typing import Final

import msgspec

DEFAULT_PROJECT: Final = "default"
OUTSIDE: Final = "(outside)"
"""The queue of what uses the GPUs without the pool; no project can have this name."""
WEIGHT_MAX: Final = 1e6


class ProjectRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A project, as pool.yaml has it. Quotas and limits are numbers of GPUs."""

    name: str
    parent: str | None = None
    quota: float | None = 0.0
    """What it can have at any time; None: as much as there is."""
    limit: float | None = None
    """The most that it ever has; None: as much as there is."""
    weight: float = 1.0
    priority: int = 0
    windows: list[str] = []
    """Times of a week with another quota, such as `mon-fri 20:00-08:00=12`, in local time."""
    users: list[str] = []
    """Who may submit: users, and groups as `@name`; empty: every user."""
    viewers: list[str] = []
    """Who sees names, commands and reasons of its work; users and groups."""
    admins: list[str] = []
    """Who may cancel, hold and prefer its work, and that of projects below it."""


class Projects(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of pool.yaml."""

    projects: list[ProjectRow]


class ProjectsDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What an `apply` would change."""

    changes: list[str]
    """One line for each value that would be different."""
    above: list[str]
    """One line for each project that would have more than it may, as things are now."""


class ProjectUse(msgspec.Struct, frozen=True, kw_only=True):
    """A project with what it has now."""

    project: ProjectRow
    running: int
    waiting: int
    gpu_milli: int
