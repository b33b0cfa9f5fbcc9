"""Roles: what a project lets its viewers, submitters and administrators do, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.agent.system.users import USERS, User
from moiety.model.errors import NotAllowed
from moiety.pool.api.peer import Caller
from moiety.pool.api.roles import ProjectRoles, roles_of
from moiety.pool.model.project_rows import ProjectRow
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.store import changes
from tests.support.pool_store import store_in

ANN, BOB, EVE, LEA, TOM = range(54321, 54326)
LAB = ProjectRow(name="lab", quota=8.0, admins=["lea"])
NLP = ProjectRow(
    name="nlp", parent="lab", quota=4.0, users=["ann", "@nlp"], viewers=["@review"], admins=["tom"]
)
ROLES = ProjectRoles({each.name: each for each in (LAB, NLP)})
ROW = WorkRow(
    id=1, name="plan", project="nlp", uid=ANN, user="ann", state=WorkState.PENDING, gpus=1,
    gpu_milli=1000, submitted_s=0.0, command="train --key", stdout="/home/ann/log",
)  # fmt: skip


@pytest.fixture(autouse=True)
def people(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    known = {
        ANN: User(ANN, "ann"),
        BOB: User(BOB, "bob", frozenset({"nlp"})),
        EVE: User(EVE, "eve", frozenset({"review"})),
        LEA: User(LEA, "lea"),
        TOM: User(TOM, "tom"),
    }
    monkeypatch.setattr(USERS, "of", lambda uid: known.get(uid, User(uid, str(uid))))
    return iter(())


def test_each_right_is_that_of_names_and_groups() -> None:
    people = (ANN, BOB, EVE, LEA, TOM, 9)
    assert [who for who in people if ROLES.is_viewer(who, "nlp")] == [EVE, LEA, TOM]
    assert [who for who in people if ROLES.is_admin(who, "nlp")] == [LEA, TOM]
    assert [who for who in people if ROLES.is_admin(who, "lab")] == [LEA]
    assert not ROLES.is_viewer(ANN, "none")


@pytest.mark.parametrize("who", [BOB, EVE, 9])
def test_others_change_nothing_of_it(who: int) -> None:
    with pytest.raises(NotAllowed, match="you may not cancel it"):
        Caller(who, roles=ROLES).must_own(ROW, "cancel")
    with pytest.raises(NotAllowed):
        Caller(who, roles=ROLES).must_be_admin_in("nlp", "give work a priority above 0")


@pytest.mark.parametrize("who", [LEA, TOM])
def test_administrators_of_a_project_change_its_work_and_no_other(who: int) -> None:
    caller = Caller(who, roles=ROLES)
    caller.must_own(ROW, "cancel")
    caller.must_be_of(NLP)
    caller.must_be_admin_in("nlp", "give work a priority above 0")
    assert caller.shown(ROW) == ROW
    with pytest.raises(NotAllowed):
        caller.must_be_admin("change projects")
    other = {**ROLES.projects, "cv": ProjectRow(name="cv", users=["eve"])}
    with pytest.raises(NotAllowed):
        Caller(who, roles=ProjectRoles(other)).must_be_admin_in("cv", "give work a priority")


def test_viewers_see_and_submitters_do_not() -> None:
    assert Caller(EVE, roles=ROLES).shown(ROW) == ROW
    assert Caller(BOB, roles=ROLES).shown(ROW).command == ""
    with pytest.raises(NotAllowed, match="project nlp is for ann, @nlp"):
        Caller(EVE, roles=ROLES).must_be_of(NLP)
    Caller(BOB, roles=ROLES).must_be_of(NLP)


def test_projects_that_are_above_each_other_end_the_search() -> None:
    round_ = ProjectRoles(
        {"a": ProjectRow(name="a", parent="b"), "b": ProjectRow(name="b", parent="a")}
    )
    assert not round_.is_admin(ANN, "a")


def test_roles_are_those_in_the_store_now(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    changes.apply(store, [LAB, NLP])
    assert roles_of(store) == ProjectRoles(
        {"default": ProjectRow(name="default"), **ROLES.projects}
    )
    changes.apply(store, [ProjectRow(name="nlp", parent="lab", admins=["eve"])])
    assert roles_of(store).is_admin(EVE, "nlp")
    assert not roles_of(store).is_admin(TOM, "nlp")
