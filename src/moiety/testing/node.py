"""A node for end-to-end tests: simulated GPUs, an agent and programs, all in folders of their own.

    with Node(tmp_path, gpu="A100-80:memory=256MiB,link=4GB/s") as node:
        node.start_agent("--turn-min", "5ms")
        program = node.run([worker, ...])
        assert program.wait() == 0

Everything that was started is ended, by its process id, when the block ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar

from moiety.agent.control import protocol
from moiety.agent.control.client import Call, call
from moiety.agent.core.journal_events import Event
from moiety.agent.system.paths import Directory
from moiety.cli.output import builtins
from moiety.devices.native import simgpu_dir
from moiety.model.errors import AgentError, NoAgent
from moiety.testing.waiting import DEADLINE_S, until

LISTEN_S = 5.0
"""How long one request for events waits in the agent."""
A = TypeVar("A", bound=protocol.Answer)


class Node:
    """One machine's worth of moiety, with `gpu` as MOIETY_SIMGPU says it; None: the real GPUs."""

    def __init__(self, folder: Path, gpu: str | None, *, native: Path | None = None) -> None:
        self.folder = folder
        # Socket paths are short (107 bytes), pytest's folders are not.
        self._short = tempfile.TemporaryDirectory(prefix="mty")
        self.directory = Path(self._short.name)
        self.env = {
            **os.environ,
            "MOIETY_CONFIG": "",  # the settings of this machine are not tested
            "MOIETY_DIR": self._short.name,
            "PYTHONUNBUFFERED": "1",
        }
        self.env.pop("MOIETY_SIMGPU", None)
        if gpu is not None:
            self.env |= {"MOIETY_SIMGPU": gpu, "MOIETY_SIMGPU_STATE": f"{self._short.name}/gpu"}
        if native is not None:
            self.env["MOIETY_NATIVE"] = str(native)
        self.started: list[subprocess.Popen[str]] = []
        self.agent: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in reversed(self.started):
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        self._short.cleanup()

    def start_agent(
        self, *options: str, module: str = "moiety.agent", env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start an agent in the foreground and wait until it serves; it never ends by itself.

        `module` is the module that Python runs: tests may run a changed agent.
        """
        log = (self.folder / f"agent-{len(self.started)}.log").open("w")
        with log, signals_held():
            agent = subprocess.Popen(
                [sys.executable, "-m", module, "--idle-exit", "0", *options],
                env={**self.env, **(env or {})},
                stdout=log,
                stderr=log,
                text=True,
            )
            self.started.append(agent)
        self.agent = agent
        self.until(lambda: self.is_ready(agent), "the agent is ready")
        return agent

    def is_ready(self, agent: subprocess.Popen[str]) -> bool:
        """Whether the agent answers."""
        if agent.poll() is not None:
            logs = "".join(p.read_text() for p in self.folder.glob("agent-*.log"))
            raise AssertionError(f"the agent ended with {agent.returncode}: {logs}")
        try:
            Call(Directory(self.directory)).close()
        except AgentError:
            return False
        return True

    def run(
        self,
        command: Sequence[object],
        *options: str,
        env: Mapping[str, str] | None = None,
        stdin: bool = False,
    ) -> subprocess.Popen[str]:
        """`moiety run OPTIONS -- COMMAND`, its output piped; `stdin` as in `start`."""
        full = [sys.executable, "-m", "moiety", "run", *options, "--", *map(str, command)]
        return self.start(full, env=env, stdin=stdin)

    def start(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bool = False,
    ) -> subprocess.Popen[str]:
        """Start any command in this node's environment; `stdin`: with a pipe to write to."""
        with signals_held():
            process = subprocess.Popen(
                list(command),
                env={**self.env, **(env or {})},
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            self.started.append(process)
        return process

    def run_alone(self, command: Sequence[object]) -> subprocess.Popen[str]:
        """The same program on the same GPU without moiety."""
        env = {}
        if "MOIETY_SIMGPU" in self.env:
            path = str(simgpu_dir())
            if "LD_LIBRARY_PATH" in self.env:
                path += ":" + self.env["LD_LIBRARY_PATH"]
            env["LD_LIBRARY_PATH"] = path
        return self.start([str(part) for part in command], env=env)

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A `moiety` command, run to its end."""
        return subprocess.run(
            [sys.executable, "-m", "moiety", *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        """The output of a `moiety` command with `-o json`.

        `ps` and `status`, which tests call again and again, are sent to the agent directly: a new
        process for each call would take the processors from the programs under test.
        """
        if arguments == ("ps",):
            found = self.ask(protocol.Ps(), protocol.Processes)
            return builtins(found.rows) if found else []
        if arguments == ("status",):
            return builtins(self.ask(protocol.Status(), protocol.NodeStatus))
        done = self.cli(*arguments, "-o", "json")
        if done.returncode != 0:
            raise AssertionError(f"moiety {arguments} ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def ask(self, request: protocol.ControlRequest, answer: type[A]) -> A | None:
        """The agent's answer, also of an agent that is just starting; None if there is none."""
        try:
            with call(Directory(self.directory)) as agent:
                return agent.ask(request, answer)
        except NoAgent:
            return None

    def until_told(self, *reasons: str, count: int = 1) -> list[Event]:
        """The agent's events with these reasons, once there are `count` of them.

        It waits on the agent's own stream. Raises AssertionError if they never come.
        """
        found: list[Event] = []
        after = 0
        end_s = time.monotonic() + DEADLINE_S
        while len(found) < count:
            assert time.monotonic() < end_s, f"never told: {', '.join(reasons)}"
            page = self.ask(protocol.Events(after, wait_s=LISTEN_S), protocol.Happened)
            assert page is not None, "there is no agent"
            after = max(after, page.read_to)
            found += [event for event in page.events if event.reason in reasons]
        return found

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until `condition()` holds; an AssertionError that names `what` if it never does."""
        until(condition, what)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Hold SIGINT and SIGTERM until the block ends, when the started process is known."""
    arrived: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(n, lambda number, _: arrived.append(number)) for n in numbers]
    try:
        yield
    finally:
        for wanted, handler in zip(numbers, before, strict=True):
            signal.signal(wanted, handler)
        for number in arrived:
            signal.raise_signal(number)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a program that ends by itself."""
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out, err


class Lines:
    """The lines from a descriptor; text that was read beyond a line is kept for the next one."""

    def __init__(self, stream: int | IO[str] | None) -> None:
        assert stream is not None
        self._stream = stream if isinstance(stream, int) else stream.fileno()
        self._ahead = ""

    def next(self) -> str:
        """The next line, with its end.

        Raises:
            AssertionError: it did not come.
        """
        deadline_s = time.monotonic() + DEADLINE_S
        while "\n" not in self._ahead:
            assert time.monotonic() < deadline_s, f"a line never ended: {self._ahead!r}"
            if select.select([self._stream], [], [], 0.1)[0]:
                piece = os.read(self._stream, 4096).decode()
                assert piece, f"it ended within a line: {self._ahead!r}"
                self._ahead += piece
        line, _, self._ahead = self._ahead.partition("\n")
        return line + "\n"


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL, and wait until it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
