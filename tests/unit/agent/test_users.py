"""Who somebody is, is found out beside the loop: a directory that hangs keeps nobody waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from moiety.agent.control.limits import LimitEnforcer, LimitRules
from moiety.agent.system.users import (
    AGAIN_S,
    KEPT,
    THREADS,
    User,
    Users,
    ask_tables,
    beside,
    is_listed,
)
from moiety.config.files import read
from moiety.config.load import load
from moiety.config.places import Kind
from moiety.model.errors import NotAllowed, UserLimit
from moiety.model.share import Share

LONG_S = 60.0
ALICE, BOB = 7001, 7002
RULES = """\
[users.alice]
workloads = 1

[defaults]
workloads = 0
"""


class Directory:
    """A directory service: it says nothing about those in `hangs` until it is let."""

    def __init__(self) -> None:
        self.hangs = {ALICE}
        self.names = {ALICE: "alice", BOB: "bob"}
        self.asked: list[int] = []
        self.let = threading.Event()
        self.now_s = 100.0

    def ask(self, uid: int) -> User:
        self.asked.append(uid)
        if uid in self.hangs:
            self.let.wait(LONG_S)
        if uid not in self.names:
            raise KeyError(uid)
        return User(uid, self.names[uid], frozenset({"people"}))

    def users(self) -> Users:
        return Users(self.ask, lambda: self.now_s)


@pytest.fixture
def directory() -> Iterator[Directory]:
    made = Directory()
    yield made
    made.let.set()


def test_nobody_waits_for_a_directory_that_hangs(directory: Directory) -> None:
    users = directory.users()
    assert users.of(ALICE) == User(ALICE, str(ALICE), is_known=False)
    assert not users.wait_for(ALICE, 0.01).is_known
    assert users.wait_for(BOB, LONG_S).name == "bob", "others are found out meanwhile"
    directory.let.set()
    assert users.wait_for(ALICE, LONG_S) == User(ALICE, "alice", frozenset({"people"}))
    assert users.of(ALICE).name == "alice"
    assert directory.asked == [ALICE, BOB]


def test_a_loop_waits_for_a_user_only_once(directory: Directory) -> None:
    users = directory.users()

    async def asks() -> list[bool]:
        first = await users.found(ALICE, 0.01)
        directory.now_s += 10.0  # it was asked for long ago: this time there is no wait at all
        again = await users.found(ALICE, 5.0)
        directory.let.set()
        directory.now_s -= 10.0
        return [each.is_known for each in (first, again, await users.found(ALICE, LONG_S))]

    assert asyncio.run(asks()) == [False, False, True]


def test_questions_are_bounded_and_none_is_forgotten(directory: Directory) -> None:
    users = directory.users()
    many = range(8000, 8000 + 3 * THREADS)
    directory.hangs = set(many)
    directory.names = {uid: f"user{uid}" for uid in many}
    for uid in many:
        assert not users.of(uid).is_known
    assert users._threads == THREADS
    directory.let.set()
    assert [users.wait_for(uid, LONG_S).name for uid in many] == list(directory.names.values())


def test_those_who_are_remembered_are_bounded(directory: Directory) -> None:
    users = directory.users()
    for uid in range(10_000, 10_000 + 2 * KEPT):
        users.wait_for(uid, LONG_S)
    assert len(users._known) == len(users._found_s) == KEPT


def test_who_is_in_no_table_is_asked_for_again_and_nobody_is_lost(directory: Directory) -> None:
    directory.hangs.clear()
    users = directory.users()
    assert users.wait_for(9000, LONG_S) == User(9000, "9000", is_listed=False)
    assert users.of(9000).is_known
    assert users.of(9000).name == "9000"
    assert directory.asked == [9000]
    found: list[User] = []
    there = threading.Event()

    def on_found(user: User) -> None:
        found.append(user)
        there.set()

    users.on_found = on_found
    directory.names[9000] = "carol"
    directory.now_s += AGAIN_S
    assert users.of(9000).name == "9000", "what was said counts until there is more"
    assert there.wait(LONG_S)
    assert [user.name for user in found] == ["carol"]
    del directory.names[9000]  # LDAP is down
    users.forget()
    assert users.of(9000).name == "carol"
    assert users._question(9000)[1].result(LONG_S).name == "carol"


def test_what_the_last_agent_found_out_counts(directory: Directory) -> None:
    users = directory.users()
    users.learn(User(ALICE, "alice"))
    assert users.of(ALICE) == User(ALICE, "alice")
    directory.let.set()
    assert users._question(ALICE)[1].result(LONG_S).groups == {"people"}


def test_until_it_is_known_who_a_user_is_nothing_new_is_promised(
    directory: Directory, tmp_path: Path
) -> None:
    users = directory.users()
    path = tmp_path / "config.toml"
    path.write_text(RULES)
    file = read(path, Kind.SYSTEM)
    assert file
    rules = LimitRules(load({}, files=[file]), users=users)
    there = threading.Event()

    class Workloads:
        by_id: ClassVar[dict[str, object]] = {}
        on_owner: ClassVar[list[object]] = []

    enforcer = LimitEnforcer(None, {}, Workloads(), rules)  # type: ignore[arg-type]
    with pytest.raises(NotAllowed, match="user 7001 may have depends on its name and groups"):
        enforcer.check(ALICE, Share())
    users.on_found = lambda _: there.set()
    directory.let.set()
    assert there.wait(LONG_S)
    enforcer.found(users.of(ALICE))
    enforcer.check(ALICE, Share())
    users.wait_for(BOB, LONG_S)
    with pytest.raises(UserLimit):
        enforcer.check(BOB, Share())


def test_the_systems_own_tables_are_asked() -> None:
    assert ask_tables(0).name == "root"
    assert ask_tables(0).groups
    assert not ask_tables(4_000_000_000).is_listed


def test_what_takes_long_is_run_beside() -> None:
    def fails() -> None:
        raise ValueError("no")

    assert beside(lambda: 7).result(LONG_S) == 7
    with pytest.raises(ValueError, match="no"):
        beside(fails).result(LONG_S)


def test_a_command_finds_out_whether_a_user_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = Directory()
    assert [is_listed(name) for name in ("root", "0", "no-such-user", "9" * 30, "")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    monkeypatch.setattr("pwd.getpwnam", lambda _: directory.let.wait())
    assert is_listed("alice", 0.0), "a directory service that does not answer denies no user"
    directory.let.set()
