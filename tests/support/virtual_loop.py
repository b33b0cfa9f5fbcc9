"""An event loop in virtual time, and a kernel with processes that exist on paper.

The descriptors are real (socket pairs, pipes), so whatever the system says of a closed or full
socket is said here, too; time moves when a test says so, and who is served next is diced.
"""

from __future__ import annotations

import os
import select
import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from random import Random
from typing import Any

from moiety.testing.clocks import FakeClock, FakeTimer

_READ = select.POLLIN | select.POLLHUP | select.POLLERR
Call = tuple[Callable[..., object], tuple[Any, ...]]


class VirtualLoop(FakeClock):
    """The part of asyncio's loop that an agent's node and connections use."""

    def __init__(self, now_s: float, dice: Random) -> None:
        super().__init__(now_s)
        self._dice = dice
        self._soon: deque[Call] = deque()
        self._readers: dict[int, Call] = {}
        self._writers: dict[int, Call] = {}
        self._poll = select.poll()

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """After what is being done now."""
        self._soon.append((callback, args))

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> FakeTimer:
        """Once so much time has passed."""
        return self.call_at(self.time() + delay, callback, *args)

    def add_reader(self, fd: int, callback: Callable[..., object], *args: Any) -> None:
        """Whenever `serve` finds it readable."""
        self._readers[fd] = (callback, args)
        self._register(fd)

    def remove_reader(self, fd: int) -> None:
        """No more."""
        self._readers.pop(fd, None)
        self._register(fd)

    def add_writer(self, fd: int, callback: Callable[..., object], *args: Any) -> None:
        """Whenever `serve` finds that it takes more."""
        self._writers[fd] = (callback, args)
        self._register(fd)

    def remove_writer(self, fd: int) -> None:
        """No more."""
        self._writers.pop(fd, None)
        self._register(fd)

    def serve(self) -> bool:
        """Call back for one descriptor of those that are ready; False: there is none."""
        self.catch_up()
        ready = self._poll.poll(0)
        if not ready:
            return False
        fd, events = self._dice.choice(ready)
        known = self._readers.get(fd) if events & _READ else None
        known = known or self._writers.get(fd)
        if known is None:
            return False
        known[0](*known[1])
        self.catch_up()
        return True

    def catch_up(self) -> None:
        """Do what was put off."""
        while self._soon:
            callback, args = self._soon.popleft()
            callback(*args)

    def advance(self, by_s: float) -> None:
        """Let time pass, timer by timer."""
        end_s = self._now_s + by_s
        while self._timers and self._timers[0][0] <= end_s:
            super().advance(max(0.0, self._timers[0][0] - self._now_s))
            self.catch_up()
        super().advance(end_s - self._now_s)

    def _register(self, fd: int) -> None:
        wanted = (_READ if fd in self._readers else 0) | (
            select.POLLOUT if fd in self._writers else 0
        )
        if wanted:
            self._poll.register(fd, wanted)
            return
        try:
            self._poll.unregister(fd)
        except KeyError:
            pass  # asyncio does not mind either


class VirtualKernel:
    """Who lives: processes by number, each as long as its life's pipe is open."""

    def __init__(self) -> None:
        self._lives: dict[int, int] = {}
        """The write end of a pipe for each living process; nobody writes, it is closed."""
        self._read_ends: dict[int, int] = {}
        self._pids: dict[int, int] = {}
        """By pidfd."""
        self.stopped: set[int] = set()
        self.mapped: set[tuple[int, str]] = set()
        """Pids and names of the memfds that they have mapped."""
        self.killed: list[int] = []
        """By the agent, until somebody looks."""

    def begin(self, pid: int) -> None:
        """A process starts."""
        self._read_ends[pid], self._lives[pid] = os.pipe2(os.O_CLOEXEC)

    def end(self, pid: int) -> None:
        """It is dead: whoever watches a pidfd of it notices."""
        os.close(self._lives.pop(pid))
        os.close(self._read_ends.pop(pid))
        self.stopped.discard(pid)

    def pidfd_of(self, connection: socket.socket, pid: int, /) -> int:
        """Readable once it is dead; raises ProcessLookupError if it is already."""
        del connection
        if pid not in self._lives:
            raise ProcessLookupError(pid)
        fd = os.dup(self._read_ends[pid])
        self._pids[fd] = pid
        return fd

    def watch(self, pid: int, /) -> int:
        """The same, for any process."""
        if pid not in self._lives:
            raise ProcessLookupError(pid)
        return os.dup(self._read_ends[pid])

    def start_time(self, pid: int, /) -> int | None:
        """Its number, while it lives: numbers are not used again here."""
        return pid if pid in self._lives else None

    def name_of(self, pid: int, /) -> str:
        """Something to call it."""
        return f"process{pid}"

    def is_stopped(self, pid: int, /) -> bool:
        """Whether a signal stopped it."""
        return pid in self.stopped

    def has_mapped(self, pid: int, memfd: str, /) -> bool:
        """Whether it has such a memfd: if a test says so."""
        return (pid, memfd) in self.mapped

    def has_host_pids(self) -> bool:
        """Whether NVML knows processes by these numbers: it does."""
        return True

    def kill(self, pidfd: int, /) -> None:
        """Remember whom the agent ended."""
        self.killed.append(self._pids[pidfd])

    def give_way(self) -> None:
        """There is nobody else; on a busy machine a real one would cost most of a day's time."""


class LateExecutor(Executor):
    """Does what it is given when a test says so."""

    def __init__(self) -> None:
        self._jobs: deque[Call] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Put it off; nobody looks at the result."""
        assert not kwargs
        self._jobs.append((fn, args))
        return Future()

    def run_one(self) -> bool:
        """Do the oldest job; False: there is none."""
        if not self._jobs:
            return False
        call, args = self._jobs.popleft()
        call(*args)
        return True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Forget what was not begun."""
        del wait, cancel_futures
        self._jobs.clear()
