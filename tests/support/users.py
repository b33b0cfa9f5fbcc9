"""Processes of other users of this machine, which a test that is root plays with.

Such a process is a Python of its own, since libraries and GPUs that the test's own has opened stay
open in a copy of it. It reads what it needs while it may, since files may not be for others; then
it becomes the other user for good, and does what it is told line by line.
"""

from __future__ import annotations

import ast
import ctypes
import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

ALICE: Final = 65001
BOB: Final = 65002
"""Users that no system's tables know."""

_PR_SET_DUMPABLE: Final = 4
_BEGIN: Final = "from tests.support.users import begin; begin()"
_LATE: Final = ("difflib", "encodings.idna", "json", "pynvml", "structlog", "tomllib", "uuid")
"""What commands import when they need it."""
_NAMES: Final = """
import ctypes, errno, fcntl, mmap, os, signal, socket, sys, traceback
import moiety.agent.control.restart, moiety.agent.process, moiety.cli.main
from pathlib import Path
from moiety.agent.control import protocol
from moiety.agent.control.rows import ContainerRow
from moiety.agent.control.client import Call
from moiety.agent.system.paths import Directory
from moiety.model import errors
from moiety.model.share import Share
from tests.support.foreground import uuid_of
from tests.support.wire_end import Closed
from tests.support.wire_fakes import Shim
from moiety.wire.layout import Refusal, Type
from moiety.wire.messages import AmountMessage, ArenaMessage, AttachMessage, LeaseNoteMessage
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
        hears, tells = os.pipe()
        listens, says = os.pipe()
        arguments = [str(uid), str(hears), str(says), json.dumps(dict(environment))]
        path = os.pathsep.join(part for part in sys.path if part)
        command = [sys.executable, "-c", _BEGIN, *arguments]
        self.pid = os.fork()
        if self.pid == 0:
            try:
                for number in (hears, says):
                    os.set_inheritable(number, True)
                os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": path})
            finally:
                os._exit(1)
        os.close(hears)
        os.close(says)
        self._to = os.fdopen(tells, "w")
        self._from = os.fdopen(listens)

    def tell(self, line: str) -> None:
        """Let it do something: an expression or statements of Python. `listen` hears of it."""
        self._to.write(line.replace("\n", "\0") + "\n")
        self._to.flush()

    def listen(self) -> Any:
        """What came of it; raises Raised."""
        line = self._from.readline()
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
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        with suppress(OSError):
            self._to.close()
        self._from.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def begin() -> None:
    """Be such a process: a user, two descriptors and an environment are the arguments."""
    uid, hears, says, environment = sys.argv[1:]
    names = _names()
    _become(int(uid), json.loads(environment))
    _obey(names, int(hears), int(says))


def _names() -> dict[str, Any]:
    """What lines may speak of, imported here, where all files may be read."""
    names: dict[str, Any] = {}
    exec(_NAMES, names)
    for module in (
        *_LATE,
        *(f"moiety.cli.{command}" for command in names["moiety"].cli.main.COMMANDS),
    ):
        with suppress(ImportError):  # of what is installed for some commands only
            importlib.import_module(module)
    return names


def _become(uid: int, environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment, HOME="/")
    os.environ.pop("PYTHONPATH", None)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # What it may do to itself must not look like a refusal.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)


def _obey(names: dict[str, Any], hears: int, says: int) -> None:
    with os.fdopen(hears) as source, os.fdopen(says, "w") as sink:
        for line in source:
            sink.write(repr(_do(line.rstrip("\n").replace("\0", "\n"), names)) + "\n")
            sink.flush()


def _do(line: str, names: dict[str, Any]) -> tuple[Any, ...]:
    try:
        try:
            code = compile(line, "<told>", "eval")
        except SyntaxError:
            exec(compile(line, "<told>", "exec"), names)
            return ("ok", None)
        found = eval(code, names)
    except BaseException as error:
        if os.environ.get("MOIETY_DEBUG"):
            traceback.print_exc()
        return ("raised", type(error).__name__, str(error), getattr(error, "hint", ""))
    plain = isinstance(found, int | str | list | dict | type(None))
    return ("ok", found if plain else str(found))


@contextmanager
def open_folder() -> Iterator[Path]:
    """A short-lived folder through which every user may go."""
    with tempfile.TemporaryDirectory(prefix="moiety-", dir="/tmp") as name:
        os.chmod(name, 0o711)
        yield Path(name)
