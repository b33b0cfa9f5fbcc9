"""Requests that no client of ours sends: each is answered, and none with an error of the server.

The document of the API says what can be sent; schemathesis sends that and what it does not allow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error

from moiety.pool.api.app import ROUTES, openapi
from tests.support.served_pool import served_with_work

STREAMS = {each.path for each in ROUTES if each.media == "text/event-stream"}
UID = 4321
EXAMPLES = 10

OPERATIONS = [
    (each.method, f"/v1{each.path}") for each in ROUTES if each.path not in STREAMS
]  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served_with_work(tmp_path_factory.mktemp("pool"), UID) as found:
        yield found


@pytest.mark.soak
@pytest.mark.parametrize("uid", [UID, 0])
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_no_request_makes_the_server_fail(address: str, method: str, path: str, uid: int) -> None:
    operation = schemathesis.openapi.from_dict(json.loads(openapi()))[path][method]
    modes = list(GenerationMode) if operation.body or operation.query else [GenerationMode.POSITIVE]
    for mode in modes:

        @settings(
            max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
            suppress_health_check=list(HealthCheck), phases=[Phase.generate],
        )  # fmt: skip
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: schemathesis.Case[Any]) -> None:
            answer = case.call(base_url=address, headers={"X-Test-User": str(uid)}, timeout=60)
            case.validate_response(answer, checks=[not_a_server_error])

        send()
