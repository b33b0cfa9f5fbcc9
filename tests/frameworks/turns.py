"""Programs that take turns until there were enough, and then say what they found."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Sequence

from moiety.testing.node import Node, finish


def wait_until_ready(programs: Sequence[subprocess.Popen[str]]) -> None:
    """Each has said so."""
    for program in programs:
        assert program.stdout
        assert program.stdout.readline() == "ready\n", program.communicate()[1]


def wait_for_handoffs(
    node: Node, programs: Sequence[subprocess.Popen[str]], least: int
) -> list[int]:
    """How many hand-offs each has had, which is `least` or more."""
    while True:
        counts = [row["handoffs"] for row in node.json("ps")]
        ended = [program.communicate()[1] for program in programs if program.poll() is not None]
        assert not ended, ended
        if len(counts) >= len(programs) and min(counts) >= least:
            return counts
        time.sleep(1)  # a command is a process, which takes the time of those it asks about


def end_well(programs: Sequence[subprocess.Popen[str]]) -> None:
    """Told that it is enough, each ends and found no wrong word."""
    for program in programs:
        program.send_signal(signal.SIGUSR1)
    for program in programs:
        code, out, err = finish(program)
        assert (code, out) == (0, "0 words wrong\n"), err
