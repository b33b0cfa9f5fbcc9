"""One line of the table of routes: where it is, what it takes, and what it answers."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from moiety.pool.api.administrators import OWN, Administrators
from moiety.pool.api.feed import EventFeed
from moiety.pool.api.peer import Caller
from moiety.pool.control.loop import PoolLoop
from moiety.pool.model.records import WorkRow
from moiety.pool.paths import PoolPaths
from moiety.pool.store import changes, targets
from moiety.pool.store.targets import Target
from moiety.pool.store.turns import SubmitRules


@dataclass(frozen=True, slots=True)
class ServedPool:
    """What handlers work on: one pool, and what it is served with."""

    paths: PoolPaths
    loop: PoolLoop
    reader: sqlite3.Connection
    """It only reads."""
    stop: Callable[[], None]
    """Ends the server."""
    admins: Administrators = OWN
    rules: SubmitRules = field(default_factory=SubmitRules)
    began_s: float = field(default_factory=time.monotonic)
    feed: EventFeed = field(default_factory=EventFeed)
    """It tells watchers what changes."""
    accounts: dict[int, float] = field(default_factory=dict)
    """By user: until when it is known that this one has an account."""

    def find(self, request: Request, caller: Caller) -> WorkRow:
        """The workload of a path, or the first of its tasks; as of `target`."""
        return self.target(request, caller).row

    def target(self, request: Request, caller: Caller) -> Target:
        """What a path names; by name only the caller's own, unless that is an administrator.

        Raises WorkUnknown or WorkAmbiguous.
        """
        whose = None if caller.is_admin else caller.uid
        return targets.find(self.reader, request.path_params["target"], whose)

    async def note(self, caller: Caller, act: str, target: str) -> None:
        """Write into the audit table who does what."""
        noted = partial(changes.audit, uid=caller.uid, act=act, target=target, now_s=time.time())
        await self.loop.write(noted)


Handler = Callable[[ServedPool, Request, Caller], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """A route of version 1; the OpenAPI document says of it what stands here."""

    method: str
    path: str
    """After `/v1`; `{target}` is a number, `12_3`, `12_[4-9]` or a name."""
    handler: Handler
    answer: Any
    """The type of its answer."""
    body: Any = None
    """The type of what it takes; None: nothing."""
    query: Any = None
    """A struct whose fields are the parameters of the query; None: there are none."""
    status: int = 200
    media: str = "application/json"
