"""Runs the processes of one step: starts them, passes signals on, and waits for all."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from moiety.slurm import step_requests
from moiety.slurm.step import terminal
from moiety.slurm.step.family import Family
from moiety.slurm.step.notes import StepNotes
from moiety.slurm.step.output import LabelledPipe
from moiety.slurm.step.terminal import StepTerminal

PASSED_ON: Final = (
    signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGALRM, signal.SIGCONT, signal.SIGINT,
)  # fmt: skip
KILL_WAIT_S: Final = 30.0
"""Time between SIGTERM and SIGKILL, as Slurm's KillWait."""
ENDING: Final = (signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGCONT)
"""What is sent to all that came from a process where a terminal's programs have own groups."""
LEFT_S: Final = 0.05
"""Time between two looks at what is left of a step."""
ABORT_S: Final = 1.0
"""A second interrupt within this time kills the step."""
AFTER_INTERRUPT_S: Final = 0.05
"""How long a step that is interrupted for good has before it is killed."""


def _forked() -> None:
    """Have `subprocess` fork, not vfork, before a program leaves the terminal of srun.

    After vfork all signals wait until the program is executed, and then they end it: also an
    interrupt that was typed before. After fork srun's handler takes it.
    """


@dataclass(slots=True)
class StepTask:
    """One process."""

    rank: int
    argv: Sequence[str]
    environment: dict[str, str]
    stdin: int | None
    stdout: int | None
    stderr: int | None
    """Descriptors; None is our own."""
    process: subprocess.Popen[bytes] | None = None
    family: Family | None = None
    """Set with the user's terminal, whose programs have groups of their own."""
    pidfd: int = -1
    code: int | None = None


@dataclass(slots=True)
class StepRules:
    """When a step ends early."""

    kills_on_bad_exit: bool = False
    wait_s: float = 0.0
    """How long after the first end the others may run; 0: for ever."""
    has_terminal: bool = False
    """The processes stay in our process group, so that they may read the terminal."""
    is_typed_at: bool = False
    """Our input is a terminal whose keys are ours: the processes have sessions of their own."""
    passes_interrupts: bool = False
    """The first interrupt is passed on, and does not ask for another."""
    quits_on_interrupt: bool = False
    """The first interrupt ends the step."""
    hangs_up: bool = False
    """Also hang up when the step ends early: an interactive shell pays no heed to SIGTERM."""
    terminal: StepTerminal | None = None
    """The first process has this one, and leads a session of its own."""
    warn: Callable[[], tuple[float, int] | None] | None = None
    """Seconds until a signal comes, and its number; asked again when the time has come."""


@dataclass(slots=True)
class StepRun:
    """The processes of a step while they run."""

    tasks: list[StepTask]
    rules: StepRules
    pipes: list[LabelledPipe | StepTerminal] = field(default_factory=list)
    notes: StepNotes = field(default_factory=StepNotes)
    _selector: selectors.DefaultSelector = field(default_factory=selectors.DefaultSelector)
    _signals: list[int] = field(default_factory=list)
    _interrupted_s: float = -10.0
    _terminate_s: float | None = None
    _kill_s: float | None = None
    _ends_by_s: float | None = None
    """When what is left of a step gets SIGKILL that was told to end."""
    _is_aborted: bool = False
    """`scancel` or an interrupt has ended the step."""
    _is_interrupted: bool = False
    """An interrupt has ended the step: how its processes end is not told."""
    _ends: list[tuple[int, int]] = field(default_factory=list)
    """Rank and code of what has ended and was not told yet."""

    def run(self, over: int = -1) -> int:
        """Start all, and wait; the exit code. `over` becomes readable when the job ends."""
        wake, theirs = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
        for number in (*PASSED_ON, step_requests.CANCEL, *step_requests.ASKED_BY):
            signal.signal(number, lambda got, _: self._signals.append(got))
        self._selector.register(wake, selectors.EVENT_READ, None)
        if over >= 0:
            self._selector.register(over, selectors.EVENT_READ, "over")
        if self.rules.terminal:
            signal.signal(signal.SIGWINCH, lambda got, _: self._signals.append(got))
            self.pipes.append(self.rules.terminal)
        for pipe in self.pipes:
            self._selector.register(pipe.read_fd, selectors.EVENT_READ, pipe)
        for task in self.tasks:
            self._start(task)
        if self.rules.terminal:
            self.rules.terminal.attach()
        warn = self.rules.warn() if self.rules.warn else None
        warn_at = None if warn is None else time.monotonic() + warn[0]
        while self._alive() or self.pipes:
            self._step(wake, over, warn_at)
            if warn_at is not None and time.monotonic() >= warn_at and self.rules.warn:
                warn = self.rules.warn()
                warn_at = None if warn is None else time.monotonic() + warn[0]
                if warn is not None and warn[0] <= 0:
                    self.send(warn[1])
                    warn_at = None
        self._end_families()
        if not self._is_aborted:
            self.notes.forced(-code for code in self._codes() if code < 0)
        return max((task.code or 0 for task in self.tasks), default=0)

    def outcome(self) -> tuple[int, int]:
        """The exit code and the signal of the step, as Slurm keeps them: a signal counts more."""
        if (lowest := min(self._codes(), default=0)) < 0:
            return 0, -lowest
        return max((task.code or 0 for task in self.tasks), default=0), 0

    def _codes(self) -> list[int]:
        return [task.process.returncode or 0 for task in self.tasks if task.process is not None]

    def _alive(self) -> list[StepTask]:
        return [task for task in self.tasks if task.code is None]

    def _start(self, task: StepTask) -> None:
        given = self.rules.terminal if task.rank == 0 else None
        leads = given is not None or self.rules.is_typed_at
        streams = (task.stdin, task.stdout, task.stderr)
        stdin, stdout, stderr = [given.process_fd] * 3 if given else streams
        try:
            task.process = subprocess.Popen(
                list(task.argv),
                env=task.environment,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                process_group=None if self.rules.has_terminal or leads else 0,
                start_new_session=leads,
                # One call of the system between fork and exec, or none, and no lock of a thread.
                preexec_fn=terminal.take if given else _forked if leads else None,  # noqa: PLW1509
            )
        except OSError as error:
            self.notes.say(f"error: {task.argv[0]}: {error.strerror}")
            task.code = 2 if isinstance(error, FileNotFoundError) else 13
        else:
            task.pidfd = os.pidfd_open(task.process.pid)
            if self.rules.has_terminal or self.rules.is_typed_at:
                task.family = Family(task.process.pid)
            self._selector.register(task.pidfd, selectors.EVENT_READ, task)
        for fd in streams:
            if fd is not None and fd > 2:
                os.close(fd)

    def _step(self, wake: int, over: int, warn_at: float | None) -> None:
        times = [t for t in (self._terminate_s, self._kill_s, warn_at) if t is not None]
        timeout = max(min(times) - time.monotonic(), 0) if times else None
        for key, _ in self._selector.select(timeout):
            if isinstance(key.data, StepTask):
                self._ended(key.data)
            elif isinstance(key.data, LabelledPipe | StepTerminal):
                if key.data in self.pipes and not key.data.copy():
                    self._selector.unregister(key.fd)
                    os.close(key.fd)
                    self.pipes.remove(key.data)
            elif key.data == "over":
                self._selector.unregister(over)
                self.terminate()
            else:
                os.read(wake, 512)
        self._tell_ends()
        while self._signals:
            self._got(self._signals.pop(0))
        now_s = time.monotonic()
        if self._terminate_s is not None and now_s >= self._terminate_s:
            self.terminate()
        if self._kill_s is not None and now_s >= self._kill_s:
            self._kill_s = None
            if self._is_interrupted:
                self.notes.cancelled()
            self.send(signal.SIGKILL)

    def _got(self, number: int) -> None:
        if number == signal.SIGWINCH:
            assert self.rules.terminal is not None
            self.rules.terminal.resize()
            return
        if number == signal.SIGINT:
            if not self.rules.has_terminal:  # else the terminal sent it to them as well
                self._interrupted()
            return
        if number == step_requests.CANCEL:
            self._is_aborted = True
            self.notes.aborted()
            self.send(signal.SIGKILL)
            return
        number = step_requests.ASKED_BY.get(number, number)
        if number == signal.SIGTERM:
            self.notes.cancelled()
        self.send(number)

    def _interrupted(self) -> None:
        """Say what runs for a first interrupt, and end the step for a second one soon after."""
        now_s = time.monotonic()
        is_last = self.rules.quits_on_interrupt or now_s - self._interrupted_s < ABORT_S
        self._interrupted_s = now_s
        if not (is_last or self.rules.passes_interrupts):
            self.notes.interrupted({task.rank: task.code for task in self.tasks})
            return
        self.notes.interrupting()
        self.send(signal.SIGINT)
        if is_last and not self._is_interrupted:
            self._is_aborted = self._is_interrupted = True
            self.notes.forcing()
            self._kill_s = now_s + AFTER_INTERRUPT_S

    def send(self, number: int) -> None:
        """Send a signal to all processes of the step, and to what they have started."""
        for task in self._alive():
            if task.process is None:
                continue
            try:
                if task.family and number in ENDING:
                    task.family.send(number)
                elif self.rules.has_terminal:
                    os.kill(task.process.pid, number)
                else:
                    os.killpg(task.process.pid, number)
            except ProcessLookupError:
                pass  # it has just ended

    def terminate(self) -> None:
        """End the step: SIGTERM, and SIGKILL later."""
        self._terminate_s = None
        if self._kill_s is None:
            self._kill_s = self._ends_by_s = time.monotonic() + KILL_WAIT_S
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        if self.rules.hangs_up:
            self.send(signal.SIGHUP)

    def _end_families(self) -> None:
        """Wait for what the processes of a step have left that was told to end; then kill it."""
        left = [task.family for task in self.tasks if task.family and self._ends_by_s is not None]
        while any(family.alive() for family in left):
            if time.monotonic() >= (self._ends_by_s or 0):
                for family in left:
                    family.send(signal.SIGKILL)
            time.sleep(LEFT_S)

    def _ended(self, task: StepTask) -> None:
        assert task.process is not None
        self._selector.unregister(task.pidfd)
        os.close(task.pidfd)
        code = task.process.wait()
        if task.rank == 0 and self.rules.terminal:
            self._copy_rest(self.rules.terminal)
        task.code = 128 - code if code < 0 else code
        self._ends.append((task.rank, code))
        if code and self.rules.kills_on_bad_exit and self._kill_s is None and self._alive():
            self._tell_ends()
            self.notes.terminating()
            self.terminate()
        elif self.rules.wait_s and self._terminate_s is None and self._kill_s is None:
            self._terminate_s = time.monotonic() + self.rules.wait_s

    def _tell_ends(self) -> None:
        ends, self._ends = self._ends, []
        if not self._is_interrupted:
            self.notes.ended(ends)

    def _copy_rest(self, last: StepTerminal) -> None:
        """Copy what the process has written last; its terminal is hung up with it."""
        if last in self.pipes:
            while last.copy():
                pass
            self._selector.unregister(last.read_fd)
            self.pipes.remove(last)
        last.detach()
