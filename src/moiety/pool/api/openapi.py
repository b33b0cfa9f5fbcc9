"""The OpenAPI document of the API: made from the table of routes and the types that it names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from moiety.pool.api.route import ApiRoute
from moiety.pool.model.names import API_VERSION
from moiety.pool.model.records import Problem
from moiety.version import __version__

REFERENCE: Final = "#/components/schemas/{name}"
ABOUT: Final = (
    "HTTP on a Unix socket, `pool.sock` in the agent's folder. The kernel says which user asks; "
    "there is no other way to say it. Fields and routes can be added to this version; none is "
    "taken away or changes its meaning."
)
TARGET: Final = {
    "name": "target",
    "in": "path",
    "required": True,
    "description": "The number of a workload, a task of an array, or a name.",
    "schema": {"type": "string", "minLength": 1},
}


def document(routes: Iterable[ApiRoute]) -> dict[str, Any]:
    """The document; the same for the same routes, so that it can be compared."""
    routes = list(routes)
    kinds = [kind for each in routes for kind in (each.answer, each.body) if kind is not None]
    _, components = msgspec.json.schema_components([*kinds, Problem], ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for each in routes:
        path = paths.setdefault(f"/{API_VERSION}{each.path}", {})
        path[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "The pool of moiety", "version": __version__, "description": ABOUT},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(components.items()))},
    }


def encoded(routes: Iterable[ApiRoute]) -> bytes:
    """The document as it is served and kept in docs/openapi.json."""
    return json.dumps(document(routes), indent=1, ensure_ascii=False).encode() + b"\n"


def _operation(route: ApiRoute) -> dict[str, Any]:
    summary, _, more = (route.handler.__doc__ or "").partition("\n\n")
    found: dict[str, Any] = {
        "operationId": route.handler.__name__.removeprefix("on_"),
        "summary": " ".join(summary.split()),
    }
    if more.strip():
        found["description"] = " ".join(more.split())
    parameters = [TARGET] if "{target}" in route.path else []
    parameters += _parameters(route.query)
    if parameters:
        found["parameters"] = parameters
    if route.body is not None:
        found["requestBody"] = {"required": True, "content": _content(route.body)}
    found["responses"] = {
        str(route.status): {
            "description": "What was asked for.",
            "content": _content(route.answer, route.media),
        },
        "default": {"description": "Why it was refused.", "content": _content(Problem)},
    }
    return found


def _parameters(query: Any) -> list[dict[str, Any]]:
    if query is None:
        return []
    _, components = msgspec.json.schema_components([query], ref_template=REFERENCE)
    properties: dict[str, dict[str, Any]] = components[query.__name__]["properties"]
    return [
        {"name": name, "in": "query", "required": False, "schema": _plain(schema)}
        for name, schema in properties.items()
    ]


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is left out has no value; a query cannot say `null`."""
    kinds = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    found = {**kinds[0]}
    if found.get("type") == "integer":
        found |= {"minimum": 0, "maximum": 10**18}
    return found


def _content(kind: Any, media: str = "application/json") -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return {media: {"schema": schema}}
