"""The API of a pool on a port of loopback, without an agent: for tests that send odd requests.

A header says which user asks, as the kernel does on the pool's own socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import uvicorn

from moiety.pool.api.app import app
from moiety.pool.api.route import ServedPool
from moiety.pool.api.routes import work
from moiety.pool.control.loop import PoolLoop
from moiety.pool.engine.messages import CardView, MachineView
from moiety.pool.engine.process import EngineProcess
from moiety.pool.server import PoolServer, parts
from moiety.pool.store.database import StoreFiles, reader
from tests.support.pool_store import paths_in

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]
USER: Final = b"x-test-user"
ASKED: Final = {"program": "/bin/true", "argv": ["true"], "cwd": "/tmp", "hold": True}
"""A submission, without what can be left out."""
CARDS: Final = [CardView(index=at, model="A100", memory_mib=80_000) for at in range(2)]


def as_user(inner: App, uid: int) -> App:
    """The application for a user, or for the one that a header names."""

    async def outer(scope: Scope, receive: Any, send: Any) -> None:
        named = dict(scope["headers"]).get(USER, b"%d" % uid)
        await inner({**scope, "client": (named.decode(), 1)}, receive, send)

    return outer


@contextlib.contextmanager
def served_with_work(folder: Path, uid: int) -> Iterator[str]:
    """The address of a pool with two held workloads; it answers each wait at once."""
    patch = pytest.MonkeyPatch()
    patch.setattr(work, "WAIT_MAX_S", 0.01)
    with served(folder, uid) as (address, pool):
        patch.setattr(type(pool.loop), "must_serve", lambda *_: None)
        for name in ("one", "two"):
            submitted(address, uid, name=name)
        yield address
    patch.undo()


def ask(address: str, method: str, path: str, body: bytes = b"", uid: int = 0) -> tuple[int, bytes]:
    """One request, as it is written here."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.putrequest(method, path, skip_accept_encoding=True)
    connection.putheader(USER.decode(), str(uid))
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def submitted(address: str, uid: int, **values: object) -> int:
    """Submit a held workload for a user; its number."""
    body = json.dumps(ASKED | values).encode()
    status, said = ask(address, "POST", "/v1/workloads", body, uid)
    assert status == 201, said
    return int(json.loads(said)["id"])


@contextlib.contextmanager
def served(folder: Path, uid: int) -> Iterator[tuple[str, ServedPool]]:
    """The address of a server in a thread, and what it serves; nothing is started by it."""
    paths = paths_in(folder)
    files = StoreFiles(paths)
    engine = EngineProcess(paths, sys.stderr.fileno())
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # who asks before the server does waits for it
    made: list[tuple[ServedPool, PoolServer]] = []
    is_made = threading.Event()

    async def serve() -> None:
        reading = reader(paths)
        launcher, admins, rules = parts(paths, [], is_machines=False)
        loop = PoolLoop(paths, files.writer, engine, launcher, reading)
        loop.machine = MachineView(name="m", cpu_milli=8000, memory_mib=64_000, cards=CARDS)
        pool = ServedPool(paths, loop, reading, lambda: None, admins, rules)
        server = PoolServer(
            uvicorn.Config(
                as_user(app(pool), uid), lifespan="off", log_config=None,
                timeout_graceful_shutdown=1,
            )
        )  # fmt: skip
        made.append((pool, server))
        is_made.set()
        await server.serve(sockets=[listener])
        reading.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        assert is_made.wait(60)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", made[0][0]
    finally:
        made[0][1].should_exit = True
        thread.join()
        engine.close()
        files.close()
