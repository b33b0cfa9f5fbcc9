"""A pool for tests: a node with a server of its own, which is ended with all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from moiety.agent.system.paths import Directory
from moiety.agent.system.processes import is_alive
from moiety.pool.client import PoolClient
from moiety.pool.connection import of
from moiety.pool.model.records import Accepted, PoolStatus, Submission, WorkPage, WorkRow
from moiety.pool.model.states import ENDS
from moiety.pool.paths import PoolPaths
from moiety.pool.starter.records import Started, read_started
from moiety.testing.node import Node
from moiety.testing.waiting import until


class PoolNode:
    """The pool of one node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.paths = PoolPaths(Directory(node.directory))

    @classmethod
    def of(cls, directory: Directory) -> PoolNode:
        """The pool of an agent that is no node's: what needs a node does not work."""
        pool = cls.__new__(cls)
        pool.paths = PoolPaths(directory)
        return pool

    def up(self, *options: str) -> str:
        """`moiety up`; what it says."""
        done = self.node.cli("up", *options)
        assert done.returncode == 0, done.stderr + self.log()
        return done.stdout

    def log(self) -> str:
        """What the server has said."""
        return self.paths.log.read_text() if self.paths.log.exists() else ""

    def submit(self, script: str, **values: object) -> int:
        """Submit a shell script; `values` are fields of the submission."""
        asked: dict[str, object] = {
            "program": "/bin/sh",
            "argv": ["sh", "-c", script],
            "cwd": str(self.node.folder),
            "environment": {"PATH": os.environ["PATH"]},
        }
        with contextlib.closing(PoolClient(self.paths)) as client:
            return client.post("/workloads", Accepted, Submission(**(asked | values))).id  # type: ignore[arg-type]

    def gate(self, name: str) -> tuple[str, Path]:
        """A script that says that it runs and waits for a file, and that file."""
        path = self.node.folder / name
        return f"echo runs; until [ -e {path} ]; do sleep 0.02; done", path

    def row(self, number: int) -> WorkRow:
        """One workload as it is now."""
        with contextlib.closing(PoolClient(self.paths)) as client:
            return client.get(of(str(number)), WorkRow)

    def ended(self, number: int) -> WorkRow:
        """One workload once it is over."""
        with contextlib.closing(PoolClient(self.paths)) as client:
            while True:
                row = client.get(of(str(number), "wait"), WorkRow, timeout=30)
                if row.state in ENDS:
                    return row

    def until_state(self, number: int, *states: str) -> WorkRow:
        """One workload once it is in one of these states."""
        found: WorkRow = until(
            lambda: row if (row := self.row(number)).state in states else None,
            f"workload {number} is {' or '.join(states)}",
        )
        return found

    def live(self) -> list[WorkRow]:
        """All that waits and runs."""
        with contextlib.closing(PoolClient(self.paths)) as client:
            return client.get("/workloads", WorkPage, limit=1000).rows

    def status(self) -> PoolStatus:
        """The pool as a whole."""
        with contextlib.closing(PoolClient(self.paths)) as client:
            return client.get("/status", PoolStatus)

    def output(self, number: int) -> str:
        """What a workload has written; nothing before its file is there."""
        path = Path(self.row(number).stdout)
        return path.read_text() if path.exists() else ""

    def kill(self) -> None:
        """Kill the server with SIGKILL, and wait until it is gone."""
        pid = int(self.paths.lock.read_text().removeprefix("pid "))
        pidfd = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            until(lambda: not Path(f"/proc/{pid}/exe").exists(), "the server is gone")
        finally:
            os.close(pidfd)

    def close(self) -> None:
        """End the server, and every supervisor and program that has a record."""
        with contextlib.suppress(OSError, ValueError):
            self.kill()
        for pid, ticks in self._processes():
            if is_alive(pid, ticks):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _processes(self) -> Iterator[tuple[int, int]]:
        for folder in self.paths.workloads.glob("*"):
            started = read_started(folder)
            if isinstance(started, Started):
                for each in (started.supervisor, started.child):
                    yield each.pid, each.start_ticks


MakePool = Callable[[str], PoolNode]
