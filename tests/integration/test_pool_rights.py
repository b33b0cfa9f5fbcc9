"""Who may change what of which work, asked of a pool as each user."""

from __future__ import annotations

import asyncio
import json
import pwd
import sqlite3
from pathlib import Path

import pytest

from moiety.pool.api.routes import records
from moiety.pool.model.states import WorkState
from moiety.pool.model.steps import StepReport, StepRow
from moiety.pool.store import changes, steps
from tests.support.served_pool import ask, served, submitted

ADMIN = pwd.getpwuid(0)
OWNER = pwd.getpwnam("daemon")
HEAD = pwd.getpwnam("bin")
OTHER = pwd.getpwnam("sys")


def make_project(address: str) -> None:
    """Project nlp, with HEAD as its administrator."""
    file = {"projects": [{"name": "nlp", "admins": [HEAD.pw_name]}]}
    code, said = ask(address, "PUT", "/v1/projects", json.dumps(file).encode(), ADMIN.pw_uid)
    assert code == 200, said


def test_only_administrators_raise_a_priority(tmp_path: Path) -> None:
    with served(tmp_path, OWNER.pw_uid) as (address, pool):
        pool.loop.must_serve = lambda _: None  # type: ignore[method-assign, assignment]
        make_project(address)
        number = submitted(address, OWNER.pw_uid, project="nlp")

        def amend(uid: int, **values: object) -> int:
            path = f"/v1/workloads/{number}/amend"
            return ask(address, "POST", path, json.dumps(values).encode(), uid)[0]

        assert amend(OWNER.pw_uid, priority=-5) == 200
        assert amend(OWNER.pw_uid, priority=0) == 200
        assert amend(OWNER.pw_uid, priority=1) == 403
        assert amend(OTHER.pw_uid, priority=-1) == 403
        assert amend(OTHER.pw_uid, name="mine") == 403
        assert amend(HEAD.pw_uid, priority=3) == 200
        assert amend(OWNER.pw_uid, priority=3) == 200, "it stays"
        assert amend(OWNER.pw_uid, priority=4) == 403
        assert amend(ADMIN.pw_uid, priority=9) == 200


def test_what_an_administrator_holds_its_user_does_not_release(tmp_path: Path) -> None:
    with served(tmp_path, OWNER.pw_uid) as (address, pool):
        pool.loop.must_serve = lambda _: None  # type: ignore[method-assign, assignment]
        make_project(address)
        alone = submitted(address, OWNER.pw_uid, project="nlp")
        array = submitted(address, OWNER.pw_uid, project="nlp", array="0-2")

        def act(what: str, uid: int, target: object) -> tuple[int, str]:
            code, said = ask(address, "POST", f"/v1/workloads/{target}/{what}", b"", uid)
            found = json.loads(said)
            return code, found["state"] if code == 200 else said.decode()

        for target in (alone, array):
            assert act("hold", OWNER.pw_uid, target) == (200, "held")
            assert act("hold", HEAD.pw_uid, target) == (200, "held")
            assert act("hold", OWNER.pw_uid, target) == (200, "held"), "it stays the other's"
            code, why = act("release", OWNER.pw_uid, target)
            assert code == 403
            assert f"which {HEAD.pw_name} holds" in why
            assert act("release", ADMIN.pw_uid, target) == (200, "pending")
            assert act("hold", OWNER.pw_uid, target) == (200, "held")
            assert act("release", OWNER.pw_uid, target) == (200, "pending")
        assert act("hold", HEAD.pw_uid, f"{array}_1") == (200, "held")
        code, _ = act("release", OWNER.pw_uid, array)
        assert code == 403, "all of it or nothing"
        assert act("release", OWNER.pw_uid, f"{array}_2") == (200, "pending")


def test_only_its_user_tells_the_steps_of_a_workload(tmp_path: Path) -> None:
    with served(tmp_path, OWNER.pw_uid) as (address, pool):
        pool.loop.must_serve = lambda _: None  # type: ignore[method-assign, assignment]
        number = submitted(address, OWNER.pw_uid, hold=False, name="trained")
        other = submitted(address, OWNER.pw_uid, hold=False)

        def run(connection: sqlite3.Connection) -> None:
            for each in (number, other):
                changes.begin_attempt(connection, each, 1, [0], 101.0)
                changes.transition(connection, each, WorkState.RUNNING)

        asyncio.run(pool.loop.write(run))
        step = {"number": 0, "name": "secret", "command": "secret.sh", "began_s": 102.0}

        def tell(uid: int, **values: object) -> int:
            body = json.dumps({"attempt": 1, "step": step | values}).encode()
            return ask(address, "POST", f"/v1/workloads/{number}/steps", body, uid)[0]

        assert tell(OTHER.pw_uid) == 403
        assert tell(ADMIN.pw_uid) == 403, "an administrator runs no step of another user's job"
        assert tell(OWNER.pw_uid, number=-1) == 400
        assert tell(OWNER.pw_uid) == 200

        def shown(uid: int, query: str = "&steps=1") -> dict[str, list[dict[str, object]]]:
            path = f"/v1/records?ids={number},{other}{query}"
            found: dict[str, list[dict[str, object]]] = json.loads(
                ask(address, "GET", path, uid=uid)[1]
            )["steps"]
            return found

        (own,) = shown(OWNER.pw_uid)[str(number)]
        assert (own["name"], own["command"], own["ended_s"]) == ("secret", "secret.sh", None)
        (seen,) = shown(OTHER.pw_uid)[str(number)]
        assert (seen["name"], seen["command"], seen["number"]) == ("", "", 0)
        assert shown(OWNER.pw_uid, "") == {}


def test_a_page_ends_before_it_has_too_many_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "STEPS_TOGETHER_MAX", 3)
    with served(tmp_path, OWNER.pw_uid) as (address, pool):
        pool.loop.must_serve = lambda _: None  # type: ignore[method-assign, assignment]
        numbers = [submitted(address, OWNER.pw_uid, hold=False) for _ in range(3)]

        def run(connection: sqlite3.Connection) -> None:
            for each in numbers:
                changes.begin_attempt(connection, each, 1, [0], 101.0)
                for at in range(2):
                    step = StepRow(number=at, name="sh", began_s=102.0)
                    steps.tell(connection, each, StepReport(attempt=1, step=step))

        asyncio.run(pool.loop.write(run))
        found: list[int] = []
        after: int | None = 0
        pages = 0
        while after is not None:
            path = f"/v1/records?steps=1&after={after}"
            page = json.loads(ask(address, "GET", path, uid=OWNER.pw_uid)[1])
            found += map(int, page["steps"])
            after, pages = page["after"], pages + 1
        assert (found, pages) == (numbers, 3)
