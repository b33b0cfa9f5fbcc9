"""A test plays the agent of one program: it hears the program, and has its memory leave."""

from __future__ import annotations

import select
import subprocess
import time
from typing import Final

from moiety.wire.layout import EvictedFlag, Type
from moiety.wire.messages import AmountMessage, EvictedMessage
from tests.support.wire_fakes import FakeAgent

ALL: Final = 1 << 40
"""More bytes than a program has."""
DEADLINE_S: Final = 60.0


def next_line(agent: FakeAgent, process: subprocess.Popen[str]) -> str:
    """The program's next line, while the agent answers it."""
    assert process.stdout is not None
    deadline_s = time.monotonic() + DEADLINE_S
    while not select.select([process.stdout], [], [], 0)[0]:
        assert time.monotonic() < deadline_s, "the program says nothing"
        agent.hear(0.01)
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return line.rstrip("\n")


def order(agent: FakeAgent, size: int = ALL) -> None:
    """Have this many bytes leave."""
    agent.send(AmountMessage(Type.EVICT, 0, 0, size))


def until_evicted(agent: FakeAgent) -> tuple[int, EvictedMessage]:
    """What left, and the last word on it."""
    left = 0
    while True:
        step = agent.until(Type.EVICTED)
        assert isinstance(step, EvictedMessage)
        left += step.bytes
        if step.flags & EvictedFlag.LAST:
            return left, step


def restore(agent: FakeAgent) -> None:
    """Bring everything back."""
    agent.send(AmountMessage(Type.RESTORE_BUDGET, 0, 0, ALL))
    agent.until(Type.RESTORED)
