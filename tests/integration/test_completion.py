"""What a shell is told when somebody presses TAB, and colours."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.model import errors
from moiety.testing.node import Node

MakeNode = Callable[[str], Node]


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    return make_node("T4:memory=256MiB")


@pytest.fixture
def words(node: Node) -> Callable[..., list[str]]:
    """What completes the last word, as bash is told."""

    def complete(*typed: str) -> list[str]:
        line = ["moiety", *typed]
        asked = subprocess.run(
            [sys.executable, "-m", "moiety"],
            env=node.env
            | {
                "_MOIETY_COMPLETE": "bash_complete",
                "COMP_WORDS": "\n".join(line),
                "COMP_CWORD": str(len(line) - 1),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert asked.stderr == ""
        return [line.partition(",")[2] for line in asked.stdout.splitlines() if line]

    return complete


def test_commands_options_and_values_are_completed(words: Callable[..., list[str]]) -> None:
    assert words("st") == ["status", "stop"]
    assert words("config", "sh") == ["show"]
    assert "--memory-limit" in words("run", "--mem")
    assert words("run", "--priority", "h") == ["high"]
    assert words("agent", "start", "--overdue", "") == ["report", "fence", "kill"]
    assert words("set", "--agent", "--overdue", "k") == ["kill"]
    assert words("config", "show", "agent.turn-m") == ["agent.turn-min"]
    assert words("ps", "-o", "w") == ["wide"]
    assert words("completion", "") == ["bash", "zsh", "fish"]
    assert words("help", "ev") == ["events"]
    assert words("help", "agent", "st") == ["start", "status", "stop"]


def test_programs_of_the_search_path_and_files_are_completed(
    words: Callable[..., list[str]], node: Node, tmp_path: Path
) -> None:
    program = tmp_path / "xyzzy-train"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "xyzzy-notes").write_text("")
    node.env["PATH"] += f":{tmp_path}:/nowhere"
    assert words("run", "--gpu", "0.5", "xyzzy") == ["xyzzy-train"]
    assert words("run", "--", "./x") == ["./x"]  # the shell completes it as a file


def test_programs_that_share_are_completed_and_no_agent_is_started(
    words: Callable[..., list[str]], node: Node, programs: Path, kernels: Path
) -> None:
    assert words("set", "") == []
    assert not node.directory.joinpath("control.sock").exists()
    with node:
        node.start_agent()
        for name in ("chat", "twin", "twin"):
            node.run([programs / "worker", kernels, 1 << 20, 10**6, 1, 50, 7], "--name", name)
        node.until(lambda: len(node.json("ps")) == 3, "three programs share")
        numbers = sorted(str(row["tenant"]) for row in node.json("ps"))
        assert words("set", "") == ["chat", *numbers]
        assert words("events", "--of", "ch") == ["chat"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_real_shell_can_read_the_script(node: Node, shell: str, tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(node.cli("completion", shell).stdout)
    read = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")


def test_bash_completes_a_line_with_it(node: Node, tmp_path: Path) -> None:
    command = tmp_path / "moiety"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m moiety "$@"\n')
    command.chmod(0o755)
    source = """
eval "$(moiety completion bash)"
complete -p moiety
COMP_WORDS=(moiety agent sta); COMP_CWORD=2
_moiety_completion moiety
echo "${COMPREPLY[@]}"
"""
    env = node.env | {"PATH": f"{tmp_path}:{node.env['PATH']}"}
    said = subprocess.run(["bash", "-c", source], env=env, capture_output=True, text=True)
    assert said.stdout.splitlines()[-1] == "start status"


def test_every_script_is_there_without_its_shell(node: Node) -> None:
    for shell in ("bash", "zsh", "fish"):
        made = node.cli("completion", shell)
        assert (made.returncode, "_MOIETY_COMPLETE" in made.stdout) == (0, True)
    refused = node.cli("completion", "tcsh")
    assert (refused.returncode, "tcsh" in refused.stderr) == (64, True)


ESCAPE = "\x1b["


def test_colours_are_where_somebody_wants_them(node: Node, tmp_path: Path) -> None:
    """Nobody's terminal: only who says so gets any."""
    node.env.pop("NO_COLOR", None)
    file = tmp_path / "config.toml"
    node.env["MOIETY_CONFIG"] = str(file)
    file.write_text("")

    def coloured(*arguments: str, **environment: str) -> bool:
        node.env |= environment
        shown = node.cli(*arguments, "config", "show", "cli.color")
        assert shown.returncode == 0, shown.stderr
        for name in environment:
            del node.env[name]
        return ESCAPE in shown.stdout

    assert not coloured()
    assert coloured("--color", "always")
    assert coloured("--color=always", NO_COLOR="1")
    assert coloured(MOIETY_COLOR="always")
    assert coloured(MOIETY_COLOR="always", NO_COLOR="1")
    assert not coloured("--color=never", MOIETY_COLOR="always")
    file.write_text('[cli]\ncolor = "always"\n')
    assert coloured()
    assert not coloured(NO_COLOR="1")
    assert coloured(NO_COLOR="")


def test_help_by_name_is_help_by_flag(node: Node) -> None:
    for words in (["run"], ["config", "show"], ["agent", "start"]):
        by_flag = node.cli(*words, "--help").stdout
        assert node.cli("help", *words).stdout == by_flag
        assert by_flag.startswith(f"Usage: moiety {' '.join(words)}")
    assert "Commands:" in node.cli("help").stdout
    for wrong in (["hlep"], ["help", "rnu"], ["help", "run", "more"], ["config", "shwo"]):
        refused = node.cli(*wrong)
        assert refused.returncode == errors.BadArgument.exit_code
    assert "Did you mean run?" in node.cli("help", "rnu").stderr


def test_what_is_for_programs_is_json(node: Node) -> None:
    assert set(node.json("version")) == {"version", "protocol"}
    assert node.json("config", "check") == {"files": [], "problems": [], "notes": []}
    assert node.json("ps") == []
