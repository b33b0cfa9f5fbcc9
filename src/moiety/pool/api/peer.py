"""Who asks: the kernel says which user is at the other end of a Unix socket."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from starlette.requests import Request

from moiety.agent.system.users import name_of
from moiety.model.errors import NotAllowed
from moiety.pool.api.administrators import OWN, Administrators
from moiety.pool.api.roles import NO_ROLES, ProjectRoles, are_named
from moiety.pool.model import holds
from moiety.pool.model.project_rows import ProjectRow
from moiety.pool.model.records import WorkRow


@dataclass(frozen=True, slots=True)
class Caller:
    """The user who asks, and what that user may do."""

    uid: int
    admins: Administrators = OWN
    roles: ProjectRoles = NO_ROLES
    """What projects let their users do."""

    @property
    def user(self) -> str:
        """The user's name."""
        return name_of(self.uid)

    @property
    def is_admin(self) -> bool:
        """Whether this user may do everything."""
        return self.admins.has(self.uid)

    def must_own(self, row: WorkRow, what: str) -> None:
        """Raise NotAllowed unless the caller may change a workload.

        Its user may, and the administrators of its project and of the pool.
        """
        if not self._controls(row):
            raise NotAllowed(f"workload {row.id} is of {row.user}: you may not {what} it")

    def must_release(self, row: WorkRow, reason: str) -> None:
        """Raise NotAllowed for what another holds for this reason, if no administrator asks."""
        holder = holds.other_holder(reason, row.user)
        if holder is not None:
            what = f"release workload {row.shown_id}, which {holder} holds"
            self.must_be_admin_in(row.project, what)

    def must_be_its_user(self, row: WorkRow, what: str) -> None:
        """Raise NotAllowed unless the caller submitted a workload: to control it is not enough."""
        if row.uid != self.uid:
            raise NotAllowed(f"workload {row.id} is of {row.user}: only {row.user} may {what} it")

    def must_be_admin(self, what: str) -> None:
        """Raise NotAllowed unless the caller is an administrator of the pool."""
        if not self.is_admin:
            raise NotAllowed(f"only {self.admins.described()} may {what}")

    def must_be_of(self, project: ProjectRow) -> None:
        """Raise NotAllowed unless the caller may submit to a project."""
        if self.is_admin or not project.users or are_named(self.uid, project.users):
            return
        if not self.roles.is_admin(self.uid, project.name):
            known = ", ".join(project.users)
            raise NotAllowed(f"project {project.name} is for {known}", "another --project")

    def must_be_admin_in(self, project: str, what: str) -> None:
        """Raise NotAllowed unless the caller is an administrator of a project, or of the pool."""
        if not self.roles.is_admin(self.uid, project):
            self.must_be_admin(what)

    def _controls(self, row: WorkRow) -> bool:
        is_own = self.is_admin or row.uid == self.uid
        return is_own or self.roles.is_admin(self.uid, row.project)

    def shown(self, row: WorkRow) -> WorkRow:
        """A row as this user may see it: commands and paths of others are for those who may view.

        So are reasons that were written down: that of a start that failed names a path.
        """
        if self._controls(row) or self.roles.is_viewer(self.uid, row.project):
            return row
        return msgspec.structs.replace(
            row, command="", stdout="", stderr="", name="", reason="", labels={}
        )


def caller_of(request: Request, admins: Administrators = OWN) -> Caller:
    """Who asks."""
    assert request.client is not None, "every connection has a peer"
    return Caller(int(request.client.host), admins)
