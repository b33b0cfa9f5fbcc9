"""Stores of users: those of earlier versions become the present one, with all that is in them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from moiety.model.errors import StoreNewer
from moiety.pool.model.states import ACTIVE, ENDS, WAITING, WorkState
from moiety.pool.model.steps import StepReport, StepRow
from moiety.pool.store import changes, rows, steps
from moiety.pool.store.database import StoreFiles
from moiety.pool.store.schema import MIGRATIONS
from tests.support.pool_store import paths_in, reading_in, store_in, submitted, writing_in

STORES = Path(__file__).parent / "stores"


def test_a_store_of_the_first_version_becomes_the_present_one(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    old = sqlite3.connect(paths.database)
    old.executescript((STORES / "version-1.sql").read_text())
    assert old.execute("PRAGMA user_version").fetchone() == (1,)
    old.close()
    StoreFiles(paths).close()
    store = writing_in(tmp_path)
    assert store.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    read = reading_in(tmp_path)
    assert [(row.id, row.state) for row in rows.live(read, ACTIVE | WAITING)] == [
        (1, WorkState.PENDING), (2, WorkState.HELD), (3, WorkState.RUNNING),
    ]  # fmt: skip
    ended = rows.page(read, over=True).rows
    assert [(row.id, row.state, row.exit_code, row.exit_signal) for row in ended] == [
        (6, WorkState.CANCELLED, None, None), (5, WorkState.FAILED, None, 9),
        (4, WorkState.DONE, 0, None),
    ]  # fmt: skip
    assert all(row.state in ENDS and row.labels == {} and row.tasks == 1 for row in ended)
    assert rows.submission(read, 1).environment == {"PATH": "/usr/bin", "WORD": "grün"}
    assert [each.name for each in rows.projects(read)] == ["default", "lab", "nlp"]
    assert rows.project(read, "nlp").users == ["ann"]
    running = rows.workload(read, 3)
    assert (running.cards, running.attempt) == ([0, 1], 1)
    assert changes.agent_workload(store, 3) == "w7"
    assert submitted(store).id == 7, "no number is given twice"


def test_a_store_of_the_second_version_gets_a_place_for_steps(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    old = sqlite3.connect(paths.database)
    old.executescript((STORES / "version-2.sql").read_text())
    assert old.execute("PRAGMA user_version").fetchone() == (2,)
    old.close()
    StoreFiles(paths).close()
    store = writing_in(tmp_path)
    assert store.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    read = reading_in(tmp_path)
    assert [(row.id, row.name) for row in rows.live(read, ACTIVE | WAITING)] == [
        (2, "second"), (3, "third"),
    ]  # fmt: skip
    assert rows.workload(read, 1).labels == {"slurm.program": "sbatch", "slurm.cpus": "2"}
    step = StepRow(number=0, name="sh", began_s=107.0)
    steps.tell(store, 2, StepReport(attempt=1, step=step))
    assert steps.of(read, [1, 2, 3]) == {2: [step]}


def test_an_earlier_program_leaves_a_later_store_alone(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.execute(f"PRAGMA user_version={len(MIGRATIONS) + 1}")
    store.close()
    before = paths_in(tmp_path).database.read_bytes()
    with pytest.raises(StoreNewer):
        StoreFiles(paths_in(tmp_path))
    assert paths_in(tmp_path).database.read_bytes() == before
