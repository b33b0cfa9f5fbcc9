"""What is wrong is said in a sentence, with an exit code: input, directories, other versions."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from moiety.agent.system.paths import prepare
from moiety.model import errors
from tests.support.command_line import Cli

GIB = 1 << 30


BAD_RUNS: list[tuple[str, list[str], type[errors.MoietyError], str]] = [
    ("a size that is none", ["--memory-limit", "banana", "true"], errors.InvalidSize, "'banana'"),
    ("a limit of nothing", ["--memory-limit", "0", "true"], errors.InvalidSize, "no memory at all"),
    ("a negative limit", ["--memory-limit", "-1GiB", "true"], errors.InvalidSize, "negative"),
    ("a unit that is none", ["--capacity", "3 apples", "true"], errors.InvalidSize, "apples"),
    ("no program", [], errors.BadArgument, "PROGRAM"),
    ("an option that is none", ["--banana", "true"], errors.BadArgument, "--banana"),
    ("a program that is not there", ["no-such-program"], errors.ProgramNotFound, "not found"),
    ("a path that is not there", ["./no/such/program"], errors.ProgramNotFound, "not found"),
    ("an empty name", [""], errors.ProgramNotFound, "not found"),
    ("a directory", ["/tmp"], errors.ProgramNotExecutable, "directory"),
    ("a device", ["/dev/null"], errors.ProgramNotExecutable, "neither a program"),
    ("a file that is no program", ["/etc/passwd"], errors.ProgramNotExecutable, "executed"),
    (
        "more than a whole GPU",
        ["--gpu", "1.7", "true"],
        errors.InvalidFraction,
        "more than a whole GPU",
    ),
    ("nothing of a GPU", ["--gpu", "0", "true"], errors.InvalidFraction, "is nothing"),
    ("a part that is none", ["--gpu", "half", "true"], errors.InvalidFraction, "'half'"),
    (
        "a limit of nothing at all",
        ["--gpu-limit", "0", "true"],
        errors.InvalidFraction,
        "is nothing",
    ),
    (
        "less than asked for",
        ["--gpu", "0.5", "--gpu-limit", "0.3", "true"],
        errors.RequestAboveLimit,
        "at most 30 %",
    ),
    (
        "less memory",
        ["--memory", "2GiB", "--memory-limit", "1GiB", "true"],
        errors.MemoryAboveLimit,
        "at most 1 GiB",
    ),
    (
        "more kept than any GPU has",
        ["--memory", "15GiB", "true"],
        errors.MemoryAboveGpu,
        "--memory 14080MiB or less",
    ),
    (
        "a class that is none",
        ["--priority", "urgent", "true"],
        errors.InvalidPriority,
        "low, normal, high",
    ),
    (
        "more than any GPU has",
        ["--memory-limit", "900GiB", "true"],
        errors.LimitAboveCapacity,
        "13.75 GiB",
    ),
    (
        "more than there is to share",
        ["--capacity", "900GiB", "true"],
        errors.CapacityAboveGpu,
        "16 GiB",
    ),
    (
        "more than can be shared",
        ["--capacity", "15GiB", "true"],
        errors.CapacityAboveGpu,
        "13.75 GiB",
    ),
    ("less than can be used", ["--capacity", "1MiB", "true"], errors.BadArgument, "2 MiB"),
]


@pytest.mark.parametrize(
    ("what", "arguments", "error", "says"), BAD_RUNS, ids=[b[0] for b in BAD_RUNS]
)
def test_bad_input_is_refused_with_a_sentence(
    cli: Cli, what: str, arguments: list[str], error: type[errors.MoietyError], says: str
) -> None:
    found = cli("run", *arguments, MOIETY_ERRORS="json")
    assert found.returncode == error.exit_code, what
    told = json.loads(found.stderr)
    assert (told["error"], told["exit_code"]) == (error.__name__, error.exit_code)
    assert says in told["what"] + told["try"]
    assert found.stdout == ""


def test_an_error_is_two_lines_for_people(cli: Cli) -> None:
    found = cli("run", "--gpu", "half", "true")
    first, second = found.stderr.splitlines()
    assert first == "moiety: --gpu: 'half' is not a part of a GPU"
    assert second.startswith("  try: ")


def test_another_capacity_than_that_of_the_running_agent_is_refused(cli: Cli) -> None:
    assert cli("run", "--capacity", "4GiB", "--", "true").returncode == 0
    assert cli("run", "--", "true").returncode == 0
    found = cli("run", "--capacity", "5GiB", "--", "true")
    assert found.returncode == errors.CapacityMismatch.exit_code
    assert "4 GiB" in found.stderr
    assert "5 GiB" in found.stderr


def test_a_debugged_error_shows_where(cli: Cli) -> None:
    assert "Traceback" in cli("run", "--", "no-such", MOIETY_DEBUG="1").stderr


def test_an_agent_of_another_version_answers(cli: Cli) -> None:
    cli.agent.start()
    try:
        source = (
            "import moiety.version; moiety.version.__version__ = '9.9.9';"
            "from moiety.cli.main import main; main(['ps'])"
        )
        found = subprocess.run(
            [sys.executable, "-c", source], env=cli.environment, capture_output=True, text=True
        )
        assert found.returncode == 0, found.stderr
    finally:
        cli.agent.kill()


@pytest.mark.parametrize("says", [b"good morning\n", b'{"is":"done"}\n'])
def test_whoever_answers_nonsense_is_no_agent_and_not_replaced(cli: Cli, says: bytes) -> None:
    directory = cli.agent.directory
    prepare(directory)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(directory.control))
        listening.listen()
        for command in (["ps"], ["run", "--", "true"]):
            running = cli.start(*command)
            connection, _ = listening.accept()
            with connection:
                connection.sendall(says)
                _, said = running.communicate()
            assert running.returncode == errors.AgentSilent.exit_code
            assert "did not answer" in said
    directory.control.unlink()


def test_an_agent_that_greets_with_another_version_is_named(cli: Cli) -> None:
    directory = cli.agent.directory
    prepare(directory)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(directory.control))
        listening.listen()
        running = cli.start("ps")
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b'{"is":"here","product":"9.9.9","wire":7,"pid":1,"new":true}\n')
            _, said = running.communicate()
    directory.control.unlink()
    assert running.returncode == errors.AgentVersion.exit_code
    assert "9.9.9" in said


@pytest.mark.parametrize("part", ["w", "agent.log", "start.lock"])
def test_a_directory_in_which_nothing_can_be_made_is_refused(
    cli: Cli, tmp_path: Path, part: str
) -> None:
    (tmp_path / "d").mkdir()
    wrong = tmp_path / "d" / part
    if part == "w":
        wrong.touch()
    else:
        wrong.mkdir()
    found = cli("run", "--", "true", MOIETY_DIR=str(tmp_path / "d"))
    assert found.returncode == errors.BadAgentDirectory.exit_code
    assert str(wrong) in found.stderr
    assert "Traceback" not in found.stderr


def test_output_that_cannot_be_written_is_an_error_unless_nobody_reads_it(cli: Cli) -> None:
    for command in ("version", "ps", "doctor", "--help"):
        shell = f"{sys.executable} -m moiety {command}"
        full, closed, unread = (
            subprocess.run(
                ["bash", "-c", f"{shell} {where}"],
                env=cli.environment,
                capture_output=True,
                text=True,
            )
            for where in (">/dev/full", ">&-", "| :")
        )
        assert full.returncode == errors.SystemRefusal.exit_code
        assert "No space left" in full.stderr
        for found in (full, closed, unread):
            assert "Traceback" not in found.stderr


def test_a_mistyped_command_is_told_which_is_meant(cli: Cli) -> None:
    found = cli("statsu")
    assert found.returncode == errors.BadArgument.exit_code
    assert "Did you mean status?" in found.stderr
    assert "Did you mean" not in cli("frobnicate").stderr


def test_a_directory_with_a_long_name_is_refused(cli: Cli, tmp_path: Path) -> None:
    found = cli("run", "--", "true", MOIETY_DIR=str(tmp_path / ("x" * 100)))
    assert found.returncode == errors.BadAgentDirectory.exit_code
    assert "107" in found.stderr


def test_a_directory_that_is_a_link_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    found = cli("run", "--", "true", MOIETY_DIR=str(tmp_path / "link"))
    assert found.returncode == errors.BadAgentDirectory.exit_code
    assert "link" in found.stderr
