"""Who holds waiting work, by its reason."""

from __future__ import annotations

import pytest

from moiety.pool.model import holds


@pytest.mark.parametrize(
    ("reason", "holder"),
    [
        ("", None),
        (holds.BY_ITS_USER, None),
        (holds.reason_of("ann"), None),
        (holds.reason_of("boss"), "boss"),
        (holds.reason_of("ann.b"), "ann.b"),
        ("3 starts in a row have failed", None),
    ],
)
def test_the_reason_names_another_who_holds_it(reason: str, holder: str | None) -> None:
    assert holds.other_holder(reason, "ann") == holder
