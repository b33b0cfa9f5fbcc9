"""A shell that types what a page says, and hears what comes back."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

PROGRAMS: Final = Path(__file__).resolve().parent / "programs"
GPU: Final = "A100-80:memory=1GiB,link=4GB/s"
DEADLINE_S: Final = 100.0


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
        self._short = tempfile.TemporaryDirectory(prefix="mty")
        self.env = {
            **os.environ,
            "HOME": str(folder),
            "MOIETY_DIR": self._short.name,
            "MOIETY_SIMGPU": GPU,
            "MOIETY_SIMGPU_STATE": f"{self._short.name}/gpu",
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        self.env.pop("XDG_RUNTIME_DIR", None)
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
        self.moiety("stop", "--force")
        self._short.cleanup()

    def moiety(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of ours, beside the shell."""
        return subprocess.run(
            [sys.executable, "-m", "moiety", *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

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
            self._must(lambda: self._using() > before, f"`{command}` uses a GPU")
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
        rows = json.loads(self.moiety("ps", "-o", "json").stdout or "[]")
        return sum(row["gpu"] is not None for row in rows)

    def _must(self, condition: object, what: str) -> None:
        assert callable(condition)
        deadline_s = time.monotonic() + DEADLINE_S
        while not condition():
            if time.monotonic() > deadline_s:
                raise AssertionError(f"waited in vain until {what}")
            time.sleep(0.05)


def _stays(command: str) -> bool:
    """Whether it starts a program and leaves it running."""
    plain = command.partition("  #")[0].rstrip()
    return "moiety run" in plain and plain.endswith("&")
