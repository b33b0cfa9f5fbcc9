"""The variables that tell a program which workload it is."""

from __future__ import annotations

from pathlib import Path

from moiety.pool.launch.environment import job_environment
from moiety.pool.store import rows
from tests.support.pool_store import store_in, submitted


def test_a_program_learns_its_number_and_its_index(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    alone = submitted(store, name="one")
    assert job_environment(alone, rows.submission(store, alone.id)) == {
        "MOIETY_JOB_ID": "1", "MOIETY_JOB_NAME": "one", "MOIETY_JOB_PROJECT": "default",
        "MOIETY_JOB_ATTEMPT": "0",
    }  # fmt: skip
    first = submitted(store, array="3-9:3")
    task = rows.workload(store, first.id + 1)
    found = job_environment(task, rows.submission(store, task.id))
    assert found["MOIETY_JOB_ID"] == str(task.id)
    assert found["MOIETY_ARRAY_ID"] == str(first.id)
    assert (found["MOIETY_ARRAY_INDEX"], found["MOIETY_ARRAY_COUNT"]) == ("6", "3")
