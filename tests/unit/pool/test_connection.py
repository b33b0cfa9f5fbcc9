"""The paths of requests to the pool."""

from __future__ import annotations

import pytest

from moiety.model.errors import WorkUnknown
from moiety.pool.connection import of, with_query
from moiety.pool.model.names import NAME


def test_a_workload_has_a_path_by_its_number_or_name() -> None:
    assert of("12") == "/workloads/12"
    assert of("a.b:c@d+e", "wait") == "/workloads/a.b%3Ac%40d%2Be/wait"


@pytest.mark.parametrize("target", ["", "a b", "../1", "é", "-x", "a" * 129, "1\n"])
def test_what_is_no_name_is_no_path(target: str) -> None:
    assert not NAME.fullmatch(target)
    with pytest.raises(WorkUnknown):
        of(target)


def test_a_query_is_written_as_urls_have_it() -> None:
    assert with_query("/workloads", {}) == "/workloads"
    assert with_query("/workloads", {"user": "a&b", "limit": 2}) == "/workloads?user=a%26b&limit=2"
