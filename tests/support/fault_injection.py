"""Faults among real processes: tenants that take turns on a simulated GPU, and one step hit.

    with Ordeal(folder, native, programs) as ordeal:
        ordeal.suffer(Case("evicted", 2, "peer", signal.SIGKILL))    # AssertionError: it was lost

Two workers that do not fit together compute and check every byte; a fault strikes at a chosen step
of their hand-offs (faulty.py). Whoever was not killed must be served and end well, nobody may ever
have more than its share, who was killed must be told of by an event, and nothing may be left.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.agent.control.rows import ProcessRow
from moiety.agent.core.journal_events import Event
from moiety.agent.system.paths import Directory
from moiety.model.errors import AgentError
from moiety.model.share import Share
from moiety.testing.node import Node
from moiety.testing.waiting import DEADLINE_S
from tests.support.children import with_checkout
from tests.support.faulty import STEPS, VARIABLE, done_of

GPU: Final = "A100-80:memory=64MiB,residue=1MiB,link=2GB/s"
GPU_BYTES: Final = 64 << 20
BYTES: Final = 36 << 20
LIMIT_BYTES: Final = 40 << 20
"""Of each worker: what it allocates, and its little extra for checking."""
ROUNDS: Final = 6
ENDLESS: Final = 1_000_000
"""So many rounds that a worker goes on until it is told to end."""
CHECK_EVERY: Final = 64
"""Rounds after which a worker checks: at the end alone, after many rounds, that takes minutes."""
OPTIONS: Final = ("--turn-min", "2ms", "--turn-factor", "0", "--linger", "0")
STOPPED_S: Final = 0.05
"""Who is stopped stays so for this long once everybody has seen it."""
FIRST_STEPS: Final = ("attach", "context")
"""What a program says only as it begins: the second one is struck there."""
LOOK_S: Final = 2.0
"""How long an agent that may be stopped or dead is asked for an answer."""


@dataclass(frozen=True, slots=True)
class Case:
    """What goes wrong."""

    step: str
    nth: int
    whom: str
    signal: int

    def __str__(self) -> str:
        name = signal.Signals(self.signal).name
        return f"{name} of the {self.whom} at {self.step} {self.nth}"


def cases(dice: Random) -> Iterator[Case]:
    """Every step with everybody and both signals in an order that is diced, then again deeper."""
    for depth in itertools.count(1):
        whom = ("peer", "other", "agent")
        every = [
            Case(step, dice.randint(1, 3 * depth), who, number)
            for step in STEPS
            for who in whom
            for number in (signal.SIGKILL, signal.SIGSTOP)
        ]
        dice.shuffle(every)
        yield from every


class Ordeal:
    """One node whose agent can be told what is to go wrong; it is started anew when it dies."""

    def __init__(self, folder: Path, native: Path, worker: Path, *options: str) -> None:
        """`options` are the agent's, besides OPTIONS."""
        self._node = Node(folder, GPU, native=native)
        self._native = native
        self._worker = worker
        self._options = (*OPTIONS, *options)
        self._plan = folder / "fault.json"
        self._plan.write_text("")
        self._seeds = itertools.count(1)
        self._number = 0
        self._endless: list[subprocess.Popen[str]] = []
        self.agents = 0
        self.struck = 0
        """Faults that happened."""

    def __enter__(self) -> Self:
        self.start_agent()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._node.__exit__(kind, error, trace)

    @property
    def directory(self) -> Directory:
        """The agent's."""
        return Directory(self._node.directory)

    def start_agent(self) -> None:
        """An agent, ready; the one before is dead."""
        env = with_checkout({**self._node.env, VARIABLE: str(self._plan)})
        self.agent = self._node.start_agent(*self._options, module="tests.support.faulty", env=env)
        self.agents += 1

    def second_agent(self) -> subprocess.CompletedProcess[str]:
        """One more, which is to end by itself: the GPU has one already."""
        command = [sys.executable, "-m", "moiety.agent"]
        return subprocess.run(
            command,
            env=self._node.env,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def log(self) -> str:
        """What the agents wrote down."""
        return self.directory.log.read_text() if self.directory.log.exists() else ""

    def status(self) -> protocol.NodeStatus:
        """Of the agent."""
        with Call(self.directory) as call:
            return call.ask(protocol.Status(), protocol.NodeStatus)

    def reasons(self, after: int = 0) -> list[str]:
        """Of the events that happened."""
        return [event.reason for event in self.events(after)]

    def events(self, after: int = 0) -> list[Event]:
        """All that are kept."""
        found: list[Event] = []
        with Call(self.directory) as call:
            more = True
            while more:
                page = call.ask(protocol.Events(after), protocol.Happened)
                found += page.events
                after, more = page.read_to, page.more
        return found

    def tenants(self) -> int:
        """How many processes are there."""
        return self.status().tenants

    def turns(self) -> int:
        """Leases that processes were given, by this agent."""
        return sum(row.handoffs for row in self._rows())

    def _rows(self, timeout_s: float = DEADLINE_S) -> list[ProcessRow]:
        with Call(self.directory, timeout_s) as call:
            return list(call.ask(protocol.Ps(), protocol.Processes).rows)

    def call(self, command: list[str]) -> int:
        """Run something on this node; its exit code."""
        return subprocess.run(command, env=self._node.env, check=False).returncode

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for it."""
        self._node.until(condition, what)

    def finish(self, workers: list[subprocess.Popen[str]]) -> None:
        """Tell them to end; raises AssertionError if one did not well, or left something.

        Who goes on until it is told has said something to the agent before.
        """
        self._tell(workers)
        for worker in workers:
            worker.wait(DEADLINE_S)
        self._check(Case("no step", 0, "nobody", signal.SIGCONT), workers, struck=False)

    def _tell(self, workers: list[subprocess.Popen[str]]) -> None:
        for worker in workers:
            if worker in self._endless and worker.poll() is None:
                worker.send_signal(signal.SIGUSR1)

    def start_worker(self, rounds: int = ROUNDS, round_ms: int = 3) -> subprocess.Popen[str]:
        """A program in a share of its own."""
        kernels = self._native / "simgpu" / "kernels.elf"
        arguments = [kernels, BYTES, rounds, round_ms, 0, next(self._seeds), CHECK_EVERY]
        started = self.start([str(self._worker), *map(str, arguments)])
        if rounds == ENDLESS:
            self._endless.append(started)
        return started

    def start(self, command: list[str], *, limited: bool = True) -> subprocess.Popen[str]:
        """Any program in a share of its own; not `limited`: its processes need more together."""
        while not (socket := self._workload(LIMIT_BYTES if limited else None)):
            self._revive()
        return self._node.start(
            command,
            env={
                "KERNELS": str(self._native / "simgpu" / "kernels.elf"),
                "LD_LIBRARY_PATH": str(self._native / "simgpu"),
                "LD_PRELOAD": str(self._native / "libmoiety.so"),
                "MOIETY_SOCKET": socket,
            },
        )

    def _workload(self, limit_bytes: int | None) -> str:
        """A workload's socket; empty if the agent does not live."""
        try:
            with Call(self.directory) as call:
                share = Share(memory_limit_bytes=limit_bytes)
                wanted = protocol.CreateWorkload("worker", ["worker"], "/", share)
                return call.ask(wanted, protocol.Created).socket
        except AgentError:
            return ""

    def _revive(self) -> None:
        """Start the agent anew, if it is dead, or let it go on, if it is stopped."""
        try:
            self.agent.wait(STOPPED_S)
        except subprocess.TimeoutExpired:
            self.agent.send_signal(signal.SIGCONT)
        else:
            self.start_agent()

    def suffer(self, case: Case) -> bool:
        """Let it happen; whether the step came at all. Raises AssertionError where it hurts.

        Both workers go on until it has happened, or each step of a hand-off has come often enough.
        """
        self._number += 1
        is_first = case.step in FIRST_STEPS
        nth = 1 if is_first else case.nth
        plan = {"number": self._number, "step": case.step, "nth": nth, "whom": case.whom}
        self._plan.write_text(json.dumps({**plan, "signal": int(case.signal)}))
        workers = [self.start_worker(ENDLESS) for _ in range(1 if is_first else 2)]
        # Nobody begins without an agent, so it is struck once those who began are there.
        self.until(lambda: self.turns() > 0 and self._are_there(workers), "they are there")
        hit, before = self.agent, self.turns()
        hit.send_signal(signal.SIGUSR2)
        if is_first:
            workers.append(self.start_worker(ENDLESS))
        end_s = time.monotonic() + DEADLINE_S
        struck = told = False
        while any(worker.poll() is None for worker in workers):
            assert time.monotonic() < end_s, f"{case}: nobody gets on\n{self.log()[-2000:]}"
            if not struck and self._has_struck():
                struck = True
                self._after(case, workers, hit)
            if not told and self._may_end(workers, before + 4 * case.nth + 8, struck=struck):
                self._tell(workers)
                told = True
            time.sleep(0.005)
        struck = struck or self._has_struck()
        if self.agent.poll() is not None:
            self.start_agent()
        self.struck += struck
        self._check(case, workers, struck)
        return struck

    def _are_there(self, workers: list[subprocess.Popen[str]]) -> bool:
        there = {row.pid for row in self._rows()}
        return all(worker.pid in there for worker in workers)

    def _may_end(self, workers: list[subprocess.Popen[str]], most: int, *, struck: bool) -> bool:
        """Whether all who live are there, and nothing is waited for any more."""
        if self.agent.poll() is not None:
            return False
        try:
            rows = self._rows(LOOK_S)
        except AgentError:
            return False  # it is stopped, or dead by now
        check_shares(rows)
        turns = sum(row.handoffs for row in rows)
        there = {row.pid for row in rows}
        all_there = all(worker.pid in there for worker in workers if worker.poll() is None)
        return all_there and (struck or turns >= most)

    def _has_struck(self) -> bool:
        done = done_of(self._plan)
        return done.exists() and done.read_text() == str(self._number)

    def _after(
        self, case: Case, workers: list[subprocess.Popen[str]], hit: subprocess.Popen[str]
    ) -> None:
        """What somebody does about it: whoever is stopped goes on, a dead agent is replaced."""
        if case.whom == "agent" and case.signal == signal.SIGKILL:
            hit.wait(DEADLINE_S)
            if self.agent is hit:  # else it died while a worker was started
                self.start_agent()
        if case.signal == signal.SIGSTOP:
            if case.whom == "agent":  # it has said so before it did it
                try:
                    self.until(lambda: is_stopped(hit.pid), f"{case}: it is stopped")
                except AssertionError as error:
                    status = Path(f"/proc/{hit.pid}/status").read_text()
                    raise AssertionError(f"{error}\n{status}\n{self.log()[-2000:]}") from None
            time.sleep(STOPPED_S)
            for process in (self.agent, *workers):
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)

    def _check(self, case: Case, workers: list[subprocess.Popen[str]], struck: bool) -> None:
        ends = []
        for worker in workers:
            out, err = worker.communicate()
            ends.append((worker.returncode, out, err))
        well = (0, "0 words wrong\n")
        killed = [end for end in ends if end[0] == -signal.SIGKILL]
        may_die = struck and case.signal == signal.SIGKILL and case.whom != "agent"
        assert len(killed) <= may_die, f"{case}: {ends}"
        for end in ends:
            assert end in killed or end[:2] == well, f"{case}: {end}\n{self.log()[-2000:]}"
        dead = {each.pid for each in workers if each.returncode == -signal.SIGKILL}
        self._node.until(lambda: dead <= self._left(), f"{case}: who was killed is told of")
        for worker in workers:
            self._node.started.remove(worker)
            for stream in (worker.stdout, worker.stderr):
                if stream is not None:
                    stream.close()
        self._node.until(self._is_empty, f"{case}: the ledger is empty")

    def _left(self) -> set[int | None]:
        """Who is told to have gone."""
        return {event.pid for event in self.events() if event.reason == "Left"}

    def _is_empty(self) -> bool:
        return self.agent.poll() is None and all(
            (gpu.resident_bytes, gpu.allocated_bytes, gpu.residue_bytes) == (0, 0, 0)
            for gpu in self.status().gpus
        )


def check_shares(rows: list[ProcessRow]) -> None:
    """Nobody has more than it may, nor all together more than there is: else AssertionError."""
    for row in rows:
        assert row.allocated_bytes <= LIMIT_BYTES, row
    assert sum(row.resident_bytes + row.residue_bytes for row in rows) <= GPU_BYTES, rows


def is_stopped(pid: int) -> bool:
    """Whether a process that was not waited for is, or is dead."""
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state in ("T", "Z")


def kill_agent(ordeal: Ordeal) -> None:
    """As kill -9 does."""
    os.kill(ordeal.agent.pid, signal.SIGKILL)
    ordeal.agent.wait()
