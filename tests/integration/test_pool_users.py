"""A pool of all users of a machine: each one's work runs as that user, and is that user's alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from moiety.agent.system.paths import Directory
from moiety.pool.model.states import WorkState
from tests.support.pool_node import PoolNode
from tests.support.users import ALICE, BOB, open_folder
from tests.support.users_programs import Setting

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users"),
    pytest.mark.slow,
]


@pytest.fixture
def setting(native: Path) -> Iterator[Setting]:
    with open_folder() as folder:
        made = Setting(folder, native, [])
        shutil.copy(native / "moiety-supervisor", folder / "native")
        with made.agent:
            yield made


def as_root(setting: Setting, *words: str) -> str:
    """A command of the administrator."""
    done = subprocess.run(
        [sys.executable, "-m", "moiety", *words],
        env={**os.environ, **setting.agent.environment, "FORWARDED_ALLOW_IPS": "*"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


FORGED = """
from moiety.pool.client import PoolClient
connection = PoolClient()._connection
connection.request("POST", {path!r}, {body!r}, {{"X-Forwarded-For": "0"}})
status = connection.getresponse().status
"""
"""A request that no command sends."""
BEYOND = """
{"program": "/bin/true", "argv": ["true"], "cwd": "/", "rlimits": {"RTPRIO": [99, 99]}}
"""


def test_work_runs_as_its_user_and_is_that_users_alone(setting: Setting) -> None:
    pool = PoolNode.of(Directory(setting.folder / "s", shared=True))
    with ExitStack() as stack:
        stack.callback(pool.close)
        assert "is up" in as_root(setting, "up")
        alice, bob = (stack.enter_context(setting.user(uid)) for uid in (ALICE, BOB))
        out = setting.folder / "out"
        code, said, err = setting.moiety(
            alice, "submit", "--name", "secret", "--log", f"{out}/%j.log", "--",
            "/bin/sh", "-c", "id -u; echo $MOIETY_SOCKET",
        )  # fmt: skip
        assert (code, said) == (0, "submitted workload 1\n"), err
        row = pool.ended(1)
        assert (row.state, row.uid) == (WorkState.DONE, ALICE), row.reason
        uid, socket = (out / "1.log").read_text().split()
        assert uid == str(ALICE)
        assert socket.startswith(str(setting.folder / "s"))
        assert (out / "1.log").stat().st_uid == ALICE

        code, said, err = setting.moiety(bob, "history", "-o", "json")
        assert code == 0, err
        (seen,) = json.loads(said)
        assert (seen["name"], seen["command"], seen["stdout"]) == ("", "", "")
        code, _, err = setting.moiety(bob, "logs", "1")
        assert (code, "workload 1 is of" in err) == (77, True), err
        code, *_ = setting.moiety(alice, "submit", "-q", "--hold", "--gpus", "0", "--", "/bin/true")
        assert code == 0
        for act in ("cancel", "release", "hold"):
            code, _, err = setting.moiety(bob, act, "2")
            assert (code, "you may not" in err) == (77, True), err
        assert setting.moiety(alice, "cancel", "2")[0] == 0
        code, _, err = setting.moiety(alice, "submit", "--priority", "1", "--", "/bin/true")
        assert (code, "only root may give work a priority above 0" in err) == (77, True), err
        code, _, err = setting.moiety(bob, "cancel", "secret")
        assert (code, "the pool has no workload secret" in err) == (66, True), err
        for path, body, status in (("/v1/stop", "", 403), ("/v1/workloads", BEYOND, 400)):
            bob.do(FORGED.format(path=path, body=body))
            assert bob.do("status") == status, path
        code, _, err = setting.moiety(bob, "down")
        assert (code, "only root may end the pool" in err) == (77, True), err
        assert "the pool is down" in as_root(setting, "down")
