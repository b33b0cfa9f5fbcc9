"""Serves `/metrics` to Prometheus: on a port of this machine alone, or on a socket."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any, Final

from moiety.agent.core.rate_limits import TokenRate
from moiety.agent.system.peer_socket import PeerSocket
from moiety.config.values import Address
from moiety.model.errors import MetricsRefused

HEAD_MAX: Final = 8192
TIMEOUT_S: Final = 5.0
CONNECTIONS_MAX: Final = 8
"""How many are open at one time; one more ends the oldest."""
CONNECTIONS_PER_S: Final = 100.0
BACKLOG: Final = 128
AGAIN_S: Final = 0.1
FRESH_S: Final = 0.25
"""How long one text answers all requests to a port."""
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The version that every reader knows; moiety's names need no newer one."""


class MetricsServer:
    """One listener; `answer` gives the text for `/metrics`.

    Every user can connect to a port. So connections are taken one by one, at a rate that costs the
    agent little, and one that says nothing makes no other wait.
    """

    def __init__(
        self,
        address: Address,
        answer: Callable[[], Awaitable[bytes]],
        log: Any,
        hosts: Collection[str] = (),
    ) -> None:
        """`hosts`: names in small letters that this machine also has, for requests to a port."""
        self._hosts = hosts
        self._answer = answer
        self._log = log
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._open: dict[asyncio.Task[None], None] = {}
        """The connections that are served, oldest first."""
        self._rate = TokenRate(CONNECTIONS_PER_S, burst_s=0.2)
        self._last = b""
        self._last_s = -FRESH_S
        self.address = address

    async def open(self) -> None:
        """Listen; raises MetricsRefused."""
        at = self.address
        try:
            if at.path:
                self._listener = bound(at.path)
                self._listener.listen(BACKLOG)
            else:
                family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
                self._listener = socket.create_server(
                    (at.host, at.port), family=family, backlog=BACKLOG
                )
                self._listener.setblocking(False)
                self.address = Address(at.host, self._listener.getsockname()[1])
        except OSError as error:
            raise MetricsRefused(str(at), error.strerror or str(error)) from None
        self._accepting = asyncio.create_task(self._accept(self._listener))

    def close(self) -> None:
        """Listen no more."""
        if self._accepting is None or self._listener is None:
            return  # it never listened: a socket at its path belongs to another process
        self._accepting.cancel()
        self._listener.close()
        if self.address.path:
            self.address.path.unlink(missing_ok=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError:  # it has hung up, or there are no descriptors left
                await asyncio.sleep(AGAIN_S)
                continue
            task = asyncio.create_task(self._serve(sock))
            self._open[task] = None
            task.add_done_callback(self._open.pop)
            if len(self._open) > CONNECTIONS_MAX:
                next(iter(self._open)).cancel()
            await asyncio.sleep(self._rate.spend(0, loop.time()))

    async def _serve(self, sock: socket.socket) -> None:
        try:
            reader, writer = await asyncio.open_connection(sock=sock, limit=HEAD_MAX)
        except OSError:
            sock.close()
            return
        try:
            async with asyncio.timeout(TIMEOUT_S):
                writer.write(await self._respond(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.transport.abort()  # the client sent nothing, too much, or reads too slowly
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _text(self) -> bytes:
        now_s = asyncio.get_running_loop().time()
        if self.address.path or now_s - self._last_s >= FRESH_S:
            self._last = await self._answer()
            self._last_s = now_s
        return self._last

    async def _respond(self, head: bytes) -> bytes:
        method, path, *_ = [*head.split(b"\r\n", 1)[0].split(), b"", b""]
        if not self.address.path and not has_no_strange_host(head, self._hosts):
            text = b"ask for an address, localhost, or a name of this machine (--metrics-hosts)\n"
            return response("421 Misdirected Request", text, "text/plain")
        if method not in (b"GET", b"HEAD"):
            return response("405 Method Not Allowed", b"only GET\n", "text/plain")
        if path.split(b"?")[0] != b"/metrics":
            return response("404 Not Found", b"/metrics is what there is\n", "text/plain")
        try:
            body = await self._text()
        except Exception as error:
            self._log.exception("metrics_failed")
            text = f"the agent failed on it: {error}\n".encode()
            return response("500 Internal Server Error", text, "text/plain")
        return response("200 OK", body, TEXT, without_body=method == b"HEAD")


def has_no_strange_host(head: bytes, names: Collection[str] = ()) -> bool:
    """Whether a request names this machine or an address as its host, or none, as no browser does.

    `names` are more names of this machine.
    A page in a browser can make a name of its own mean 127.0.0.1, and would read the answer. With
    an address it cannot; a proxy in front of this port may pass on the address that it was asked.
    """
    lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
    hosts = [value.strip() for name, _, value in lines if name.strip().lower() == b"host"]
    return len(hosts) < 2 and all(
        _is_plain(host.decode("latin-1").lower(), names) for host in hosts
    )


def _is_plain(host: str, names: Collection[str]) -> bool:
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdecimal():
        name = host
    if name.rstrip(".") in ("localhost", socket.gethostname().lower(), *names):
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def bound(path: Path) -> socket.socket:
    """A socket at this path that only this user can open; it replaces one that is not served.

    Raises OSError, also if there is a file of another kind: a mistyped path destroys no file.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(errno.EEXIST, "there is something that is no socket")
        if _is_served(path):
            raise OSError(errno.EADDRINUSE, "another process listens there")
        path.unlink()
    sock = PeerSocket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    before = os.umask(0o177)
    try:
        sock.bind(str(path))
    except OSError:
        sock.close()
        raise
    finally:
        os.umask(before)
    return sock


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True  # it listens, and is busy
        except OSError:
            return False
    return True


def response(status: str, body: bytes, kind: str, *, without_body: bool = False) -> bytes:
    """An answer to HTTP, whole."""
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if without_body else body)
