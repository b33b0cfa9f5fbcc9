"""What is changed of work that was submitted, and when that is too late."""

from __future__ import annotations

from pathlib import Path

import pytest

from moiety.model.errors import BadArgument, WorkStateWrong
from moiety.pool.model.amendment import Amendment
from moiety.pool.model.labels import LABELS_MAX
from moiety.pool.model.states import WorkState
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


def test_running_work_takes_another_time_limit_and_no_begin_time(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    number = submitted(store).id
    changes.begin_attempt(store, number, 1, [0], 200.0)
    assert amendments.amend(store, number, Amendment(time_limit_s=60.0)).time_limit_s == 60.0
    with pytest.raises(WorkStateWrong, match="only while it waits"):
        amendments.amend(store, number, Amendment(begin_s=60.0))
    assert amendments.amend(store, number, Amendment(name="other")).name == "other"


def test_what_is_over_takes_labels_only(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    number = submitted(store).id
    changes.begin_attempt(store, number, 1, [0], 200.0)
    changes.end_attempt(store, number, 1, WorkState.DONE, "exited 0", 300.0)
    with pytest.raises(WorkStateWrong, match="is done"):
        amendments.amend(store, number, Amendment(time_limit_s=60.0))
    assert amendments.amend(store, number, Amendment(labels={"a": "1"})).labels == {"a": "1"}


@pytest.mark.parametrize(
    ("before", "now", "is_more"),
    [(60.0, 90.0, True), (60.0, None, True), (60.0, 30.0, False), (None, 9.0, False)],
)
def test_more_time_is_what_ends_it_later(
    before: float | None, now: float | None, *, is_more: bool
) -> None:
    assert Amendment(time_limit_s=now).gives_more_time(before) is is_more
    assert not Amendment(name="other").gives_more_time(before)


@pytest.mark.parametrize(
    "values",
    [
        {"name": "a b"},
        {"time_limit_s": -1.0},
        {"priority": 10**9},
        {"begin_s": -5.0},
        {"gpu": 1.5},
        {"gpu": 0.0},
        {"memory_bytes": -1},
        {"labels": {"a": "x" * LABELS_MAX}},
    ],
)
def test_values_that_make_no_sense_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(BadArgument):
        Amendment(**values).check()  # type: ignore[arg-type]


def test_labels_have_a_bound_together(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    half = "x" * (LABELS_MAX // 2)
    number = submitted(store, labels={"a": half}).id
    with pytest.raises(BadArgument, match="64 Ki letters"):
        amendments.amend(store, number, Amendment(labels={"b": half}))
    assert amendments.amend(store, number, Amendment(labels={"a": "1"})).labels == {"a": "1"}


def test_a_part_of_a_gpu_is_for_work_that_was_promised_one(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    number = submitted(store, gpu=0.5, memory_bytes=1 << 30, memory_limit_bytes=2 << 30).id
    row = amendments.amend(store, number, Amendment(gpu=0.25, memory_bytes=(1 << 20) + 1))
    assert (row.gpu_milli, row.gpu_memory_mib) == (250, 2)
    with pytest.raises(BadArgument, match="above its memory limit"):
        amendments.amend(store, number, Amendment(memory_bytes=3 << 30))
    for values in ({"gpus": 0}, {"opportunistic": True}):
        other = submitted(store, **values).id
        with pytest.raises(BadArgument, match="nothing of a GPU"):
            amendments.amend(store, other, Amendment(gpu=0.5))
