"""Who asks: the kernel says which user is at the other end of a Unix socket."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from moiety.agent.system import processes
from moiety.agent.system.users import name_of
from moiety.model.errors import NotAllowed
from moiety.pool.model.records import ProjectRow, WorkRow


class PeerProtocol(HttpToolsProtocol):
    """Uvicorn's protocol; the client's address is the user and the process of the peer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask the kernel once for each connection."""
        super().connection_made(transport)
        sock: socket.socket = transport.get_extra_info("socket")
        peer = processes.peer_of(sock)
        self.client = (str(peer.uid), peer.pid)


@dataclass(frozen=True, slots=True)
class Caller:
    """The user who asks, and what that user may do."""

    uid: int

    @property
    def user(self) -> str:
        """The user's name."""
        return name_of(self.uid)

    @property
    def is_admin(self) -> bool:
        """Whether this is root, or the user whose pool it is."""
        return self.uid in (0, os.getuid())

    def must_own(self, row: WorkRow, what: str) -> None:
        """Raise NotAllowed unless the workload is the caller's own."""
        if not self.is_admin and row.uid != self.uid:
            raise NotAllowed(f"workload {row.id} is of {row.user}: you may not {what} it")

    def must_be_admin(self, what: str) -> None:
        """Raise NotAllowed unless the caller is an administrator of the pool."""
        if not self.is_admin:
            who = "root" if os.getuid() == 0 else f"root and {name_of(os.getuid())}"
            raise NotAllowed(f"only {who} may {what}")

    def must_be_of(self, project: ProjectRow) -> None:
        """Raise NotAllowed unless the caller may submit to a project."""
        if project.users and not self.is_admin and self.user not in project.users:
            known = ", ".join(project.users)
            raise NotAllowed(f"project {project.name} is for {known}", "another --project")

    def shown(self, row: WorkRow) -> WorkRow:
        """A row as this user may see it: commands and paths of others are theirs.

        So are reasons that were written down: that of a start that failed names a path.
        """
        if self.is_admin or row.uid == self.uid:
            return row
        return msgspec.structs.replace(
            row, command="", stdout="", stderr="", name="", reason="", labels={}
        )


def caller_of(request: Request) -> Caller:
    """Who asks."""
    assert request.client is not None, "every connection has a peer"
    return Caller(int(request.client.host))
