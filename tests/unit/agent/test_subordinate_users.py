"""User ids of a range in /etc/subuid count as their owner's, wherever limits count."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control.limits import LimitEnforcer, LimitRules
from moiety.agent.core.rate_limits import RateLimits, TokenRate, UserQuota
from moiety.agent.system.subordinate_users import (
    LOOK_S,
    MOST_BYTES,
    SubordinateUsers,
    parse,
    unchanged,
)
from moiety.agent.system.users import User, Users
from moiety.arbiter import events as ev
from moiety.arbiter.settings import Settings
from moiety.config.files import read
from moiety.config.load import load
from moiety.config.places import Kind
from moiety.model.errors import UserLimit
from moiety.model.share import Share
from moiety.testing.waiting import until
from tests.support.liar import Liar
from tests.support.virtual_agent import World

ALICE, BOB, SUB = 65001, 65002, 200_000


def of_alice(uid: int) -> int:
    """The user who accounts for a user."""
    return ALICE if SUB <= uid < SUB + 100 else uid


@pytest.mark.parametrize(
    ("lines", "ranges"),
    [
        (["65001:200000:10"], [(200_000, 200_010, ALICE)]),
        (["root:1:10", "0:300:5"], []),
        (["nobody-has-this-name:200000:10"], []),
        (["65001:0:10", "65001:5:0", "65001:x:1", "65001:1", "65001:-1:5", "a:b:c:d", ""], []),
        (["65001:4294967290:65536"], [(4_294_967_290, 4_294_967_295, ALICE)]),
        (["65001:99999999999999999999:1", "99999999999:5:5", f"{'9' * 5000}:1:1"], []),
        (["65002:30:10", "65001:25:10"], [(25, 35, ALICE), (35, 40, BOB)]),
        (["65001:10:100", "65002:20:10"], [(10, 110, ALICE)]),
    ],
)
def test_a_range_has_an_owner_and_bad_lines_have_none(
    lines: Iterable[str], ranges: list[tuple[int, int, int]]
) -> None:
    assert parse("\n".join(lines)) == ranges


def test_a_name_is_looked_up() -> None:
    assert parse("daemon:500:5")[0][:2] == (500, 505)


class Clock:
    """A clock that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file, clock = tmp_path / "subuid", Clock()
    users = SubordinateUsers(file, clock)
    assert users.owner_of(SUB) == SUB, "there is no file"
    file.write_text(f"65001:{SUB}:10\n")
    assert users.owner_of(SUB) == SUB
    clock.now_s += LOOK_S
    users.owner_of(SUB)
    until(lambda: users.owner_of(SUB) == ALICE, "the file to be read")
    assert [users.owner_of(uid) for uid in (0, ALICE, SUB - 1, SUB + 9, SUB + 10)] == [
        0,
        ALICE,
        SUB - 1,
        ALICE,
        SUB + 10,
    ]
    os.unlink(file)
    clock.now_s += LOOK_S
    users.owner_of(SUB)
    until(lambda: users.owner_of(SUB) == SUB, "the file to be gone")


def test_what_is_there_at_the_start_counts_at_once_and_of_a_huge_file_a_part(
    tmp_path: Path,
) -> None:
    file = tmp_path / "subuid"
    first = f"65001:{SUB}:10\n"
    file.write_text(first + "#" * MOST_BYTES + f"\n65002:{2 * SUB}:10\n")
    users = SubordinateUsers(file)
    assert (users.owner_of(SUB), users.owner_of(2 * SUB)) == (ALICE, 2 * SUB)


def test_what_users_of_one_owner_have_counts_together() -> None:
    tally = UserQuota(each=2, together=9, what="things", account_of=of_alice)
    tally.take(SUB)
    tally.take(SUB + 1)
    for uid in (ALICE, SUB, SUB + 2):
        assert tally.refuse(uid) == "65001 has 2 things, which is the limit of one user"
    assert tally.refuse(BOB) == ""
    tally.account_of = unchanged  # the file changed
    tally.give(SUB)
    tally.give(SUB + 1)
    assert not tally.counts
    assert tally.whole == 0


def test_they_spend_one_rate() -> None:
    rate = TokenRate(10.0, burst_s=1.0, account_of=of_alice)
    assert [rate.spend(SUB + number, 0.0) for number in range(10)] == [0.0] * 10
    assert rate.spend(ALICE, 0.0) > 0
    assert rate.spend(BOB, 0.0) == 0
    assert RateLimits(account_of=of_alice).turns.account_of is of_alice


def test_the_memory_of_all_counts_against_the_owners_limit() -> None:
    with World(Random(1), Settings(1000)) as here:
        here.account_of = of_alice
        agent = here.start_agent(shared=True)
        agent.runtime.feed(ev.UserLimitsSet({ALICE: (5, "alice may have")}))
        each = [Liar(here, uid=uid) for uid in (SUB, SUB + 1, ALICE, BOB)]
        for process in each:
            process.attach()
            process.alloc(3)
        assert [bool(process.refusals) for process in each] == [False, True, True, False]
        assert [client.uid for client in agent.clients.by_number.values()] == [
            SUB,
            SUB + 1,
            ALICE,
            BOB,
        ]


def test_their_shares_are_the_owners(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[users.65001]\nworkloads = 1\nmemory = "5GiB"\n')
    file = read(path, Kind.SYSTEM)
    assert file
    record = SimpleNamespace(uid=SUB, share=Share(), promised=Share())
    workloads: Any = SimpleNamespace(
        by_id={"a": SimpleNamespace(record=record)}, on_owner=[], divide=lambda _: None
    )
    told: list[ev.Event] = []
    runtime: Any = SimpleNamespace(feed=told.append)
    clients: Any = {1: SimpleNamespace(account=ALICE, uid=SUB)}
    users = Users(lambda uid: User(uid, str(uid), is_listed=False))
    users.wait_for(BOB)
    rules = LimitRules(load({}, files=[file]), exempt=frozenset({ALICE}), users=users)
    enforcer = LimitEnforcer(runtime, clients, workloads, rules, of_alice)
    for uid in (ALICE, SUB + 5):
        with pytest.raises(UserLimit):
            enforcer.check(uid, Share())
    enforcer.check(BOB, Share())
    enforcer._apply(SUB)
    (limits,) = told
    assert isinstance(limits, ev.UserLimitsSet)
    assert {uid: most for uid, (most, _) in limits.limits.items()} == {ALICE: 5 << 30}
