"""Values that nobody expects, handed to commands that hand them to an agent, which goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from moiety.agent.system import cdi
from moiety.testing.node import Node
from tests.unit.cli.commands import HOSTILE, check_said, commands, long, options, outcome

MakeNode = Callable[[str], Node]
EVERY = dict(commands())
ASKED = {
    ("set",): ["hold"],
    ("watch",): ["--dry-run"],
    ("events",): [],
    ("ps",): [],
    ("trace",): [],
    ("run",): ["--", "sh"],
    ("container", "spec"): ["--name", "half"],
}
"""commands that hand values on, with what else they need"""
EXTREME = ("1e29s", "9" * 30 + "d", "9" * 25, "1ns", "8388607TiB", "1", "0", "9" * 18)


class Became(SystemExit):
    """What would have been run."""


@pytest.fixture
def node(
    make_node: MakeNode,
    programs: Path,
    kernels: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Node]:
    """One with an agent and a program that runs until it is ended; commands go to it."""

    def become(*_: object) -> NoReturn:
        raise Became(0)

    node = make_node("T4:memory=256MiB")
    node.start_agent("--linger", "0")
    program = [programs / "worker", kernels, str(16 << 20), "1000000", "0", "0", "7"]
    node.run(program, "--name", "hold")
    node.until(lambda: len(node.json("ps")) == 1, "the program is there")
    for name, value in node.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "execve", become)
    monkeypatch.setattr(cdi, "SYSTEM_DIR", tmp_path / "cdi")  # not what doctor looks at elsewhere
    monkeypatch.chdir(tmp_path)
    yield node
    log = (node.directory / "agent.log").read_text()
    assert [line for line in log.splitlines() if "Traceback" in line] == []
    assert len(node.json("ps")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("words", ASKED, ids=" ".join)
def test_no_value_of_an_option_harms_the_agent(
    node: Node, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    for option in options(EVERY[words]):
        if long(option) == "--follow":
            continue  # which goes on for as long as it says
        for value in (*HOSTILE, *EXTREME):
            typed = [*words, f"{long(option)}={value}", *ASKED[words]]
            check_said(typed, *outcome(typed, capsys))
            if words == ("set",):
                typed = ["set", "--agent", f"{long(option)}={value}"]
                check_said(typed, *outcome(typed, capsys))
    assert node.cli("status").returncode == 0


def test_no_name_of_a_program_harms_the_agent(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in HOSTILE:
        for typed in (
            ["set", "--priority", "low", "--", value],
            ["container", "rm", "--", value],
            ["events", "--of", value],
            ["run", "--", "sh", value],
            ["run", f"--name={value}", "--", "sh"],
        ):
            check_said(typed, *outcome(typed, capsys))
    assert node.cli("status").returncode == 0
