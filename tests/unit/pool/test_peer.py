"""What a user may see and do in the pool."""

from __future__ import annotations

import os

import msgspec
import pytest

from moiety.agent.system.users import USERS, User
from moiety.model.errors import NotAllowed
from moiety.pool.api.peer import Caller
from moiety.pool.model.records import ProjectRow, WorkRow
from moiety.pool.model.states import WorkState

OTHER = 54321
ROW = WorkRow(
    id=1, name="secret-plan", project="default", uid=OTHER, user="bob", state=WorkState.RUNNING,
    gpus=1, gpu_milli=1000, submitted_s=0.0, command="train --key", stdout="/home/bob/log",
    reason="its program could not be started: /home/bob/plan: No such file or directory",
)  # fmt: skip


def test_others_see_that_there_is_work_and_not_what_it_is() -> None:
    seen = Caller(OTHER + 1).shown(ROW)
    assert (seen.name, seen.command, seen.stdout, seen.reason) == ("", "", "", "")
    assert (seen.user, seen.gpus, seen.state) == ("bob", 1, WorkState.RUNNING)
    assert Caller(OTHER).shown(ROW) == ROW
    assert Caller(os.getuid()).shown(ROW) == ROW


def test_others_may_not_touch_it() -> None:
    with pytest.raises(NotAllowed, match="workload 1 is of bob: you may not cancel it"):
        Caller(OTHER + 1).must_own(ROW, "cancel")
    Caller(OTHER).must_own(ROW, "cancel")
    Caller(0).must_own(msgspec.structs.replace(ROW, uid=0), "cancel")


def test_only_administrators_change_projects() -> None:
    with pytest.raises(NotAllowed, match="may change projects"):
        Caller(OTHER).must_be_admin("change projects")
    Caller(os.getuid()).must_be_admin("change projects")


def test_a_project_is_for_the_users_that_it_names() -> None:
    USERS.learn(User(OTHER, "bob", frozenset()))
    project = ProjectRow(name="nlp", users=["ann"])
    with pytest.raises(NotAllowed, match="project nlp is for ann"):
        Caller(OTHER).must_be_of(project)
    Caller(OTHER).must_be_of(msgspec.structs.replace(project, users=["ann", "bob"]))
    Caller(OTHER).must_be_of(ProjectRow(name="open"))
