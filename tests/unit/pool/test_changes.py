"""Changes of the store: submissions, attempts, ends, projects."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path

import msgspec
import pytest

from moiety.model.errors import BadArgument, ProjectUnknown, WorkStateWrong
from moiety.pool.model.project_rows import ProjectRow
from moiety.pool.model.states import WorkState
from moiety.pool.store import changes, project_check, rows
from moiety.pool.store.insertion import log_path
from tests.support.pool_store import store_in, submission, submitted


@pytest.fixture
def store(tmp_path: Path) -> sqlite3.Connection:
    return store_in(tmp_path)


def test_a_submission_is_there_with_all_of_it(store: sqlite3.Connection) -> None:
    row = submitted(
        store,
        argv=["/opt/bin/train", "--fast"],
        gpu=0.5,
        memory_bytes=(20 << 30) + 1,
        environment={"SECRET": "é"},
        script="#!/bin/sh\n",
        stdout="%x-%j-100%%.log",
    )
    assert (row.id, row.name, row.state) == (1, "train", WorkState.PENDING)
    assert (row.gpus, row.gpu_milli, row.gpu_memory_mib) == (1, 500, 20481)
    assert (row.stdout, row.stderr) == ("/tmp/train-1-100%.log",) * 2
    assert rows.submission(store, 1).environment == {"SECRET": "é"}
    script = store.execute("SELECT script FROM body WHERE workload = 1").fetchone()[0]
    assert script == b"#!/bin/sh\n"


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        ({}, (1000, 0)),
        ({"gpus": 0}, (0, 0)),
        ({"memory_bytes": 1 << 30}, (0, 1024)),
        ({"gpus": 4, "gpu": 0.25}, (250, 0)),
    ],
)
def test_a_whole_gpu_is_meant_unless_a_part_is_asked_for(
    store: sqlite3.Connection, values: dict[str, object], shape: tuple[int, int]
) -> None:
    row = submitted(store, 1.0, **values)
    assert (row.gpu_milli, row.gpu_memory_mib) == shape


def test_an_attempt_is_begun_once(store: sqlite3.Connection) -> None:
    number = submitted(store).id
    row = changes.begin_attempt(store, number, 1, [2, 3], 200.0)
    assert row is not None
    assert (row.state, row.attempt, row.cards, row.began_s) == (
        WorkState.STARTING, 1, [2, 3], 200.0,
    )  # fmt: skip
    assert changes.begin_attempt(store, number, 1, [2, 3], 201.0) is None
    assert changes.begin_attempt(store, number, 2, [2, 3], 201.0) is None, "it has its GPUs"
    assert changes.started(store, number, 1, 77, 8, "a1b2") is WorkState.RUNNING
    assert changes.agent_workload(store, number) == "a1b2"


def test_work_that_comes_back_has_no_gpus(store: sqlite3.Connection) -> None:
    number = submitted(store).id
    changes.begin_attempt(store, number, 1, [0], 200.0)
    row = changes.end_attempt(store, number, 1, WorkState.PENDING, "preempted", 230.0)
    assert row is not None
    assert (row.cards, row.began_s, row.ended_s) == ([], None, None)
    assert changes.end_attempt(store, number, 1, WorkState.FAILED, "late", 231.0) is None
    assert changes.begin_attempt(store, number, 2, [1], 240.0) is not None
    row = changes.end_attempt(store, number, 2, WorkState.DONE, "exited 0", 250.0, exit_code=0)
    assert row is not None
    assert (row.state, row.cards, row.ended_s, row.exit_code) == (WorkState.DONE, [1], 250.0, 0)


def cancel(store: sqlite3.Connection, number: int) -> tuple[WorkState, str, bool]:
    row, is_to_be_told = changes.cancel(store, number, "cancelled", "by ann", 9.0)
    return row.state, row.intent, is_to_be_told


def test_no_state_follows_an_end(store: sqlite3.Connection) -> None:
    number = submitted(store).id
    for _ in range(2):
        assert cancel(store, number) == (WorkState.CANCELLED, "", False)
    with pytest.raises(WorkStateWrong, match="is cancelled: it cannot become pending"):
        changes.transition(store, number, WorkState.PENDING)
    for act in (changes.release, partial(changes.hold, reason="x")):
        with pytest.raises(WorkStateWrong):
            act(store, number)


def test_work_that_has_gpus_is_neither_held_nor_released(store: sqlite3.Connection) -> None:
    number, user = (row := submitted(store)).id, row.user
    assert changes.hold(store, number, f"held by {user}").state is WorkState.HELD
    for _ in range(2):
        assert changes.hold(store, number, "held by boss").reason == "held by boss"
    assert changes.hold(store, number, f"held by {user}").reason == "held by boss"
    for _ in range(2):
        row = changes.release(store, number)
        assert (row.state, row.reason) == (WorkState.PENDING, "")
    changes.begin_attempt(store, number, 1, [0], 3.0)
    states = [None, WorkState.RUNNING, WorkState.SUSPENDING, WorkState.SUSPENDED]
    for state in [*states, WorkState.RESUMING, WorkState.ENDING]:
        if state:
            changes.transition(store, number, state)
        before = rows.workload(store, number)
        with pytest.raises(WorkStateWrong, match="it cannot become held") as caught:
            changes.hold(store, number, "x")
        assert caught.value.exit_code == 75
        with pytest.raises(WorkStateWrong):
            changes.release(store, number)
        assert rows.workload(store, number) == before
        assert changes.begin_attempt(store, number, 2, [1], 4.0) is None, "it starts once"


def test_what_is_cancelled_ends_whatever_it_does_by_then(store: sqlite3.Connection) -> None:
    number = submitted(store).id
    changes.begin_attempt(store, number, 1, [0], 3.0)
    changes.transition(store, number, WorkState.ENDING, intent="preempted")
    assert cancel(store, number) == (WorkState.ENDING, "cancelled", False), "it would come back"
    came_back = submitted(store).id
    changes.begin_attempt(store, came_back, 1, [0], 3.0)
    changes.transition(store, came_back, WorkState.ENDING, intent="preempted")
    changes.end_attempt(store, came_back, 1, WorkState.PENDING, "preempted", 5.0)
    assert cancel(store, came_back) == (WorkState.CANCELLED, "", False)
    starting = submitted(store).id
    changes.begin_attempt(store, starting, 1, [0], 3.0)
    assert cancel(store, starting) == (WorkState.ENDING, "cancelled", True)


def test_projects_are_made_and_changed_live(store: sqlite3.Connection) -> None:
    lab = ProjectRow(name="lab", quota=8)
    nlp = ProjectRow(name="nlp", parent="lab", quota=4, weight=2)
    assert changes.apply(store, [lab, nlp]) == ["project lab created", "project nlp created"]
    assert changes.apply(store, [lab, nlp]) == []
    more = msgspec.structs.replace(nlp, quota=6)
    assert changes.apply(store, [more]) == ["project nlp changed"]
    assert rows.project(store, "nlp").quota == 6
    with pytest.raises(BadArgument, match="has projects below it"):
        changes.submit(store, submission(project="lab"), 0, "root", 1.0)
    with pytest.raises(ProjectUnknown, match="no project vision"):
        changes.submit(store, submission(project="vision"), 0, "root", 1.0)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"name": "a", "parent": "b"}, "project a: there is no project b above it"),
        ({"name": "a", "parent": "a"}, "projects go round in a loop: a"),
        (
            {"name": "a", "quota": 3, "limit": 2},
            "project a: its quota of 3 GPUs is above its limit, 2 GPUs",
        ),
        ({"name": "a", "quota": -1}, "no number of GPUs"),
        ({"name": "a", "weight": -1}, "weight is negative"),
        ({"name": "a", "weight": 1e300}, "too large"),
        ({"name": "a", "weight": float("nan")}, "too large"),
        ({"name": "a b"}, "no name of a project"),
        ({"name": "below", "parent": "small", "quota": 2}, "together, and it has 1"),
        ({"name": "below", "parent": "default"}, "has 1 workloads"),
    ],
)
def test_projects_that_make_no_sense_are_refused(
    store: sqlite3.Connection, wanted: dict[str, object], text: str
) -> None:
    changes.apply(store, [ProjectRow(name="small", quota=1)])
    submitted(store)
    with pytest.raises(BadArgument, match=text):
        changes.apply(store, [msgspec.convert(wanted, ProjectRow)])


def test_each_change_has_a_number_that_readers_ask_after(store: sqlite3.Connection) -> None:
    first, second = submitted(store).id, submitted(store).id
    found, change = rows.since(store, 0)
    assert [row.id for row in found] == [first, second]
    assert rows.since(store, change) == ([], change)
    changes.transition(store, first, WorkState.HELD)
    found, _ = rows.since(store, change)
    assert [(row.id, row.state) for row in found] == [(first, WorkState.HELD)]


def test_patterns_of_a_log_are_replaced() -> None:
    assert log_path("%x-%j-%A-%a%%.log", "/home/ann", "n", 14, 12, 2) == "/home/ann/n-14-12-2%.log"
    assert log_path("/var/%04j/%12a/%q%", "/", "n", 14, 14, None) == "/var/0014/0000000000/%q%"


def test_a_diff_says_what_would_change_and_changes_nothing(store: sqlite3.Connection) -> None:
    changes.apply(store, [ProjectRow(name="nlp", quota=2)])
    number = submitted(store, 1.0, project="nlp", gpus=2).id
    changes.begin_attempt(store, number, 1, [0, 1], 2.0)
    wanted = [
        ProjectRow(name="nlp", quota=1, users=["ann"]),
        ProjectRow(name="vision", quota=1, limit=3),
    ]
    found = project_check.diff(store, wanted)
    assert found.changes == [
        "project nlp: quota 2 becomes 1",
        "project nlp: users none becomes ann",
        "project vision: new, with a quota of 1",
    ]
    assert found.above == [
        "project nlp has 2 GPUs, and its quota would be 1: others may have the rest back"
    ]
    assert project_check.diff(store, [ProjectRow(name="nlp", quota=2)]).changes == []
    limited = project_check.diff(store, [ProjectRow(name="nlp", limit=1)])
    assert limited.above == ["project nlp has 2 GPUs, and its limit would be 1"]
    with pytest.raises(BadArgument):
        project_check.diff(store, [ProjectRow(name="nlp", parent="nobody")])


def test_quotas_by_the_hour_are_checked_at_each_hour(store: sqlite3.Connection) -> None:
    night = ProjectRow(name="a", parent="lab", quota=1, windows=["mon-fri 20:00-08:00=3"])
    with pytest.raises(BadArgument, match="3 GPUs together on Mon 20:00"):
        changes.apply(store, [ProjectRow(name="lab", quota=2), night])
    changes.apply(store, [ProjectRow(name="lab", quota=3), night])
    assert rows.project(store, "a").windows == ["mon-fri 20:00-08:00=3"]
    for text in ("sometimes=3", "25:00-26:00=1", "mon-fri 20:00-08:00=-1"):
        with pytest.raises(BadArgument):
            changes.apply(store, [ProjectRow(name="a", quota=1, windows=[text])])
