"""Commands that wait for a job are told when it has its GPUs no longer."""

from __future__ import annotations

from typing import Any

import pytest

from moiety.slurm.submit.sending import until_left


class Told:
    """A pool that answers with these states, and attempts of the job, one after the other."""

    def __init__(self, *rows: tuple[str, int]) -> None:
        self._rows = [{"state": state, "attempt": attempt} for state, attempt in rows]
        self.asked: list[str] = []

    def row(self, _: int) -> dict[str, Any]:
        return self._rows.pop(0)

    def get(self, path: str, *, timeout: int, while_state: str) -> dict[str, Any]:
        assert (path, timeout) == ("/workloads/7/wait", 60)
        self.asked.append(while_state)
        return self._rows.pop(0)


@pytest.mark.parametrize(
    ("rows", "asked"),
    [
        ([("running", 1), ("running", 1), ("done", 1)], ["running", "running"]),
        ([("running", 1), ("ending", 1), ("pending", 1)], ["running", "ending"]),
        ([("running", 2), ("suspended", 2), ("running", 2), ("failed", 2)], None),
        ([("running", 1), ("running", 2)], ["running"]),  # it was requeued, and has begun again
        ([("cancelled", 1)], []),
    ],
)
def test_work_that_is_over_or_waits_again_has_left(
    rows: list[tuple[str, int]], asked: list[str] | None
) -> None:
    pool: Any = Told(*rows)
    until_left(pool, 7)
    assert pool.asked == (["running", "suspended", "running"] if asked is None else asked)
