"""The pool, for Slurm's programs: rows as dictionaries, so that nothing slow is imported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from moiety.model import errors
from moiety.pool.connection import PoolConnection, of, with_query
from moiety.pool.paths import PoolPaths, pool_paths

Row = dict[str, Any]
"""What `moiety.pool.model.records` has as a struct, by the names of its fields."""
PAGE: Final = 1000


class SlurmPool:
    """One pool, for a program."""

    def __init__(self, paths: PoolPaths | None = None) -> None:
        """The pool of the agent that is meant; raises BadSetting."""
        self.paths = paths or pool_paths()
        self._connection = PoolConnection(self.paths)

    def get(self, path: str, **query: str | int) -> Any:
        """What the pool answers; raises the error that it raised, NoPool or PoolSilent."""
        return _decoded(self._connection.ask("GET", with_query(path, query)))

    def post(self, path: str, body: Any = None) -> Any:
        """The same for a request that changes something."""
        content = b"" if body is None else json.dumps(body).encode()
        return _decoded(self._connection.ask("POST", path, content))

    def row(self, number: int | str) -> Row:
        """One workload; raises WorkUnknown."""
        found: Row = self.get(of(str(number)))
        return found

    def rows(self, **query: str | int) -> Iterator[Row]:
        """All workloads that a list has, page after page."""
        while True:
            page = self.get("/workloads", limit=PAGE, **query)
            yield from page["rows"]
            if page["after"] is None:
                return
            query["after"] = page["after"]

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def _decoded(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        raise errors.PoolSilent("its answer makes no sense") from None
