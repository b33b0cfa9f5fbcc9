"""The document of the API: it is the one in the docs, and has every route and every type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moiety.pool.api.app import ROUTES, openapi

PAGE = Path(__file__).parents[3] / "docs" / "openapi.json"
FOUND: dict[str, Any] = json.loads(openapi())


def test_the_document_is_the_one_in_the_docs() -> None:
    assert PAGE.read_bytes() == openapi(), "write it anew: python tools/openapi.py"


def test_every_route_is_in_it_with_what_it_takes() -> None:
    for each in ROUTES:
        operation = FOUND["paths"][f"/v1{each.path}"][each.method.lower()]
        assert operation["summary"].endswith("."), each.path
        assert (each.body is not None) == ("requestBody" in operation), each.path
        assert set(operation["responses"]) == {str(each.status), "default"}
    names = [each["operationId"] for path in FOUND["paths"].values() for each in path.values()]
    assert len(names) == len(set(names)) == len(ROUTES)


def test_every_reference_leads_to_a_type() -> None:
    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [each for inner in value.values() for each in references(inner)]
        return (
            [each for inner in value for each in references(inner)]
            if isinstance(value, list)
            else []
        )

    names = {each.removeprefix("#/components/schemas/") for each in references(FOUND)}
    assert names <= set(FOUND["components"]["schemas"])
    assert {"Submission", "WorkRow", "Problem", "Projects"} <= names


def test_queries_have_no_null() -> None:
    operation = FOUND["paths"]["/v1/workloads"]["get"]
    after = next(each for each in operation["parameters"] if each["name"] == "after")
    assert after["schema"]["type"] == "integer"
    assert not after["required"]
