"""What one connection, and all of one user, can take of the server of a pool."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from moiety.agent.core.rate_limits import RESERVE, UserQuota
from moiety.agent.system.paths import Directory
from moiety.model.errors import TooMany
from moiety.pool.api import connections
from moiety.pool.api.administrators import Administrators
from moiety.pool.api.connections import HEAD_MAX, QUEUED_MAX, PeerProtocol, protocol_of, quota_of
from moiety.pool.connection import PoolConnection
from moiety.pool.paths import PoolPaths
from moiety.pool.server import PoolServer, listen

GET = b"GET /v1/status HTTP/1.1\r\nHost: pool\r\n"
BEYOND = 16 << 20
"""Far more bytes than the server may read of one request beside its body."""
Conversation = Callable[[str], Awaitable[None]]


async def hears_nothing(scope: Any, receive: Any, send: Any) -> None:
    """An application that never answers."""
    del scope, receive, send
    await asyncio.Event().wait()


async def answers(scope: Any, receive: Any, send: Any) -> None:
    """An application that says who asked."""
    while (await receive()).get("more_body"):
        pass
    said = json.dumps(scope["client"]).encode()
    length = (b"content-length", b"%d" % len(said))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": said})


def serve(
    folder: Path,
    quota: UserQuota,
    talk: Conversation,
    application: Any = answers,
    keep_alive_s: int = 60,
) -> list[PeerProtocol]:
    """Serve a pool in a folder while there is a conversation; returns all connections."""
    paths = PoolPaths(Directory(folder))
    paths.socket.parent.mkdir(exist_ok=True)
    protocol = protocol_of(quota, Administrators())
    made: list[PeerProtocol] = []

    def noted(*arguments: Any, **named: Any) -> PeerProtocol:
        made.append(protocol(*arguments, **named))
        return made[-1]

    async def run() -> None:
        config = uvicorn.Config(
            application, http=noted, ws="none", lifespan="off", log_config=None,  # type: ignore[arg-type]
            timeout_keep_alive=keep_alive_s, timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = PoolServer(config)
        serving = asyncio.create_task(server.serve(sockets=[listen(paths)]))
        try:
            await talk(str(paths.socket))
        finally:
            server.should_exit = True
            await serving

    asyncio.run(run())
    return made


async def last_said(path: str, parts: Iterator[bytes]) -> tuple[bytes, int]:
    """What comes after all of these were sent, and how many bytes the server took."""
    reader, writer = await asyncio.open_unix_connection(path)
    sent = 0
    with contextlib.suppress(ConnectionError):
        for part in parts:
            writer.write(part)
            await writer.drain()
            sent += len(part)
    said = b""
    with contextlib.suppress(ConnectionError):
        said = await reader.read()
    writer.close()
    return said, sent


def endless(first: bytes, part: bytes) -> Iterator[bytes]:
    """A request that has no end, as far as the server can know."""
    yield first
    for _ in range(BEYOND // len(part)):
        yield part


LINES = b"a: " + b"b" * 61 + b"\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: pool\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"


@pytest.mark.parametrize(
    ("first", "part"),
    [
        (GET, LINES * 1024),
        (GET + b"a: ", b"b" * HEAD_MAX),
        (b"GET /", b"a" * HEAD_MAX),
        (CHUNKED, LINES * 1024),
    ],
    ids=["lines", "a line", "a path", "trailers"],
)
def test_a_request_cannot_have_an_endless_head(tmp_path: Path, first: bytes, part: bytes) -> None:
    found: list[tuple[bytes, int]] = []

    async def talk(path: str) -> None:
        found.append(await last_said(path, endless(first, part)))

    serve(tmp_path, quota_of(), talk)
    ((said, sent),) = found
    assert sent < BEYOND // 2
    assert said.startswith(b"HTTP/1.1 400") or not said, said


def test_a_large_body_is_no_head(tmp_path: Path) -> None:
    body = b"x" * (4 << 20)

    async def talk(path: str) -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nHost: p\r\nContent-Length: %d\r\n\r\n" % len(body))
            writer.write(body)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            await reader.readuntil(b"]")
        writer.close()

    serve(tmp_path, quota_of(), talk)


def test_a_connection_cannot_have_any_number_of_requests_wait(tmp_path: Path) -> None:
    async def talk(path: str) -> None:
        await last_said(path, iter([(GET + b"\r\n") * 10_000]))

    (protocol,) = serve(tmp_path, quota_of(), talk, hears_nothing)
    assert len(protocol.pipeline) == QUEUED_MAX


def test_a_connection_that_asks_nothing_is_closed(tmp_path: Path) -> None:
    async def talk(path: str) -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        assert await reader.read() == b""
        writer.close()

    serve(tmp_path, quota_of(), talk, keep_alive_s=0)


class Quota(UserQuota):
    """One that says when no more than two connections are left."""

    is_as_before = asyncio.Event()

    def give(self, uid: int) -> None:
        super().give(uid)
        if self.whole == 2:
            self.is_as_before.set()


def test_a_user_beyond_the_quota_is_told_so_and_others_are_served(tmp_path: Path) -> None:
    quota = Quota(2, 4, "connections to the pool")
    quota.take(4321)
    quota.take(4321)
    assert "has 2 connections" in quota.refuse(4321)

    async def talk(path: str) -> None:
        held = [await asyncio.open_unix_connection(path) for _ in range(2 + RESERVE)]
        for reader, writer in held:
            writer.write(GET + b"\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        with pytest.raises(TooMany, match="all users together have 4 connections to the pool"):
            await asyncio.to_thread(ask, tmp_path)
        for _, writer in held:
            writer.close()
        await asyncio.wait_for(quota.is_as_before.wait(), 60)
        assert b"[" in await asyncio.to_thread(ask, tmp_path)

    serve(tmp_path, quota, talk)
    assert quota.whole == 2


def ask(folder: Path) -> bytes:
    """What a command hears."""
    connection = PoolConnection(PoolPaths(Directory(folder)))
    try:
        return connection.ask("GET", "/status")
    finally:
        connection.close()


def test_a_refusal_is_read_although_the_server_has_hung_up(tmp_path: Path) -> None:
    paths = PoolPaths(Directory(tmp_path))
    paths.socket.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(paths.socket))
        listener.listen()
        connection = PoolConnection(paths)
        connection._connection.connect()
        peer, _ = listener.accept()
        body = b'{"kind":"TooMany","what":"you have 9","hint":"end some","exit_code":75}'
        peer.sendall(b"HTTP/1.1 503 X\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        peer.close()
        with pytest.raises(TooMany, match="you have 9"):
            connection.ask("GET", "/status")
        connection.close()


def test_connections_leave_descriptors_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = [1024, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limit))
    monkeypatch.setattr(
        resource, "setrlimit", lambda _, wanted: limit.__setitem__(slice(2), wanted)
    )
    assert (quota_of().each, quota_of().together) == (256, 512)
    connections.raise_descriptor_limit()
    assert limit == [4096, 4096]
    assert (quota_of().each, quota_of().together) == (1024, 2048)
    limit[:] = [resource.RLIM_INFINITY] * 2
    connections.raise_descriptor_limit()
    assert limit == [resource.RLIM_INFINITY] * 2
    assert quota_of().together == connections.DESCRIPTORS // 2
