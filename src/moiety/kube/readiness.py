"""Answers probes: whether the process lives, and whether pods can be given shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from moiety.agent.control.metrics_server import MetricsServer, response
from moiety.config.values import Address

TEXT: Final = "text/plain; charset=utf-8"


class Readiness(MetricsServer):
    """`/healthz` and `/readyz` on a port of this machine, or a socket."""

    def __init__(self, address: Address, problems: Callable[[], list[str]], log: Any) -> None:
        """`problems` returns the reasons why pods cannot get shares; empty: they can."""
        super().__init__(address, self._nothing, log)
        self._problems = problems

    async def _respond(self, head: bytes) -> bytes:
        path = [*head.split(b"\r\n", 1)[0].split(), b"", b""][1].split(b"?")[0]
        if path == b"/healthz":
            return response("200 OK", b"ok\n", TEXT)
        if path == b"/readyz":
            problems = self._problems()
            if not problems:
                return response("200 OK", b"ready\n", TEXT)
            text = "".join(f"{each}\n" for each in problems)
            return response("503 Service Unavailable", text.encode(), TEXT)
        return response("404 Not Found", b"/healthz and /readyz are what there is\n", TEXT)

    async def _nothing(self) -> bytes:
        return b""
