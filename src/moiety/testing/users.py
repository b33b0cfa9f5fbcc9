"""Processes of other users of this machine, which a test that is root plays with.

Such a process imports what it needs while it is root, because our own files may not be for others;
then it becomes the other user for good, and does what it is told line by line.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

ALICE: Final = 65001
BOB: Final = 65002
"""users that no system's tables know"""

_SOURCE: Final = """
import ctypes, errno, fcntl, importlib, mmap, os, socket, sys, traceback
import difflib, encodings.idna, json, pynvml, structlog, tomllib, uuid  # what commands import late
import moiety.agent.service, moiety.cli.main
from pathlib import Path
for name in moiety.cli.main.COMMANDS:
    if name != "top":
        importlib.import_module(f"moiety.cli.{name}")
from moiety.agent import requests
from moiety.agent.caller import Call
from moiety.agent.directory import Directory
from moiety.model import errors
from moiety.model.share import Share
from moiety.testing.foreground import uuid_of
from moiety.testing.shim import Closed, Shim
from moiety.wire.layout import Refusal, Type
from moiety.wire.messages import Amount, ArenaNote, Attach, LeaseNote
uid = int(sys.argv[1])
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # what it may do to itself is not to look like a refusal
os.chdir("/")
known = globals()
for line in sys.stdin:
    try:
        try:
            found = eval(line, known)
        except SyntaxError:
            found = exec(line.replace(chr(0), chr(10)), known)
        plain = isinstance(found, (int, str, list, dict, type(None)))
        said = ("ok", found if plain else str(found))
    except BaseException as error:
        said = ("raised", type(error).__name__, str(error), getattr(error, "hint", ""))
    print(repr(said), flush=True)
"""


class Raised(Exception):
    """What the other process did raised an error: its class' name, its text, and its hint."""

    def __init__(self, kind: str, text: str, hint: str = "") -> None:
        super().__init__(kind, text, hint)
        self.kind = kind
        self.text = text
        self.hint = hint


class OtherUser:
    """One such process; a context manager."""

    def __init__(self, uid: int, environment: Mapping[str, str]) -> None:
        self.uid = uid
        known = dict(environment)
        known["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        known["HOME"] = "/"
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SOURCE, str(uid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=known,
        )

    def tell(self, line: str) -> None:
        """Let it do something: an expression or statements of Python. `listen` hears of it."""
        assert self.process.stdin
        self.process.stdin.write(line.replace("\n", "\0") + "\n")
        self.process.stdin.flush()

    def listen(self) -> Any:
        """What came of it; raises Raised."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise Raised("EOFError", "it ended")
        kind, *rest = ast.literal_eval(line)
        if kind == "raised":
            raise Raised(*rest)
        return rest[0]

    def do(self, line: str) -> Any:
        """Both."""
        self.tell(line)
        return self.listen()

    def close(self) -> None:
        """End it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@contextmanager
def open_folder() -> Iterator[Path]:
    """A short-lived folder through which every user may go."""
    with tempfile.TemporaryDirectory(prefix="moiety-", dir="/tmp") as name:
        os.chmod(name, 0o711)
        yield Path(name)
