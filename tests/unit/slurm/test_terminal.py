"""The terminal that the first process of a step gets: size, keys, signals, and what it leaves."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from moiety.slurm.step import terminal
from moiety.slurm.step.terminal import StepTerminal


@dataclass
class User:
    """A user's terminal, seen from the user's side and from ours."""

    keys: int
    ours: int

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.keys, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: bytes) -> bytes:
        found = b""
        while text not in found:
            found += os.read(self.keys, 4096)
        return found


@pytest.fixture
def user() -> Iterator[User]:
    found = User(*os.openpty())
    found.resize(33, 101)
    yield found
    os.close(found.keys)
    os.close(found.ours)


def take() -> None:
    """Take the terminal, with interrupts as a shell leaves them, however this test was started."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    terminal.take()


def started(step: StepTerminal, *words: str) -> subprocess.Popen[bytes]:
    fd = step.process_fd
    process = subprocess.Popen(
        words, stdin=fd, stdout=fd, stderr=fd, start_new_session=True,
        preexec_fn=take,  # noqa: PLW1509
    )  # fmt: skip
    step.attach()
    return process


def test_keys_and_output_are_copied_and_an_interrupt_reaches_the_process(user: User) -> None:
    before = termios.tcgetattr(user.ours)
    step = StepTerminal.open(user.ours, user.ours)
    process = started(step, "sh", "-c", "echo up; exec cat")
    os.write(user.keys, b"typed\n")
    seen = b""
    while seen.count(b"typed") < 2:  # the terminal shows it, and then cat does
        assert step.copy()
        seen += os.read(user.keys, 4096)
    os.write(user.keys, b"\x03")
    assert process.wait(60) == -signal.SIGINT
    while step.copy():
        pass
    step.detach()
    step.detach()
    assert termios.tcgetattr(user.ours) == before


def test_it_has_the_size_of_ours_and_follows_it(user: User) -> None:
    step = StepTerminal.open(user.ours, user.ours)
    assert step.variables == {"SLURM_PTY_WIN_ROW": "33", "SLURM_PTY_WIN_COL": "101"}
    user.resize(20, 60)
    step.resize()
    process = started(step, "stty", "size")
    assert process.wait(60) == 0
    while step.copy():
        pass
    assert user.until(b"\n") == b"20 60\r\n"
    step.detach()


def test_a_pipe_as_input_ends_the_input_of_the_process(user: User) -> None:
    read, write = os.pipe()
    step = StepTerminal.open(read, user.ours)
    process = started(step, "cat")
    os.write(write, b"piped\n")
    os.close(write)
    assert process.wait(60) == 0
    while step.copy():
        pass
    assert b"piped" in user.until(b"piped")
    os.close(read)


def test_without_a_terminal_as_output_there_is_none() -> None:
    read, write = os.pipe()
    with pytest.raises(OSError, match="Inappropriate ioctl"):
        StepTerminal.open(read, write)
    os.close(read)
    os.close(write)
