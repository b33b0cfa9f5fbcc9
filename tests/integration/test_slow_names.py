"""A directory of users that does not answer keeps nobody from their turns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.agent.system.paths import Directory
from moiety.agent.system.users import ask_tables
from moiety.testing.node import Node, signals_held
from tests.support.children import with_checkout
from tests.support.churn import Crowd
from tests.support.slow_names import VARIABLE

GPU = "A100-80:memory=64MiB,residue=1MiB,link=2GB/s"
OPTIONS = ("--turn-min", "2ms", "--turn-factor", "0", "--linger", "0", "--idle-exit", "0")


@pytest.mark.slow
def test_turns_go_on_while_nobody_can_say_who_a_user_is(native: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers"
    with Node(tmp_path, GPU, native=native) as node:
        log = (tmp_path / "agent-0.log").open("w")
        with log, signals_held():
            agent = subprocess.Popen(
                [sys.executable, "-m", "tests.support.slow_names", *OPTIONS],
                env=with_checkout({**node.env, VARIABLE: str(answers)}),
                stdout=log,
                stderr=log,
                text=True,
            )
            node.started.append(agent)
        node.until(lambda: node.is_ready(agent), "the agent is ready")
        directory = Directory(node.directory)
        Crowd(directory).pass_by(8)
        with Call(directory) as call:

            def name() -> str:
                return call.ask(protocol.Status(), protocol.NodeStatus).user

            assert name() == str(os.getuid()), "there is but the number"
            call.ask(protocol.Reload(), protocol.Reloaded)
            answers.touch()
            node.until(lambda: name() == ask_tables(os.getuid()).name, "the name is known")
