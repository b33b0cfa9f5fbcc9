"""Reading the store: by number and name, in pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from moiety.model.errors import WorkAmbiguous, WorkUnknown
from moiety.pool.model.states import WorkState
from moiety.pool.store import changes, rows
from tests.support.pool_store import store_in, submission, submitted


def test_a_name_means_the_one_that_lives_and_else_the_last(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    old, new = submitted(store, name="sweep").id, submitted(store, name="sweep").id
    with pytest.raises(WorkAmbiguous, match="2 workloads are called sweep") as caught:
        rows.find(store, "sweep")
    assert f"{old}, {new}" in caught.value.hint
    changes.cancel(store, new, "cancelled", "", 1.0)
    assert rows.find(store, "sweep").id == old
    changes.cancel(store, old, "cancelled", "", 2.0)
    assert rows.find(store, "sweep").id == new
    assert rows.find(store, str(old)).id == old
    for target in ("other", "99", "²", ""):
        with pytest.raises(WorkUnknown):
            rows.find(store, target)


def test_pages_follow_each_other(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for _ in range(5):
        submitted(store)
    for number in (1, 2, 3):
        changes.cancel(store, number, "cancelled", "", float(number))
    submitted(store, hold=True)
    page = rows.page(store, limit=2)
    assert ([row.id for row in page.rows], page.after) == ([4, 5], 5)
    page = rows.page(store, limit=2, after=5)
    assert ([row.id for row in page.rows], page.after) == ([6], None)
    over = rows.page(store, over=True, limit=2)
    assert ([row.id for row in over.rows], over.after) == ([3, 2], 2)
    held = rows.page(store, states=["held"], project="default", user="ann")
    assert [row.id for row in held.rows] == [6]
    assert rows.page(store, user="bob").rows == []
    assert rows.counts(store) == {"pending": 2, "held": 1}
    assert rows.waiting_by_project(store) == {"default": 3}
    assert rows.is_any_pending(store)
    assert [row.id for row in rows.live(store, [WorkState.HELD])] == [6]


def test_a_users_names_are_its_own(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    ann = submitted(store, name="train").id
    bob = changes.submit(store, submission(name="train"), 1001, "bob", 100.0)
    assert rows.find(store, "train", 1000).id == ann
    assert rows.find(store, "train", 1001).id == bob
    with pytest.raises(WorkUnknown):
        rows.find(store, "train", 1002)
    with pytest.raises(WorkAmbiguous):
        rows.find(store, "train")
