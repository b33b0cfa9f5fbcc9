"""What the engine has learned, in the store: a name, and bytes that only the engine reads."""

from __future__ import annotations

import sqlite3
from typing import Final

POLICY: Final = "policy"
"""The name of the engine's memory."""


def save(connection: sqlite3.Connection, name: str, content: bytes) -> None:
    """Keep a content under a name; what was there before is gone."""
    connection.execute(
        "INSERT INTO memory VALUES(?, ?) "
        "ON CONFLICT(name) DO UPDATE SET content = excluded.content",
        (name, content),
    )


def load(connection: sqlite3.Connection, name: str) -> bytes | None:
    """The content under a name; None: there is none."""
    found = connection.execute("SELECT content FROM memory WHERE name = ?", (name,)).fetchone()
    return None if found is None else bytes(found[0])
