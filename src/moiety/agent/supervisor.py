"""Keeps one agent alive: starts it again when a signal killed it, and ends when it ends.

This process imports next to nothing, so it is small, and there is little in it that can fail.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from moiety.agent.system import file_lock

ENDINGS = (signal.SIGTERM, signal.SIGINT)
BACKOFF_FIRST_S = 0.05
BACKOFF_MAX_S = 5.0
PREDECESSOR_S = 2.0
"""Seconds that an earlier supervisor may take to end."""
STEADY_S = 10.0
"""An agent that ran for this long is started again without a delay."""


def supervise(start: Callable[[], int], sleep: Callable[[float], None] = time.sleep) -> int:
    """Run children made by `start` (which returns a pid) until one exits by itself.

    Returns its exit status. SIGTERM and SIGINT are passed on to the child; they are blocked while
    `start` runs, so that none is lost between two processes.
    """
    child = 0
    ending = False

    def forward(number: int, frame: FrameType | None) -> None:
        nonlocal ending
        del frame
        ending = True
        if child:
            try:
                os.kill(child, number)
            except ProcessLookupError:
                pass

    for number in ENDINGS:
        signal.signal(number, forward)
    backoff_s = 0.0
    while True:
        began_s = time.monotonic()
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
        child = start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
        if ending:  # the signal came while there was no child to pass it to
            forward(signal.SIGTERM, None)
        _, status = os.waitpid(child, 0)
        child = 0
        if os.WIFEXITED(status):
            return os.WEXITSTATUS(status)
        if ending:
            return 0
        if time.monotonic() - began_s >= STEADY_S:
            backoff_s = 0.0
        sleep(backoff_s)
        backoff_s = min(BACKOFF_MAX_S, max(BACKOFF_FIRST_S, backoff_s * 2))


def be_a_child() -> None:
    """Give a forked process the usual meaning of the signals that this one passes on."""
    for number in ENDINGS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)


def main(arguments: Sequence[str]) -> int:
    """Keep the agent with these arguments alive: LOCK-FILE READY-FD AGENT-ARGUMENTS..."""
    if os.fork():
        os._exit(0)  # the process that started this one waits only for this, and keeps no child
    try:
        lock = file_lock.take(Path(arguments[0]), str(os.getpid()), PREDECESSOR_S)
    except file_lock.LockHeld:
        return 0  # the other supervisor brings an agent
    ready_fd = int(arguments[1])
    command = [sys.executable, "-m", "moiety.agent"]

    # Each one gets it: an agent that is killed before it is ready has told nothing.
    os.set_inheritable(ready_fd, True)

    def start() -> int:
        child = os.fork()
        if child == 0:
            be_a_child()
            os.execv(command[0], [*command, "--ready-fd", str(ready_fd), *arguments[2:]])
        return child

    status = supervise(start)
    lock.release()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
