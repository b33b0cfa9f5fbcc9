"""What can be suspended: work all of whose memory can leave."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from moiety.agent.control.other_rows import _row
from moiety.agent.control.rows import ProcessRow
from moiety.model.share import Mode, Share
from moiety.pool.control.suspendable import carried


def row(workload: str, resident: int, **values: Any) -> ProcessRow:
    found = _row(pid=1, program="p", uid=1, user="u", state="holding", workload=workload)
    return replace(found, resident_bytes=resident, **values)


def test_the_bytes_of_all_its_processes_would_leave() -> None:
    rows = [row("a", 10), row("a", 5), row("b", 0), row("c", 7)]
    assert carried(rows, {"a": 1, "b": 2, "d": 3}) == {1: 15, 2: 1}


@pytest.mark.parametrize(
    "values",
    [
        {"pinned": "cuIpcGetMemHandle"},
        {"pinned_bytes": 1},
        {"managed_bytes": 1},
        {"share": Share(mode=Mode.MANAGED)},
    ],
)
def test_work_whose_memory_stays_is_not_suspended(values: dict[str, Any]) -> None:
    assert carried([row("a", 10), row("a", 10, **values)], {"a": 1}) == {}
