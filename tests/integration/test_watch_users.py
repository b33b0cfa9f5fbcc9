"""Whose processes the watch ends: its own user's, unless it is root's; and who hears of it."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.agent.core.journal_events import Event
from moiety.testing.waiting import until
from tests.support.users import ALICE, BOB, OtherUser, open_folder
from tests.support.users_programs import AGENT, MIB, WAIT, Setting

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users"),
    pytest.mark.slow,
]
LADDER = ["--watch-every", "200ms", "--watch-unregistered", "event,1s,kill"]
STRAY = """
pid = os.fork()
if pid == 0:
    os.environ["LD_LIBRARY_PATH"] = {libraries!r}
    os.execv({command[0]!r}, {command!r})
"""


def stray(setting: Setting, user: OtherUser) -> int:
    """A program of a user that does not share the GPU; returns its pid."""
    libraries = str(setting.folder / "native" / "simgpu")
    command = setting.worker(20 * MIB, 1_000_000)
    user.do(STRAY.format(libraries=libraries, command=command))
    return int(user.do("pid"))


def reasons(setting: Setting) -> dict[str, Event]:
    with setting.agent.call() as call:
        return {e.reason: e for e in call.ask(protocol.Events(), protocol.Happened).events}


def test_root_ends_anybodys_and_tells_whose_it_was(native: Path, programs: Path) -> None:
    with open_folder() as folder, ExitStack() as stack:
        setting = Setting(folder, native, [programs / "worker"])
        setting.agent.arguments += LADDER
        stack.enter_context(setting.agent)
        alice, bob = (stack.enter_context(setting.user(uid)) for uid in (ALICE, BOB))
        pid = stray(setting, bob)
        assert bob.do(WAIT) == -9
        found = until(lambda: "Killed" in (r := reasons(setting)) and r, "the event")
        assert (found["Killed"].pid, found["Killed"].uid) == (pid, BOB)
        assert f"(user {BOB})" in found["Unregistered"].message
        assert found["Unregistered"].program == "worker"
        for user, told in ((bob, ["Unregistered", "Killed"]), (alice, [])):
            code, out, err = setting.moiety(user, "events", "-o", "json", "--of", str(pid))
            assert code == 0, err
            # That it is over may have been noticed by now, or not yet.
            assert [json.loads(line)["reason"] for line in out.splitlines()][:2] == told
        code, _, err = setting.moiety(alice, "watch")
        assert code != 0
        assert "only root may see who uses GPUs without moiety" in err


def test_an_agent_of_another_user_spares_it_and_says_why(native: Path, programs: Path) -> None:
    with open_folder() as folder, ExitStack() as stack:
        setting = Setting(folder, native, [programs / "worker"])
        path = setting.agent.directory.path
        path.mkdir()
        os.chown(path, AGENT, AGENT)
        theirs = stack.enter_context(setting.user(AGENT))
        stack.callback(theirs.do, "os.kill(pid, 9)")
        arguments = [*setting.agent.arguments, *LADDER]
        setting.begin(theirs, "agent", "start", "--foreground", *arguments)
        until(setting.agent.directory.control.exists, "the agent")
        bob = stack.enter_context(setting.user(BOB))
        stray(setting, bob)
        stack.callback(bob.do, "os.kill(pid, 9)")
        spared = until(lambda: reasons(setting).get("Spared"), "the event")
        assert spared.message.startswith(f"it is user {BOB}'s; only an agent of root ends")
        assert bob.do("os.waitpid(pid, os.WNOHANG)[0]") == 0
        assert "Killed" not in reasons(setting)
