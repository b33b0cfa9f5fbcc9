"""Programs that take turns until there were enough, and then say what they found."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence

from moiety.testing.node import Node, finish
from moiety.testing.waiting import until

WAIT_S = 400.0
"""Frameworks are slow: pytest ends a test before this."""


def wait_until_ready(programs: Sequence[subprocess.Popen[str]]) -> None:
    """Each has said so."""
    for program in programs:
        assert program.stdout
        assert program.stdout.readline() == "ready\n", program.communicate()[1]


def wait_for_handoffs(
    node: Node, programs: Sequence[subprocess.Popen[str]], least: int
) -> list[int]:
    """How many hand-offs each has had, which is `least` or more."""

    def are_enough() -> list[int]:
        ended = [program.communicate()[1] for program in programs if program.poll() is not None]
        assert not ended, ended
        counts = [row["handoffs"] for row in node.json("ps")]
        return counts if len(counts) >= len(programs) and min(counts) >= least else []

    found: list[int] = until(are_enough, f"each had {least} hand-offs", deadline_s=WAIT_S)
    return found


def end_well(programs: Sequence[subprocess.Popen[str]]) -> None:
    """Told that it is enough, each ends and found no wrong word."""
    for program in programs:
        program.send_signal(signal.SIGUSR1)
    for program in programs:
        code, out, err = finish(program)
        assert (code, out) == (0, "0 words wrong\n"), err
