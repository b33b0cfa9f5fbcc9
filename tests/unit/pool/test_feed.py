"""The feed: the store is read once for all watchers, and a slow one costs no more than others."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from moiety.pool.api import feed
from moiety.pool.api.feed import EventFeed
from moiety.pool.api.peer import Caller
from moiety.pool.api.routes.events import on_events
from tests.support.pool_store import reading_in, store_in, submitted


def reading(folder: Path) -> tuple[sqlite3.Connection, list[str], sqlite3.Connection]:
    store = store_in(folder)
    found = reading_in(folder)
    said: list[str] = []
    found.set_trace_callback(said.append)
    return store, said, found


def test_a_thousand_watchers_read_the_store_once(tmp_path: Path) -> None:
    store, said, connection = reading(tmp_path)
    tick = asyncio.Event()

    async def next_change(_: float) -> None:
        await tick.wait()
        tick.clear()

    async def run() -> list[int]:
        told = EventFeed()
        watchers = [told.watch(at % 3, None, connection, next_change) for at in range(1000)]
        submitted(store)
        said.clear()
        tick.set()
        found = await asyncio.gather(*(each.next(60) for each in watchers))
        for each in watchers:
            told.leave(each)
        return [len(each or []) for each in found]

    assert asyncio.run(run()) == [1] * 1000
    assert len(said) == 1


def test_a_slow_watcher_keeps_no_more_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "BEHIND_MAX", 5)
    store, _, connection = reading(tmp_path)
    tick = asyncio.Event()

    async def next_change(_: float) -> None:
        await tick.wait()
        tick.clear()

    async def run() -> None:
        told = EventFeed()
        slow, quick = (told.watch(1, None, connection, next_change) for _ in range(2))
        for _ in range(4):
            for _ in range(3):
                submitted(store)
            tick.set()
            assert len(await quick.next(60) or []) == 3
        assert len(slow.waiting) == 0
        assert await slow.next(60) is None
        assert slow.position == 12
        submitted(store)
        tick.set()
        assert len(await slow.next(60) or []) == 1
        for each in (slow, quick):
            told.leave(each)

    asyncio.run(run())


def test_a_watcher_that_hangs_up_before_it_is_told_anything_is_forgotten(tmp_path: Path) -> None:
    _, _, connection = reading(tmp_path)
    told = EventFeed()
    never = asyncio.Event

    async def next_change(_: float) -> None:
        await never().wait()

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(_: Any) -> None:
        await never().wait()  # it does not read the answer to what it asked before

    async def run() -> None:
        loop = SimpleNamespace(next_change=next_change)
        pool: Any = SimpleNamespace(feed=told, reader=connection, loop=loop)
        scope = {"type": "http", "query_string": b"", "headers": [], "asgi": {}}
        response = await on_events(pool, Request(scope), Caller(1))
        await response(scope, receive, send)

    asyncio.run(run())
    assert not told._watchers
