"""What is changed of work that was submitted, and when that is too late."""

from __future__ import annotations

from pathlib import Path

import pytest

from moiety.model.errors import BadArgument, WorkStateWrong
from moiety.pool.model.amendment import Amendment
from moiety.pool.store import amendments, changes
from tests.support.pool_store import store_in, submitted


def test_waiting_work_takes_new_values(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    before = submitted(store, labels={"a": "1"}, time_limit_s=60.0)
    new = Amendment(time_limit_s=None, priority=-3, name="other", labels={"b": "2"})
    row = amendments.amend(store, before.id, new)
    assert (row.time_limit_s, row.priority, row.name) == (None, -3, "other")
    assert row.labels == {"a": "1", "b": "2"}
    assert amendments.amend(store, before.id, Amendment()) == row


def test_running_work_keeps_its_time_limit(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    number = submitted(store).id
    changes.begin_attempt(store, number, 1, [0], 200.0)
    with pytest.raises(WorkStateWrong, match="only while it waits"):
        amendments.amend(store, number, Amendment(time_limit_s=60.0))
    assert amendments.amend(store, number, Amendment(name="other")).name == "other"


@pytest.mark.parametrize(
    "values",
    [{"name": "a b"}, {"time_limit_s": -1.0}, {"priority": 10**9}, {"begin_s": -5.0}],
)
def test_values_that_make_no_sense_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(BadArgument):
        Amendment(**values).check()  # type: ignore[arg-type]
