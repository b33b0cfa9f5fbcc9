"""One connection to the API: the user at its other end, and what it may take of the server."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from moiety.agent.core.rate_limits import UserQuota
from moiety.agent.system import processes
from moiety.agent.system.subordinate_users import unchanged
from moiety.model.errors import TooMany
from moiety.pool.api.administrators import OWN, Administrators
from moiety.pool.api.answers import refusal

HEAD_MAX: Final = 64 << 10
"""Bytes of a request beside its body; the last ones may come in one piece that is larger."""
QUEUED_MAX: Final = 16
"""Requests that may wait on a connection for the answer to the one before them."""
DESCRIPTORS: Final = 1 << 14
"""A machine's pool wants that many: connections may have half of them."""


def raise_descriptor_limit() -> None:
    """Raise the limit of open files, as far as it can be: all users of a machine connect."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def quota_of(account_of: Callable[[int], int] = unchanged) -> UserQuota:
    """How many connections there may be: half of what can be open; one user has half of that.

    `account_of` is as in UserQuota.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if soft == resource.RLIM_INFINITY else min(DESCRIPTORS, soft)
    return UserQuota(most // 4, most // 2, "connections to the pool", account_of)


class PeerProtocol(HttpToolsProtocol):
    """Uvicorn's protocol; the client's address is the user and the process of the peer.

    A connection beyond the quota is answered with a refusal and closed. So is one with too many
    requests at once, or whose request has too much beside its body.
    """

    quota: UserQuota | None = None
    """Of the server; None: there may be any number."""
    admins: Administrators = OWN
    _uid: int | None = None
    """Who it counts for in the quota."""
    _has_gone_on = False
    """Whether what came last had the begin, a part of the body or the end of a request."""
    _beside = 0
    """Bytes since it went on."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask the kernel once for each connection."""
        super().connection_made(transport)
        sock: socket.socket = transport.get_extra_info("socket")
        peer = processes.peer_of(sock)
        self.client = (str(peer.uid), peer.pid)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )
        if self.quota is None:
            return
        if no := self.quota.refuse(peer.uid, is_admin=self.admins.has(peer.uid)):
            self._turn_away(no)
            return
        self.quota.take(peer.uid)
        self._uid = peer.uid

    def _turn_away(self, why: str) -> None:
        found = refusal(TooMany(why), 503)
        head = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
        lines = b"".join(b"%s: %s\r\n" % each for each in found.raw_headers)
        self.transport.write(head + lines + b"\r\n" + bytes(found.body))
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the user have another one."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        if self.quota is not None and self._uid is not None:
            self.quota.give(self._uid)
            self._uid = None

    def data_received(self, data: bytes) -> None:
        """Read on, as long as a request does not keep too much."""
        self._has_gone_on = False
        super().data_received(data)
        self._beside = 0 if self._has_gone_on else self._beside + len(data)
        if self._beside > HEAD_MAX and not self.transport.is_closing():
            self.send_400_response("The request has more than 64 KiB beside its body.")

    def on_message_begin(self) -> None:
        """Count anew."""
        self._has_gone_on = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin with the request; raises ValueError, which ends the connection."""
        if len(self.pipeline) >= QUEUED_MAX:
            raise ValueError("too many requests wait")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count anew."""
        self._has_gone_on = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Count anew."""
        self._has_gone_on = True
        super().on_message_complete()


def protocol_of(quota: UserQuota, admins: Administrators) -> type[PeerProtocol]:
    """The protocol of one server."""
    return type("PeerProtocol", (PeerProtocol,), {"quota": quota, "admins": admins})
