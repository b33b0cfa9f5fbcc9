"""The environment and the folder of a workload that runs, for a command beside it.

The kernel lets only its user, and root, read them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from moiety.agent.system import processes
from moiety.model.errors import NotAllowed, WorkStateWrong
from moiety.pool.model.records import WorkRow
from moiety.pool.starter.records import ProcessIdentity


@dataclass(frozen=True, slots=True)
class Attached:
    """What a command beside a workload inherits from it."""

    environment: dict[str, str]
    folder: str

    @classmethod
    def of(cls, process: ProcessIdentity, row: WorkRow) -> Attached:
        """What its main process has; raises NotAllowed, and WorkStateWrong if that has ended."""
        try:
            environment = variables(Path(f"/proc/{process.pid}/environ").read_bytes())
            folder = os.readlink(f"/proc/{process.pid}/cwd")
        except PermissionError:
            raise NotAllowed(
                f"workload {row.shown_id} is of {row.user}, who alone may run commands in it",
                "one of your own: `moiety queue`",
            ) from None
        except OSError:
            environment, folder = {}, ""
        if not processes.is_alive(process.pid, process.start_ticks) or not folder:
            raise WorkStateWrong(f"workload {row.shown_id} has just ended", "`moiety history`")
        return cls(environment, folder)


def variables(content: bytes) -> dict[str, str]:
    """The variables in the form of the kernel: each ends with a NUL."""
    parts = (part.decode("utf-8", "surrogateescape") for part in content.split(b"\0"))
    return dict(part.split("=", 1) for part in parts if "=" in part)
