"""What holds for every command: -o json, examples, and bad input that is answered in words."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import NoReturn

import click
import pytest

from moiety.agent import process
from moiety.agent.control import client, refusals
from moiety.agent.control.options import FLAGS
from moiety.cli import agent as agent_command
from moiety.cli import container, jupyter, kube
from moiety.model import errors
from moiety.sim import tables
from tests.unit.cli.commands import HOSTILE, Words, check_said, commands, long, options, outcome

WITHOUT_JSON = {
    ("run",): "it becomes the program",
    ("trace",): "-o names the file of JSON that it writes",
    ("container", "spec"): "--output - prints the JSON",
    ("logs",): "it prints what a program has written",
    ("attach",): "it prints what a program writes",
    ("container", "hook"): "runtimes call it, and go by its exit code",
    ("agent", "unit"): "it prints a file",
    ("completion",): "it prints a script",
    ("help",): "for people only",
}
EVERY = dict(commands())
KNOWN = {name for command in EVERY.values() for each in command.params for name in each.opts}
KNOWN.add("--help")


def test_every_command_that_prints_something_prints_json() -> None:
    assert set(WITHOUT_JSON) <= set(EVERY)
    for words, command in EVERY.items():
        if words in WITHOUT_JSON or words[0] == "kube":  # those serve until they are ended
            continue
        found = [option for option in options(command) if "-o" in option.opts]
        assert found, f"{words} has no -o; if nothing of it is for a script, say so above"
        choices = found[0].type
        assert isinstance(choices, click.Choice), words
        assert "json" in choices.choices, words
        assert found[0].default in ("table", "text"), words


def test_events_of_refusals_name_commands_that_there_are() -> None:
    for named in refusals.ASKED.values():
        moiety, *words = named.split()
        while words and words[-1].startswith("-"):
            assert words.pop() in KNOWN, named
        assert (moiety, tuple(words) in EVERY) == ("moiety", True), named


def test_commands_below_others_show_examples_too() -> None:
    for words, command in EVERY.items():
        if not command.hidden and words[0] in ("agent", "config", "container", "jupyter", "sim"):
            assert command.epilog, words
            shown = "stop" if words[-1] == "stop" else " ".join(words)  # one command by two names
            assert f"moiety {shown}" in command.epilog.replace("agent stop", "stop"), words


class Started(SystemExit):
    """What would have been run, or an agent."""


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No agent, none that can be started, nothing that a command could become, and a trace."""

    def start(*_: object) -> NoReturn:
        raise errors.NoAgent(directory=str(tmp_path))

    def become(*_: object, **__: object) -> NoReturn:
        raise Started(0)

    for name in list(os.environ):
        if name.startswith(("MOIETY_", "XDG_", "JUPYTER")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MOIETY_DIR", str(tmp_path / "agent"))
    monkeypatch.setenv("MOIETY_CONFIG", "")
    monkeypatch.setenv("MOIETY_SIMGPU", "T4")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(client, "begin", start)
    monkeypatch.setattr(agent_command, "start_agent", start)
    monkeypatch.setattr(process, "main", become)
    monkeypatch.setattr(os, "execve", become)
    monkeypatch.setattr(kube, "must_have", become)  # what it serves is not tried here
    (tmp_path / "home").mkdir()
    trace = tmp_path / "trace"
    trace.mkdir()
    (trace / "nodes.csv").write_text("name,cpu_milli,memory_mib,gpus\nn,9000,9000,2\n")
    (trace / "jobs.csv").write_text(
        "name,cpu_milli,memory_mib,gpus,arrival_s,duration_s\na,1,1,1,0,1\nb,1,1,2,1,1\n"
    )
    queue = {"name": "q", "parent": None, "created": 0, "priority": 100, "quota_gpus": 2}
    node = {"name": "n", "gpus": 2, "gpu_memory_mib": 9, "cpu_milli": 9, "memory_bytes": 9}
    job = {"name": "j", "queue": "q", "gpus_per_task": 3, "tasks": [{"state": "pending"}]}
    case = {"name": "c", "nodes": [node], "queues": [queue], "jobs": [job]}
    (tmp_path / "cases.json").write_text(json.dumps([case]))
    monkeypatch.setattr(tables, "PACKAGED", trace)  # replays take seconds of it
    monkeypatch.chdir(tmp_path)
    return tmp_path


ARGUMENTS: dict[Words, list[str]] = {
    ("run",): ["--", "sh"],
    ("set",): ["1"],
    ("inspect",): ["1"],
    ("kill",): ["1"],
    ("wait",): ["1"],
    ("gpu", "drain"): ["0"],
    ("gpu", "resume"): ["0"],
    ("container", "rm"): ["half"],
    ("container", "check"): ["/"],
    ("container", "spec"): ["--name", "half"],
    ("sim", "run"): ["trace", "--live"],
    ("sim", "compare"): ["trace"],
    ("sim", "scenario"): ["cases.json"],
    ("sim", "explain"): ["cases.json", "j"],
    ("sim", "what-if"): ["cases.json", "--queue", "q"],
    ("jupyter", "install"): ["--python", "true"],
    ("slurm", "install"): ["bin"],
    ("slurm", "check"): ["job.sh"],
    ("completion",): ["bash"],
}
"""with which a command would do something"""


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("words", [w for w, c in EVERY.items() if any(options(c))], ids=" ".join)
def test_no_value_of_an_option_is_answered_with_a_traceback(
    capsys: pytest.CaptureFixture[str], words: Words
) -> None:
    of_agent = {flag.field for flag in FLAGS} if words == ("agent", "unit") else set()
    for option in options(EVERY[words]):
        if option.name in of_agent:
            continue  # tried at `agent start`
        for value in HOSTILE:
            typed = [*words, f"{long(option)}={value}", *ARGUMENTS.get(words, [])]
            code, said = outcome(typed, capsys)
            check_said(typed, code, said)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_no_argument_is_answered_with_a_traceback(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: Words,
) -> None:
    monkeypatch.setattr(jupyter, "_require_ipykernel", lambda _: None)
    for value in HOSTILE:
        for typed in ([*words, value], [*words, "--", value], [*words, value, value]):
            check_said(typed, *outcome(typed, capsys))


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("typed", "error", "hint"),
    [
        ("run", errors.BadArgument, "Try 'moiety run --help'"),
        ("run --memory x -- sh", errors.InvalidSize, "--memory: 'x' is not a size"),
        ("run --gpu 0.5 --gpu-limit 0.3 -- sh", errors.RequestAboveLimit, "--gpu 0.3 or less"),
        ("run --exclusive --gpu 0.5 -- sh", errors.BadArgument, "try: --exclusive, or --gpu"),
        ("run --gang-size 3 -- sh", errors.InvalidGang, "try: --gang NAME"),
        ("set", errors.BadArgument, "try: moiety set --help"),
        ("kill 1 -s NONE", errors.BadArgument, "'NONE' is not one of"),
        ("ps --sort size", errors.BadArgument, "'size' is not one of"),
        ("wait 1 --timeout x", errors.InvalidDuration, "--timeout: 'x' is not a duration"),
        ("set --agent", errors.BadArgument, "try: --turn-min 200ms"),
        ("set 1 --turn-min 3s", errors.BadArgument, "try: moiety set --help"),
        (
            "set 1 --priority urgent",
            errors.InvalidPriority,
            "--priority: there is no priority 'urgent'",
        ),
        ("top --interval 1ms", errors.BadArgument, "try: --interval 100ms"),
        ("events --reason x", errors.BadArgument, "'x' is not one of AgentStarted, AgentStopped"),
        ("submit --signal USR1 -- true", errors.BadArgument, "try: --time 2h --signal USR1@60"),
        ("events --since x", errors.InvalidDuration, "--since: 'x' is not a duration"),
        ("watch --limit x", errors.BadArgument, "try: --dry-run --limit x"),
        ("container spec", errors.BadArgument, "Missing option '--name'"),
        ("container spec --name A", errors.BadArgument, "try: --name half, say"),
        (
            "container spec --name a --memory 3 --memory-limit 2",
            errors.MemoryAboveLimit,
            "--memory 2 or less",
        ),
        ("container frob", errors.BadArgument, "Try 'moiety container --help'"),
        ("agent start --turn-min x", errors.BadArgument, "--turn-min: 'x' is not a duration"),
        ("agent start --overdue x", errors.BadArgument, "try: moiety agent start --help"),
        ("agent unit --gpus x", errors.BadArgument, "try: moiety agent unit --help"),
        ("config show turn-min", errors.BadArgument, "try: agent.turn-min"),
        ("config check /proc/nowhere", errors.BadConfigFile, "/proc/nowhere"),
        ("sim run trace --faster 2", errors.BadArgument, "try: --live --faster 10"),
        ("sim run trace --plot x.txt", errors.BadArgument, "try: one that ends in"),
        ("jupyter install --name ../x", errors.BadArgument, "try: --name with letters"),
        ("jupyter install --like nosuch", errors.BadArgument, "try: jupyter kernelspec list"),
        ("completion tcsh", errors.BadArgument, "Try 'moiety completion --help'"),
        ("help frob", errors.BadArgument, "No such command 'frob'"),
        ("stauts", errors.BadArgument, "Did you mean status"),
    ],
)
def test_an_error_of_usage_names_what_there_is(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    error: type[errors.MoietyError],
    hint: str,
) -> None:
    found, said = outcome(typed.split(), capsys)
    assert (found, hint in said) == (error.exit_code, True), said
    monkeypatch.setenv("MOIETY_ERRORS", "json")
    told = json.loads(outcome(typed.split(), capsys)[1])
    assert (told["error"], told["exit_code"]) == (error.__name__, found)
    assert told["try"]
    for name in re.findall(r"(?<![\w-])--[a-z][a-z-]*", said.partition("try: ")[2]):
        assert name in KNOWN, name


@pytest.mark.usefixtures("alone")
def test_what_refuses_itself_without_a_hint_names_the_help_of_its_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise errors.InvalidValue("it makes no sense")

    monkeypatch.setattr(container, "check", refuse)
    found = outcome(["--color", "never", "container", "check", "/"], capsys)
    assert found == (64, "moiety: it makes no sense\n  try: moiety container check --help\n")
