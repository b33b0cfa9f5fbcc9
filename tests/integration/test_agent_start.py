"""Agents that die while commands start them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moiety.agent.control import client, protocol
from moiety.agent.control.client import Call
from moiety.model import errors
from tests.support.foreground import AgentProcess

DIES = """
import os, pathlib, signal, sys
left = pathlib.Path({left!r})
if "moiety.agent" in sys.orig_argv and (count := int(left.read_text())) > 0:
    left.write_text(str(count - 1))
    for pid in ({pids}):
        os.kill(pid, signal.SIGKILL)
"""
"""Python runs this before anything else: so an agent dies that is about to start."""
ALONE, WITH_SUPERVISOR = "os.getpid(),", "os.getppid(), os.getpid()"


class Dying:
    """Agents of which some die while they start."""

    def __init__(self, folder: Path, agent: AgentProcess) -> None:
        self.agent = agent
        self._folder = folder / "site"
        self._folder.mkdir()
        self._left = folder / "left"
        self.path = os.pathsep.join([str(self._folder), agent.environment["PYTHONPATH"]])

    def expect(self, times: int, pids: str = ALONE) -> None:
        """The next agents die, this many."""
        self._left.write_text(str(times))
        source = DIES.format(left=str(self._left), pids=pids)
        (self._folder / "sitecustomize.py").write_text(source)

    @property
    def left(self) -> int:
        """How many are still to die."""
        return int(self._left.read_text())


@pytest.fixture
def dying(tmp_path: Path, background: AgentProcess, monkeypatch: pytest.MonkeyPatch) -> Dying:
    made = Dying(tmp_path, background)
    monkeypatch.setenv("PYTHONPATH", made.path)
    return made


def test_an_agent_that_is_killed_while_it_starts_is_started_again(dying: Dying) -> None:
    dying.expect(3)
    client.start(dying.agent.directory, [])
    dying.agent.call().close()
    assert dying.left == 0


def test_so_is_one_that_is_killed_together_with_its_supervisor(dying: Dying) -> None:
    dying.expect(2, WITH_SUPERVISOR)
    client.call_or_start(dying.agent.directory, []).close()
    assert dying.left == 0


def test_one_that_always_dies_is_given_up(dying: Dying) -> None:
    dying.expect(100, WITH_SUPERVISOR)
    with pytest.raises(errors.AgentSilent, match="it ended at once"):
        client.call_or_start(dying.agent.directory, [])
    assert dying.left == 100 - client.STARTS


def test_an_agent_that_is_killed_before_it_answers_is_asked_again(dying: Dying) -> None:
    dying.expect(0)
    killed: list[int] = []

    def ask(call: Call) -> int:
        if not killed:
            killed.append(call.agent.pid)
            os.kill(call.agent.pid, signal.SIGKILL)
        call.ask(protocol.Ping(), protocol.Done)
        return call.agent.pid

    assert client.ask_or_start(dying.agent.directory, [], ask) not in killed
    assert killed


def test_a_program_runs_although_its_agent_dies_while_it_starts(dying: Dying) -> None:
    dying.expect(2, WITH_SUPERVISOR)
    command = [sys.executable, "-m", "moiety", "run", "--no-check", "--", "/bin/echo", "ran"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.returncode) == ("ran\n", 0), done.stderr
