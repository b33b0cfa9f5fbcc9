"""How an agent takes over the workloads of the last one, also where the system is short."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Final

from moiety.agent.control.records import Record
from moiety.agent.control.workloads import Workloads
from moiety.agent.core.runtime import Runtime

AGAIN_S: Final = 0.5
"""Seconds between two attempts to make a socket."""
PASSES: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS}
)
"""Errors that end by themselves, or when files are removed."""


class Adoption:
    """The workloads of the last agent that are still to be taken over.

    Programs look for their socket where it was. A file system without free inodes may refuse the
    new one; their programs wait then, and get their agent as soon as it can be made.
    """

    def __init__(self, workloads: Workloads, runtime: Runtime) -> None:
        self._workloads = workloads
        self._runtime = runtime
        self.waiting: list[Record] = []
        """Workloads without a socket; the agent does not end while there are some."""

    def adopt(self, records: Iterable[Record]) -> None:
        """Take over these, and try again later where the system refuses for now."""
        self.waiting = [record for record in records if not self._is_done(record)]
        if self.waiting:
            self._runtime.call_at(self._runtime.now() + AGAIN_S, self._again)

    def _again(self) -> None:
        self.adopt(self.waiting)

    def _is_done(self, record: Record) -> bool:
        try:
            self._workloads.adopt(record)
        except OSError as error:
            if record not in self.waiting:
                self._tell(record, error)
            return error.errno not in PASSES
        return True

    def _tell(self, record: Record, error: OSError) -> None:
        log = self._runtime.log
        if error.errno in PASSES:
            log.warning("workload_waits", workload=record.id, problem=str(error))
        else:  # its folder was removed
            log.error("workload_lost", workload=record.id, problem=str(error))
