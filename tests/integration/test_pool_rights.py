"""Who may change what of which work, asked of a pool as each user."""

from __future__ import annotations

import json
import pwd
from pathlib import Path

from tests.support.served_pool import ask, served, submitted

ADMIN = pwd.getpwuid(0)
OWNER = pwd.getpwnam("daemon")
HEAD = pwd.getpwnam("bin")
OTHER = pwd.getpwnam("sys")


def test_only_administrators_raise_a_priority(tmp_path: Path) -> None:
    with served(tmp_path, OWNER.pw_uid) as (address, pool):
        pool.loop.must_serve = lambda _: None  # type: ignore[method-assign, assignment]
        file = {"projects": [{"name": "nlp", "admins": [HEAD.pw_name]}]}
        code, said = ask(address, "PUT", "/v1/projects", json.dumps(file).encode(), ADMIN.pw_uid)
        assert code == 200, said
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
