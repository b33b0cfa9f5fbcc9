"""The changes of watched objects, also changes while nothing was heard. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A change of an object."""

    kind: str
    """ADDED, MODIFIED, DELETED; SYNCED, without an object, after all present objects."""
    object: dict[str, Any]


def news(known: dict[str, dict[str, Any]], found: list[dict[str, Any]]) -> Iterator[WatchEvent]:
    """The changes from `known` to a new list; updates `known`.

    An object with the name of a removed one is another object.
    """
    now = {key(each): each for each in found}
    for name, before in list(known.items()):
        if name not in now or _uid(now[name]) != _uid(before):
            yield WatchEvent("DELETED", known.pop(name))
    for name, each in now.items():
        kind = "MODIFIED" if name in known else "ADDED"
        known[name] = each
        yield WatchEvent(kind, each)
    yield WatchEvent("SYNCED", {})


def key(found: Mapping[str, Any]) -> str:
    """The name of an object among those of its kind, with its namespace."""
    told = found["metadata"]
    return f"{told.get('namespace', '')}/{told['name']}"


def _uid(found: Mapping[str, Any]) -> str:
    return str(found["metadata"].get("uid") or "")
