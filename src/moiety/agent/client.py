"""What the agent knows of one process with the shim in it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from moiety.agent.connection import Connection
from moiety.agent.lease_page import LeasePage
from moiety.model.errors import ProtocolError
from moiety.model.share import NOTHING_ASKED, Mode, Share
from moiety.wire.messages import WORK_BYTES, Counters, decode_counters, decode_work

REQUESTS_MAX = 4096
"""unanswered requests of one process; each thread can wait for one"""


@dataclass(slots=True, eq=False)
class Client:
    """One process, from its greeting until it is gone. `number` is the arbiter's tenant."""

    number: int
    workload: str
    pid: int
    started: int
    pidfd: int
    program: str
    uid: int
    connection: Connection
    page: LeasePage
    share: Share
    """what its workload is promised"""
    part: Share = NOTHING_ASKED
    """what this process is promised of that"""
    mode: Mode = Mode.SWAP
    """in which it was told to allocate"""
    resumed: bool = False
    fenced: bool = False
    """it has not answered since it was"""
    unspoken: set[int] = field(default_factory=set)
    """where it had a context when its connection broke, of which it has not spoken since"""
    gang: str = ""
    """with whom it holds GPUs (together.py); empty: it is in none"""
    shares: int = 0
    """SharedFlag: whether it uses memory together with others"""
    pinned: str = ""
    """the call that pinned it"""
    unknown: dict[str, int] = field(default_factory=dict)
    """calls of what its shim does not know, by name"""
    gpus: set[int] = field(default_factory=set)
    attaching: dict[int, int] = field(default_factory=dict)
    """GPU by the serial of the request that is not answered"""
    allocating: dict[int, int] = field(default_factory=dict)
    measured: set[int] = field(default_factory=set)
    """the GPUs where it is known what its context alone takes"""
    limits: dict[int, int] = field(default_factory=dict)
    """by GPU: what it was told that it may allocate"""

    def __str__(self) -> str:
        return f"{self.program} (pid {self.pid})"

    def counters(self) -> Counters:
        """What the process counted; zeros if it showed nothing. Never maps the client's memory."""
        fd = self.connection.counters_fd
        try:
            return decode_counters(os.pread(fd, 128, 0)) if fd >= 0 else Counters()
        except (OSError, ProtocolError):
            return Counters()

    def work(self) -> tuple[int, int, int]:
        """Nanoseconds that it spent draining, evicting and restoring; zeros if it shows nothing."""
        fd = self.connection.counters_fd
        try:
            return decode_work(os.pread(fd, WORK_BYTES, 0)) if fd >= 0 else (0, 0, 0)
        except OSError:
            return 0, 0, 0

    def dispose(self) -> None:
        """Let go of everything that the kernel keeps for it here."""
        self.connection.close()
        self.page.dispose()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
