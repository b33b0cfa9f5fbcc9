"""What the agent knows of one process with the shim in it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from moiety.agent.core.connection import Connection
from moiety.agent.core.lease_page import LeasePage
from moiety.agent.system.users import name_of
from moiety.model.errors import ProtocolError
from moiety.model.share import NOTHING_ASKED, Mode, Share
from moiety.wire.codec import WORK_BYTES, Counters, decode_counters, decode_work
from moiety.wire.messages import PinMessage
from moiety.wire.structs import COUNTERS_BYTES, offsets, packer

SLOTS_AT = offsets("mw_counters")["slots"]
SLOT_BYTES = packer("mw_slot").size
SLOTS_A_LOOK = 16
REQUESTS_MAX = 4096
"""Most unanswered requests of one process; each thread can wait for one."""


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
    """The user to whose workload it belongs."""
    account: int
    """The user whose limits count it: another than `uid` for a subordinate user."""
    connection: Connection
    page: LeasePage
    share: Share
    """The share of its workload."""
    part: Share = NOTHING_ASKED
    """This process' part of that share."""
    mode: Mode = Mode.SWAP
    """The mode in which it was told to allocate."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels of its share, for metrics and events."""
    may_use: frozenset[bytes] = frozenset()
    """UUIDs of the GPUs of its share; empty: any."""
    resumed: bool = False
    fenced: bool = False
    """True from when it is fenced until it answers."""
    unspoken: set[int] = field(default_factory=set)
    """GPUs where it had a context when its connection broke, not mentioned since."""
    talks: bool = False
    """True if it is interactive: its terminal shows why it waits (wait_messages.py)."""
    gang: str = ""
    """The gang with which it holds GPUs (gang_detection.py); empty: none."""
    shares: int = 0
    """SharedFlag: whether it exported or imported memory that moiety does not track."""
    pinned: str = ""
    """The call that pinned all of it; empty: none."""
    pins: dict[str, int] = field(default_factory=dict)
    """By call: how many bytes were pinned by it one by one, since all could leave last."""
    pinning: dict[int, PinMessage] = field(default_factory=dict)
    """By serial: requests to pin that are not answered."""
    unknown: dict[str, int] = field(default_factory=dict)
    """By name: calls of functions that its shim does not know."""
    peaks: dict[int, int] = field(default_factory=dict)
    """By GPU that it ever attached: the most bytes of it that were there at one time."""
    gpus: set[int] = field(default_factory=set)
    attaching: dict[int, int] = field(default_factory=dict)
    """By serial of a request that is not answered: the GPU."""
    allocating: dict[int, int] = field(default_factory=dict)
    limits: dict[int, int] = field(default_factory=dict)
    """By GPU: the limit that it was told."""

    def __str__(self) -> str:
        return f"{self.program} (pid {self.pid})"

    @property
    def anonymous(self) -> str:
        """What users may tell each other about it."""
        return f"tenant {self.number} of {name_of(self.uid)}"

    def name_for(self, viewer: Client | None) -> str:
        """The name that `viewer` may see: the program's, or `anonymous` for another user."""
        return str(self) if viewer and viewer.uid == self.uid else self.anonymous

    def counters(self) -> Counters:
        """The counters of the process; zeros if it has no page. Never maps the client's memory."""
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

    def calls(self) -> tuple[int, bool]:
        """How many calls passed its gate so far, and whether a thread is inside one now.

        A thread that ended takes its calls along: what matters is whether the number changes.
        """
        fd = self.connection.counters_fd
        passes, inside = 0, False
        at = SLOTS_AT
        while fd >= 0 and at < COUNTERS_BYTES:
            try:
                page = os.pread(fd, SLOTS_A_LOOK * SLOT_BYTES, at)
            except OSError:
                break
            page = page[: len(page) - len(page) % SLOT_BYTES]
            words = memoryview(page).cast("I")
            passes += sum(memoryview(page).cast("Q")[1 :: SLOT_BYTES // 8])
            inside = inside or any(words[0 :: SLOT_BYTES // 4]) or any(words[1 :: SLOT_BYTES // 4])
            if not any(words[4 :: SLOT_BYTES // 4]):
                break  # slots are taken from the first on
            at += len(page)
        return passes, inside

    def dispose(self) -> None:
        """Close the connection, the lease page and the pidfd."""
        self.connection.close()
        self.page.dispose()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
