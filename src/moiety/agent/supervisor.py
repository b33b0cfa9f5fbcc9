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
SUCCESSION_S = 60.0
"""The same, if the agent is to be replaced by one that stands by."""
AFTER = "--after-fd"
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
    """Keep the agent with these arguments alive.

    They are LOCK-FILE READY-FD [--after-fd FD] AGENT-ARGUMENTS...; with --after-fd the first agent
    is started at once, and stands by while the supervisor before this one ends.
    """
    if os.fork():
        os._exit(0)  # the process that started this one waits only for this, and keeps no child
    ready_fd = int(arguments[1])
    after = list(arguments[2:4]) if arguments[2:3] == [AFTER] else []
    rest = arguments[2 + len(after) :]
    command = [sys.executable, "-m", "moiety.agent", "--ready-fd", str(ready_fd)]

    # Each one gets it: an agent that is killed before it is ready has told nothing.
    os.set_inheritable(ready_fd, True)

    def start(*options: str) -> int:
        child = os.fork()
        if child == 0:
            be_a_child()
            os.execv(command[0], [*command, *options, *rest])
        return child

    first = []
    if after:
        os.set_inheritable(int(after[1]), True)
        first.append(start(*after))
        os.close(int(after[1]))
    try:
        patience_s = SUCCESSION_S if first else PREDECESSOR_S
        lock = file_lock.take(Path(arguments[0]), str(os.getpid()), patience_s)
    except file_lock.LockHeld:
        for child in first:
            os.kill(child, signal.SIGKILL)
        return 0  # the other supervisor brings an agent
    status = supervise(lambda: first.pop() if first else start())
    lock.release()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
