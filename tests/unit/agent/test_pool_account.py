"""The account of a machine's pool is one of its own."""

from __future__ import annotations

import pwd

import pytest

from moiety.agent.system import pool_account
from moiety.model.errors import PoolAccountUnusable

DAEMON = next(each for each in pwd.getpwall() if each.pw_name == "daemon")
UNLISTED = 65020


def test_a_user_is_found_by_name_and_by_number() -> None:
    found = pool_account.find("daemon")
    assert (found.uid, found.gid) == (DAEMON.pw_uid, DAEMON.pw_gid)
    assert DAEMON.pw_gid in found.groups
    assert pool_account.find(str(DAEMON.pw_uid)) == found
    assert pool_account.uid_of("daemon") == DAEMON.pw_uid


def test_a_number_that_no_table_lists_is_one() -> None:
    found = pool_account.find(str(UNLISTED))
    assert (found.uid, found.gid, found.groups) == (UNLISTED, UNLISTED, ())


@pytest.mark.parametrize(
    "name", ["root", "0", "nobody", "65534", "no-such-user", "4294967295", "99999999999", "-1", ""]
)
def test_others_are_refused_and_trusted_by_no_agent(name: str) -> None:
    with pytest.raises(PoolAccountUnusable):
        pool_account.find(name)
    assert pool_account.uid_of(name) is None
