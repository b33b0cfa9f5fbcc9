"""A shell that types what a page says, and hears what comes back."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from moiety.testing.node import Node
from moiety.testing.waiting import DEADLINE_S, until

PROGRAMS: Final = Path(__file__).resolve().parent / "programs"
GPU: Final = "A100-80:memory=1GiB,link=4GB/s"


class Session:
    """One bash in a fresh folder, with an agent and simulated GPUs of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        shutil.copytree(PROGRAMS, self.folder, ignore=shutil.ignore_patterns("__pycache__"))
        tools = folder / "bin"
        tools.mkdir()
        for name, command in (("moiety", "-m moiety"), ("python", "")):
            tool = tools / name
            tool.write_text(f'#!/bin/sh\nexec {sys.executable} {command} "$@"\n')
            tool.chmod(0o755)
        self._node = Node(folder, GPU)
        self.env = self._node.env
        self.env |= {
            "HOME": str(folder),
            "PATH": f"{tools}:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        for name in ("MOIETY_CONFIG", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
            self.env.pop(name, None)
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.heard = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.communicate()
        if (self._node.directory / "pool.sock").exists():
            self._node.cli("down")
        self._node.cli("stop", "--force")
        self._node.__exit__(kind, error, trace)

    def type(self, command: str) -> tuple[int, str]:
        """One command, to its end: exit code, and all that was printed since the last.

        A program that is left running is waited for until it uses a GPU; ours do until they are
        ended, so that what is said about running ones is not a race.
        """
        before = self._using() if _stays(command) else 0
        mark = secrets.token_hex(8)
        assert self.shell.stdin
        kept = ("export KEEP=1\n", "\nunset KEEP") if _stays(command) else ("", "")
        typed = f"{kept[0]}{command}\ncode=$?{kept[1]}\nprintf '%s %d\\n' {mark} $code\n"
        self.shell.stdin.write(typed.encode())
        self.shell.stdin.flush()
        printed, code = self._until(mark)
        if _stays(command):
            until(lambda: self._using() > before, f"`{command}` uses a GPU")
        return code, printed

    def _until(self, mark: str) -> tuple[str, int]:
        assert self.shell.stdout
        deadline_s = time.monotonic() + DEADLINE_S
        while f"{mark} " not in self.heard or not self.heard.endswith("\n"):
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([self.shell.stdout], [], [], left_s)[0]:
                raise AssertionError(f"no end in sight; printed so far: {self.heard}")
            got = os.read(self.shell.stdout.fileno(), 65536)
            if not got:
                raise AssertionError(f"the shell ended: {self.heard}")
            self.heard += got.decode(errors="replace")
        printed, _, rest = self.heard.partition(f"{mark} ")
        code, _, self.heard = rest.partition("\n")
        return printed, int(code)

    def _using(self) -> int:
        rows = self._node.json("ps")
        return sum(row["gpu"] is not None for row in rows)


def _stays(command: str) -> bool:
    """Whether it starts a program and leaves it running."""
    plain = command.partition("  #")[0].rstrip()
    return "moiety run" in plain and plain.endswith("&")
