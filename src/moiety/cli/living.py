"""The processes of one program, held by descriptors that no later process with the pid can have."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from moiety.agent.control import protocol
from moiety.agent.control.client import call
from moiety.agent.control.rows import ProcessRow
from moiety.agent.system.paths import find
from moiety.cli.selection import processes_of


@contextlib.contextmanager
def living(target: str) -> Iterator[dict[int, ProcessRow]]:
    """By pidfd: the living processes that `target` means; the pidfds are closed at the end.

    Raises what `processes_of` raises, and NoAgent.
    """
    with call(find()) as agent, contextlib.ExitStack() as stack:
        rows = processes_of(agent.ask(protocol.Ps(), protocol.Processes).rows, target)
        opened: dict[int, ProcessRow] = {}
        for row in {row.pid: row for row in rows}.values():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                pidfd = os.pidfd_open(row.pid)
                stack.callback(os.close, pidfd)
                opened[pidfd] = row
        # A process that the agent still lists had its pid when the descriptor was opened.
        again = agent.ask(protocol.Ps(), protocol.Processes).rows
        known = {(row.tenant, row.pid) for row in again}
        yield {fd: row for fd, row in opened.items() if (row.tenant, row.pid) in known}
