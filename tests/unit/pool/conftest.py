"""What the tests of the pool share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.pool_store import close_stores


@pytest.fixture(autouse=True)
def _stores_are_closed() -> Iterator[None]:
    yield
    close_stores()
