"""What a program's terminal is told: that it waits, for whom, and what comes back."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Lines, Node, finish
from moiety.testing.waiting import DEADLINE_S

MIB = 1 << 20
MakeNode = Callable[[str], Node]
ALWAYS = {"MOIETY_SAY": "always"}


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    node = make_node("T4:memory=256MiB,residue=1MiB")
    # Who has the GPU keeps it until it ends: no turn is over, and no silence counts.
    kept = ("--quantum", "1h", "--idle-min", "1h")
    # No line is said of the moment in which it gets its context: the next would come in a minute.
    node.start_agent("--say-after", "1s", *kept)
    return node


@pytest.fixture
def work(programs: Path, kernels: Path) -> Callable[[int], list[object]]:
    """A program that takes most of the GPU for so many rounds."""
    return lambda rounds: [programs / "worker", kernels, 160 * MIB, rounds, 10, 0, 7]


def holds(node: Node) -> bool:
    """Whether a program has the GPU, and its memory there: before that another may come first."""
    rows = node.json("ps")
    return any(row["state"] == "holding" and row["resident_bytes"] >= 160 * MIB for row in rows)


def waits_for_gpu_0(told: Lines) -> str:
    """What it says of that, after what it may have waited for before, not knowing the GPU yet."""
    while "moiety: waiting for GPU 0, " not in (line := told.next()):
        assert line.startswith(
            ("moiety: waiting for a GPU, ", "moiety: the program continues after ")
        )
    return line


def test_whoever_waits_is_told_for_whom_how_long_and_that_it_goes_on(
    node: Node, work: Callable[[int], list[object]]
) -> None:
    holder = node.run(work(10**6), "--name", "hol\x1bder")
    node.until(lambda: holds(node), "one program holds")
    waiter = node.run(work(10**6), env=ALWAYS)
    told = Lines(waiter.stderr)
    line = waits_for_gpu_0(told)
    assert f"; held by hol?der (pid {holder.pid}) for " in line
    holder.send_signal(signal.SIGUSR1)
    assert finish(holder)[0] == 0
    assert told.next().startswith("moiety: the program continues after ")
    waiter.send_signal(signal.SIGUSR1)
    code, _, err = finish(waiter)
    assert code == 0
    assert not err


@pytest.mark.parametrize(
    "environment",
    [{}, {"MOIETY_SAY": "never"}, ALWAYS | {"MOIETY_QUIET": "1"}],
    ids=["no terminal", "never", "quiet"],
)
def test_nothing_is_said_where_nobody_wants_to_know(
    node: Node, work: Callable[[int], list[object]], environment: dict[str, str]
) -> None:
    holder = node.run(work(10**6))
    node.until(lambda: holds(node), "one program holds")
    waiter = node.run(work(1), env=environment)
    told = node.run(work(1), env=ALWAYS)
    assert "waiting for " in Lines(told.stderr).next()
    holder.send_signal(signal.SIGUSR1)
    assert finish(holder)[0] == 0
    assert finish(waiter)[::2] == (0, "")


def test_flags_and_files_decide_as_the_environment_does(node: Node) -> None:
    source = "import os; print(os.environ.get('MOIETY_SAY'), os.environ.get('MOIETY_QUIET'))"
    show = [sys.executable, "-c", source]
    assert finish(node.run(show))[1] == "None None\n"
    assert finish(node.run(show, "--say", "always"))[1] == "always None\n"
    assert finish(node.run(show, "-q"))[1] == "never None\n"
    assert finish(node.run(show, "-q", "--say", "always"))[1] == "never None\n"
    assert finish(node.run(show, env={"MOIETY_QUIET": "1"}))[1] == "never 1\n"


def test_what_becomes_of_unchanged_memory_is_a_setting(node: Node, tmp_path: Path) -> None:
    show = [sys.executable, "-c", "import os; print(os.environ['MOIETY_CLEAN'])"]
    file = tmp_path / "config.toml"
    file.write_text("[run]\nclean = 'verify'\n")
    own = {"MOIETY_CLEAN": "off"}
    assert finish(node.run(show, "--clean", "on", env=own))[1] == "on\n"
    assert finish(node.run(show, env=own))[1] == "off\n"
    node.env.pop("MOIETY_CLEAN", None)
    assert finish(node.run(show, env={"MOIETY_CONFIG": str(file)}))[1] == "verify\n"
    code, _, told = finish(node.run(show, env={"MOIETY_CLEAN": "yes"}))
    assert code == 78
    assert "MOIETY_CLEAN" in told


def test_a_terminal_is_told_and_one_that_is_stopped_holds_nobody_up(
    node: Node, work: Callable[[int], list[object]]
) -> None:
    holder = node.run(work(10**6))
    node.until(lambda: holds(node), "one program holds")
    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "moiety", "run", "--", *map(str, work(1))]
    waiter = subprocess.Popen(
        command, env=node.env, stderr=terminal, stdout=subprocess.PIPE, text=True
    )
    node.started.append(waiter)
    waits_for_gpu_0(Lines(screen))
    os.write(screen, b"\x13")  # Ctrl-S: whoever writes there now, waits
    holder.send_signal(signal.SIGUSR1)
    assert finish(holder)[0] == 0
    assert waiter.wait(DEADLINE_S) == 0
    os.close(terminal)
    os.close(screen)


def test_a_pipe_that_nobody_empties_holds_nobody_up(
    node: Node, work: Callable[[int], list[object]]
) -> None:
    holder = node.run(work(10**6))
    node.until(lambda: holds(node), "one program holds")
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    while select.select([], [writer], [], 0)[1]:
        os.write(writer, bytes(4096))
    os.set_blocking(writer, True)
    command = [sys.executable, "-m", "moiety", "run", "--", *map(str, work(1))]
    full = subprocess.Popen(
        command, env=node.env | ALWAYS, stderr=writer, stdout=subprocess.PIPE, text=True
    )
    node.started.append(full)
    told = node.run(work(1), env=ALWAYS)
    assert "waiting for " in Lines(told.stderr).next()
    holder.send_signal(signal.SIGUSR1)
    assert finish(holder)[0] == 0
    assert full.wait(DEADLINE_S) == 0
    os.close(reader)
    os.close(writer)
