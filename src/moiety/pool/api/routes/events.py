"""The route of what changes, as server-sent events: a client follows it instead of asking again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from moiety.pool.api.answers import number, query_of
from moiety.pool.api.feed import Change, Watcher
from moiety.pool.api.peer import Caller
from moiety.pool.api.roles import roles_of
from moiety.pool.api.route import ApiRoute, ServedPool

HEARTBEAT_S: Final = 15.0
BEAT: Final = b": still here\n\n"


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Where a client goes on."""

    after: int | None = None
    """The last event that it knows; the header `Last-Event-ID` says the same. None: from now on."""


async def on_events(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """Changes of workloads as they come: `workload` with its row, or `reload` after too many.

    The id of an event is where a client goes on that was cut off. A workload that changes several
    times at once is there once, as it is then.
    """
    after = query_of(request, EventsQuery).after
    if (last := request.headers.get("last-event-id")) is not None:
        after = number(last)
    watcher = pool.feed.watch(caller.uid, after, pool.reader, pool.loop.next_change)
    return WatchResponse(pool, caller, watcher)


class WatchResponse(StreamingResponse):
    """What a watcher is told."""

    def __init__(self, pool: ServedPool, caller: Caller, watcher: Watcher) -> None:
        super().__init__(
            _stream(pool, caller, watcher),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store"},
        )
        self._leave = partial(pool.feed.leave, watcher)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; the watcher is forgotten also if it hangs up before the stream begins."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


async def _stream(pool: ServedPool, caller: Caller, watcher: Watcher) -> AsyncIterator[bytes]:
    yield event("ready", watcher.position, b"{}") if not watcher.wake.is_set() else BEAT
    while True:
        found = await watcher.next(HEARTBEAT_S)
        if found is None:
            yield event("reload", watcher.position, b"{}")
        elif found:
            yield b"".join(_shown(pool, caller, found))
        else:
            yield BEAT


def _shown(pool: ServedPool, caller: Caller, found: list[Change]) -> list[bytes]:
    now = replace(caller, roles=roles_of(pool.reader))  # they may have changed
    return [event("workload", at, msgspec.json.encode(now.shown(row))) for at, row in found]


def event(kind: str, at: int, data: bytes) -> bytes:
    """One event; its data is JSON, which has no line breaks."""
    return b"event: %s\nid: %d\ndata: %s\n\n" % (kind.encode(), at, data)


ROUTES: Final = (
    ApiRoute("GET", "/events", on_events, str, query=EventsQuery, media="text/event-stream"),
)
