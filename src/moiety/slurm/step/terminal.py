"""The terminal of `srun --pty`: the first process of a step gets one of its own."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import select
import struct
import termios
import threading
import time
import tty
from dataclasses import dataclass, field
from typing import Any, Final

from moiety.slurm.step.output import write_all

END: Final = b"\x04"
"""What a terminal takes for the end of the input."""
READ_MAX: Final = 1 << 16
FOREGROUND_S: Final = 0.2
"""Time between two looks whether the terminal is ours to read."""
SIZE: Final = "HHHH"
"""Rows and columns, each as a short, and two that nothing uses."""


@dataclass(slots=True)
class StepTerminal:
    """A pseudo-terminal, and the terminal or pipe of ours that is copied to it and from it."""

    read_fd: int
    """Its side of ours; what the process writes is read here."""
    process_fd: int
    """Its side of the process."""
    source: int = 0
    target: int = 1
    _kept: list[Any] | None = field(default=None)
    """The settings of our terminal from before."""

    @classmethod
    def open(cls, source: int = 0, target: int = 1) -> StepTerminal:
        """Open one of the size of ours. Raises OSError where the output is no terminal."""
        size = _size_of(target)
        ours, theirs = os.openpty()
        found = cls(ours, theirs, source, target)
        fcntl.ioctl(ours, termios.TIOCSWINSZ, size)
        return found

    @property
    def variables(self) -> dict[str, str]:
        """What the processes of the step are told of it."""
        rows, columns, *_ = struct.unpack(SIZE, _size_of(self.read_fd))
        return {"SLURM_PTY_WIN_COL": str(columns), "SLURM_PTY_WIN_ROW": str(rows)}

    def attach(self) -> None:
        """Let each key reach the process, also Ctrl-C and Ctrl-Z, from now on."""
        if os.isatty(self.source):
            self._kept = termios.tcgetattr(self.source)
            atexit.register(self.detach)
            tty.setraw(self.source, termios.TCSADRAIN)
        os.close(self.process_fd)
        threading.Thread(target=self._forward, name="step-input", daemon=True).start()

    def detach(self) -> None:
        """Give our terminal its settings back; twice is once."""
        if self._kept is not None:
            kept, self._kept = self._kept, None
            with contextlib.suppress(termios.error):  # our terminal may be gone
                termios.tcsetattr(self.source, termios.TCSADRAIN, kept)

    def resize(self) -> None:
        """Give it the size that our terminal has now; the kernel tells the process."""
        fcntl.ioctl(self.read_fd, termios.TIOCSWINSZ, _size_of(self.target))

    def copy(self) -> bool:
        """Copy what the process has written; False: it has no terminal any more."""
        try:
            content = os.read(self.read_fd, READ_MAX)
        except OSError:  # EIO: no process has it open
            content = b""
        write_all(self.target, content)
        return bool(content)

    def _forward(self) -> None:
        """Copy our input until it ends or the terminal is closed."""
        try:
            while content := os.read(self.source, READ_MAX):
                write_all(self.read_fd, content)
            write_all(self.read_fd, END)
        except OSError:
            pass  # the step has ended


def take() -> None:
    """Make the input of this process, which leads a session, its controlling terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def typed(source: int = 0) -> int:
    """A pipe with what is typed at our terminal, for a process that must not read it itself.

    Without the terminal it gets none of its interrupts, and is not stopped for reading it.
    """
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
    forward = threading.Thread(
        target=_forward_typed, args=(source, write_fd), name="step-input", daemon=True
    )
    forward.start()
    return read_fd


def _forward_typed(source: int, target: int) -> None:
    """Copy what is typed until the input ends, or no process reads it any more."""
    try:
        while True:
            if not _is_ours(source):
                time.sleep(FOREGROUND_S)
            elif select.select([source], [], [], FOREGROUND_S)[0]:
                content = os.read(source, READ_MAX)
                if not content:
                    return
                write_all(target, content)
    except OSError:
        pass  # the step has ended, or the terminal is gone
    finally:
        os.close(target)


def _is_ours(source: int) -> bool:
    """Whether reading the terminal would not stop us: we are not in the background of it."""
    try:
        return os.tcgetpgrp(source) == os.getpgrp()
    except OSError:
        return True  # it is not the terminal of our session, or no terminal any more


def _size_of(fd: int) -> bytes:
    return fcntl.ioctl(fd, termios.TIOCGWINSZ, b"\0" * struct.calcsize(SIZE))
