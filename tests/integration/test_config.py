"""`moiety config`, and settings of files in programs and agents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.model import errors
from moiety.testing.node import Node

MakeNode = Callable[[str], Node]


@pytest.fixture
def node(make_node: MakeNode, tmp_path: Path) -> Node:
    node = make_node("T4:memory=256MiB")
    node.env |= {"MOIETY_CONFIG": str(tmp_path / "config.toml"), "NO_COLOR": "1"}
    return node


def write(node: Node, text: str) -> None:
    Path(node.env["MOIETY_CONFIG"]).write_text(text)


def test_show_names_values_and_where_they_stand(node: Node) -> None:
    write(node, '[agent]\nturn-min = "50ms"\n[run]\ngpu = 0.25\n')
    node.env |= {"MOIETY_RUN_MODE": "managed", "MOIETY_AGENT_ARGS": "--linger 9s --turn-min 7ms"}
    shown = node.cli("config", "show", "--origin", "--changed")
    assert shown.returncode == 0, shown.stderr
    rows = [line.split() for line in shown.stdout.splitlines()[1:]]
    file = node.env["MOIETY_CONFIG"]
    assert [row for row in rows if row[0].partition(".")[0] in ("agent", "run")] == [
        ["agent.linger", "9s", "MOIETY_AGENT_ARGS"],
        ["agent.turn-min", "7ms", "MOIETY_AGENT_ARGS"],
        ["run.gpu", "0.25", f"{file}:4"],
        ["run.mode", "managed", "MOIETY_RUN_MODE"],
    ]
    as_json = json.loads(node.cli("config", "show", "-o", "json", "run.gpu").stdout)
    assert [(each["name"], each["value"], each["source"], each["where"]) for each in as_json] == [
        ("run.gpu", "0.25", "user", f"{file}:4")
    ]
    unknown = node.cli("config", "show", "agent.turnmin")
    assert (unknown.returncode, "agent.turn-min" in unknown.stderr) == (64, True)


def test_check_tells_all_that_is_wrong_and_its_exit_code(node: Node, tmp_path: Path) -> None:
    write(node, "[agent]\nturn-min = 1\n")
    good = node.cli("config", "check")
    assert (good.returncode, good.stdout) == (0, f"{node.env['MOIETY_CONFIG']}: good\n")
    other = tmp_path / "other.toml"
    other.write_text('[agent]\nturn-mni = 1\noverdue = "shout"\n')
    bad = node.cli("config", "check", str(other))
    assert (bad.returncode, bad.stdout) == (78, f"{other}: 2 wrong\n")
    assert f"{other}:2: agent.turn-mni: there is no such setting\n  try: turn-min" in bad.stderr
    assert f"{other}:3: agent.overdue: 'shout' is none of" in bad.stderr
    other.write_text('[users.root]\ngpu = 0.5\n[users.nobody-at-all]\ngpu = 0.5\n[users."4711"]\n')
    typo = node.cli("config", "check", str(other))
    assert (typo.returncode, typo.stdout) == (0, f"{other}: good\n")
    assert typo.stderr == (
        f"moiety: {other}:3: this machine has no user 'nobody-at-all': the section has no effect\n"
    )
    other.write_text("[agent")
    broken = node.cli("config", "check", str(other))
    assert broken.returncode == errors.BadConfigFile.exit_code


def test_what_a_file_says_reaches_programs_and_the_agent(node: Node) -> None:
    write(node, '[run]\ngpu = 0.25\nmemory-limit = "64MiB"\n[agent]\ncapacity = "128MiB"\n')
    with node:
        started = node.cli("run", "--gpu", "50%", "--", "true")
        assert started.returncode == 0, started.stderr
        status = json.loads(node.cli("status", "-o", "json").stdout)
        assert status["gpus"][0]["capacity_bytes"] == 128 << 20
        too_much = node.cli("run", "--memory-limit", "200MiB", "--", "true")
        assert (too_much.returncode, "128 MiB" in too_much.stderr) == (64, True)
        contradiction = node.cli("run", "--memory", "100MiB", "--", "true")
        assert (
            contradiction.returncode == errors.MemoryAboveLimit.exit_code
        )  # above the limit that the file sets
        node.cli("stop")


def test_a_damaged_file_starts_nothing_and_says_why(node: Node) -> None:
    write(node, '[agent]\nturn-min = "soon"\n')
    for command in (["agent", "start"], ["run", "--", "true"], ["agent", "start", "--foreground"]):
        refused = node.cli(*command)
        assert refused.returncode == errors.BadSetting.exit_code, command
        assert "config.toml:2: agent.turn-min: 'soon' is not a duration" in refused.stderr
    write(node, "[run]\nmode = 7\n")
    assert node.cli("run", "--", "true").returncode == errors.BadSetting.exit_code


def test_a_file_to_check_that_is_none_gets_its_own_advice(node: Node, tmp_path: Path) -> None:
    missing = node.cli("config", "check", str(tmp_path / "nosuch.toml"))
    assert missing.returncode == 78
    assert "nosuch.toml: it is not there\n  try: the path of a file that is there" in missing.stderr
    write(node, "[memory]\nwhen-full = wait\n")
    broken = node.cli("config", "check", node.env["MOIETY_CONFIG"])
    assert (broken.returncode, "it is not TOML" in broken.stderr) == (78, True)
    assert "texts have quotes" in broken.stderr, "not the command that has just been typed"
