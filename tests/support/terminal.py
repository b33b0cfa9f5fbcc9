"""A user's terminal, in which commands run and keys are typed."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path

Step = tuple[bytes, bytes | tuple[int, int] | Callable[[], object]]
"""What is waited for, and then typed or called, or the size that the terminal gets then."""


class Terminal:
    """A terminal of 33 lines with 101 columns."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        self._env, self._folder = env, folder

    def run(self, *words: str, steps: tuple[Step, ...] = ()) -> tuple[int, str]:
        """The exit code of a command, and what the user sees."""
        keys, ours = pty.openpty()
        self._resize(keys, (33, 101))
        process = subprocess.Popen(
            words, stdin=ours, stdout=ours, stderr=ours, cwd=self._folder, env=self._env,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )  # fmt: skip
        os.close(ours)
        seen, left = b"", list(steps)
        while True:
            try:
                content = os.read(keys, 4096)
            except OSError:
                break  # all have closed it
            seen += content
            if left and left[0][0] in seen:
                _, act = left.pop(0)
                if isinstance(act, bytes):
                    os.write(keys, act)
                elif callable(act):
                    act()
                else:
                    self._resize(keys, act)
        os.close(keys)
        assert not left, (left, seen)
        return process.wait(60), seen.decode()

    @staticmethod
    def _resize(fd: int, size: tuple[int, int]) -> None:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
