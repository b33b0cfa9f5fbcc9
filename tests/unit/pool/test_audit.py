"""The audit log: every act is there with its user, in pages, the newest first."""

from __future__ import annotations

import os
from pathlib import Path

from moiety.pool.store import audit, changes
from tests.support.pool_store import store_in, submitted


def test_submissions_are_in_it_with_their_transaction(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    number = submitted(store).id
    (row,) = audit.page(store).rows
    assert (row.act, row.target, row.uid, row.at_s) == ("submit", str(number), 1000, 100.0)


def test_pages_follow_each_other_and_can_be_of_one_user_or_act(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for at in range(5):
        changes.audit(store, os.getuid() if at % 2 else 77, "hold", str(at), float(at))
    changes.audit(store, 77, "apply", "project lab created", 9.0)
    first = audit.page(store, limit=4)
    assert [row.target for row in first.rows] == ["project lab created", "4", "3", "2"]
    second = audit.page(store, limit=4, after=first.after)
    assert ([row.target for row in second.rows], second.after) == (["1", "0"], None)
    assert [row.act for row in audit.page(store, uid=77, act="apply").rows] == ["apply"]
    assert len(audit.page(store, uid=77).rows) == 4
