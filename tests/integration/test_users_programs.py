"""Unmodified programs of two users on one GPU, which its agent divides between them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from moiety.model import errors
from moiety.testing.waiting import until
from tests.support.users import ALICE, BOB, Raised, open_folder
from tests.support.users_programs import AGENT, MIB, WAIT, Setting

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users"),
    pytest.mark.slow,
]


@pytest.fixture
def setting(native: Path, programs: Path) -> Iterator[Setting]:
    with open_folder() as folder:
        made = Setting(folder, native, [programs / "worker"])
        with made.agent:
            yield made


def test_two_users_share_a_gpu_and_see_no_more_of_each_other_than_that(setting: Setting) -> None:
    with ExitStack() as stack:
        alice = stack.enter_context(setting.user(ALICE))
        bob = stack.enter_context(setting.user(BOB))
        # Given two programs that do not fit together
        for user in (alice, bob):
            setting.begin(user, "run", *setting.worker(60 * MIB, 1_000_000))
        rows = until(
            lambda: [r for r in setting.agent.ps() if r.evicted_bytes > 60 * MIB][1:], "turns"
        )
        assert rows
        # when one of them looks, it sees its own program, and that the other has one,
        looker = stack.enter_context(setting.user(BOB))
        code, out, err = setting.moiety(looker, "ps", "-o", "json")
        assert code == 0, err
        seen: dict[int, Any] = {row["uid"]: row for row in json.loads(out)}
        assert seen[BOB]["program"] == "worker"
        assert (seen[ALICE]["program"], seen[ALICE]["pid"]) == ("", 0)
        assert seen[ALICE]["allocated_bytes"] >= 60 * MIB
        # and cannot end the agent.
        code, _, err = setting.moiety(looker, "stop", "--force")
        assert code == errors.NotAllowed.exit_code
        assert "only root may end this agent" in err
        # Then both end with all their bytes as they should be.
        for user in (alice, bob):
            user.do("os.kill(pid, 10)")
        for user in (alice, bob):
            assert user.do(WAIT) == 0, setting.said(user, "err")
            assert f"shared by this machine's agent, {setting.agent.directory.path}" in (
                setting.said(user, "err")
            )


def test_an_agent_of_ones_own_leaves_the_systems_gpu_alone(setting: Setting) -> None:
    with setting.user(ALICE) as alice:
        alice.do(f"os.environ['XDG_RUNTIME_DIR'] = {str(setting.folder / 'out')!r}")
        code, _, err = setting.moiety(alice, "agent", "start", "--foreground")
        assert code == errors.GpuOwned.exit_code, err
        assert setting.agent.process
        assert f"pid {setting.agent.process.pid}, user root" in err
        assert "MOIETY_AGENT=system" in err


def test_an_agent_need_not_be_root(native: Path, programs: Path) -> None:
    with open_folder() as folder, ExitStack() as stack:
        setting = Setting(folder, native, [programs / "worker"])
        path = setting.agent.directory.path
        path.mkdir()
        os.chown(path, AGENT, AGENT)  # as a service manager makes it
        theirs = setting.user(AGENT)
        stack.enter_context(theirs)
        stack.callback(theirs.do, "os.kill(pid, 9)")
        setting.begin(theirs, "agent", "start", "--foreground", *setting.agent.arguments)
        until(setting.agent.directory.control.exists, "the agent")
        alice = stack.enter_context(setting.user(ALICE))
        bob = stack.enter_context(setting.user(BOB))
        for user in (alice, bob):
            setting.begin(user, "run", *setting.worker(60 * MIB, 1_000_000))
        rows = until(
            lambda: [r for r in setting.agent.ps() if r.evicted_bytes > 60 * MIB][1:], "turns"
        )
        assert rows
        looker = stack.enter_context(setting.user(BOB))
        workload = next(r for r in setting.agent.ps() if r.uid == ALICE).workload
        socket = str(setting.agent.directory.workloads / workload / "shim.sock")
        with pytest.raises(Raised, match="Permission"):
            looker.do(f"Shim({socket!r}, connect=False).connect(0)")
        code, _, err = setting.moiety(looker, "stop", "--force")
        assert code == errors.NotAllowed.exit_code
        assert f"only root and {AGENT} may end this agent" in err
        for user in (alice, bob):
            user.do("os.kill(pid, 10)")
        for user in (alice, bob):
            assert user.do(WAIT) == 0, setting.said(user, "err")
