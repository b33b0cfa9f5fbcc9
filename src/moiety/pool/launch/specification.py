"""What a submission says about the input, the logs and the warning of its program."""

from __future__ import annotations

from typing import Any

from moiety.pool.model.records import Submission, WorkRow
from moiety.pool.store.insertion import log_path


def life_spec(row: WorkRow, asked: Submission) -> dict[str, Any]:
    """Fields of the supervisor's specification; a program that runs again appends to its logs."""
    stdin = None
    if asked.stdin:
        array_id = row.array_id or row.id
        stdin = log_path(asked.stdin, asked.cwd, row.name, row.id, array_id, row.array_index)
    return {
        "stdin": stdin,
        "open_mode": "append" if row.restarts else asked.open_mode,
        "warn_signal": asked.warn_signal,
        "warn_s": asked.warn_s,
        "warn_first": asked.warn_first,
    }
