"""The processes of one program, held by descriptors that no later process with the pid can have."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

from moiety.agent.control import protocol
from moiety.agent.control.client import call
from moiety.agent.control.rows import ProcessRow
from moiety.agent.system.paths import find
from moiety.cli.selection import processes_of
from moiety.model.errors import NotAllowed, WorkloadUnknown


@contextlib.contextmanager
def living(target: str) -> Iterator[dict[int, ProcessRow]]:
    """By pidfd: the living processes that `target` means; the pidfds are closed at the end.

    Raises what `processes_of` raises, and NoAgent.
    """
    asked = protocol.Ps(workloads=True)
    with call(find()) as agent, contextlib.ExitStack() as stack:
        rows = processes_of(agent.ask(asked, protocol.Processes).rows, target)
        opened: dict[int, ProcessRow] = {}
        for row in {row.pid: row for row in rows}.values():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                pidfd = os.pidfd_open(row.pid)
                stack.callback(os.close, pidfd)
                opened[pidfd] = row
        # A process that the agent still lists had its pid when the descriptor was opened.
        again = agent.ask(asked, protocol.Processes).rows
        known = {(row.workload, row.pid) for row in again}
        yield {fd: row for fd, row in opened.items() if (row.workload, row.pid) in known}


def send(pidfd: int, row: ProcessRow, number: signal.Signals) -> bool:
    """Send a signal to a process; False if it has just ended. Raises NotAllowed."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        raise NotAllowed(
            f"{row.program} (pid {row.pid}) is a program of {row.user}",
            "one of your own (`moiety ps`), or do it as root",
        ) from None
    return True


def end(chosen: ProcessRow) -> str:
    """Send SIGTERM to the process that a row named, and say so.

    Raises WorkloadUnknown if it is gone, NotAllowed, and NoAgent. Another process that got its pid
    or its tenant's number is not meant: it is of another workload.
    """
    with living(chosen.workload or str(chosen.tenant)) as processes:
        for pidfd, row in processes.items():
            same = (row.pid, row.workload) == (chosen.pid, chosen.workload)
            if same and send(pidfd, row, signal.SIGTERM):
                return f"SIGTERM sent to {row.program} (pid {row.pid})"
    raise WorkloadUnknown(chosen.program)
