"""What a submission says about its input, its logs and its warning reaches the supervisor."""

from __future__ import annotations

from pathlib import Path

import msgspec

from moiety.pool.launch.specification import life_spec
from moiety.pool.store import rows
from tests.support.pool_store import store_in, submitted


def test_logs_are_emptied_for_the_first_run_only(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    row = submitted(store, array="4", stdin="in-%a.txt", open_mode="truncate", warn_signal=10)
    asked = rows.submission(store, row.id)
    assert life_spec(row, asked) == {
        "stdin": "/tmp/in-4.txt", "open_mode": "truncate",
        "warn_signal": 10, "warn_s": 60.0, "warn_first": False,
    }  # fmt: skip
    again = msgspec.structs.replace(row, restarts=1)
    assert life_spec(again, asked)["open_mode"] == "append"
    alone = submitted(store)
    assert life_spec(alone, rows.submission(store, alone.id))["stdin"] is None
