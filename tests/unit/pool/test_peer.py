"""What a user may see and do in the pool."""

from __future__ import annotations

import os

import msgspec
import pytest

from moiety.agent.system.users import USERS, User
from moiety.config.table import PoolSettings
from moiety.model.errors import NotAllowed
from moiety.pool.api.administrators import Administrators, of_settings
from moiety.pool.api.peer import Caller
from moiety.pool.model.project_rows import ProjectRow
from moiety.pool.model.records import WorkRow
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


def test_the_machines_pool_is_administered_by_root_and_the_users_of_its_settings() -> None:
    USERS.learn(User(OTHER + 2, "ann", frozenset({"staff"})))
    USERS.learn(User(OTHER + 3, "eve", frozenset({"gpu-admins", "staff"})))
    admins = of_settings(
        PoolSettings(
            user="moiety", admins=("ann", "@gpu-admins"), waiting=None, processes=None, keep=None
        )
    )
    has = [uid for uid in (0, OTHER, OTHER + 2, OTHER + 3) if admins.has(uid)]
    assert has == [0, OTHER + 2, OTHER + 3]
    assert admins.has(os.getuid()) == (os.getuid() == 0), "the server itself is none"
    with pytest.raises(NotAllowed, match="only root, ann and group gpu-admins may end the pool"):
        Caller(OTHER, admins).must_be_admin("end the pool")


def test_a_name_that_begins_with_an_at_sign_is_a_group() -> None:
    USERS.learn(User(OTHER + 4, "@staff", frozenset()))
    assert not Administrators(groups=frozenset({"staff"})).has(OTHER + 4)
