"""What the kernel says about processes, as the agent asks it: processes.py, or a stand-in."""

from __future__ import annotations

import socket
from typing import Protocol


class Kernel(Protocol):
    """Facts about processes, and the two things that are done to them."""

    def pidfd_of(self, connection: socket.socket, pid: int, /) -> int:
        """Return a descriptor that is readable once the process at the other end is dead."""

    def watch(self, pid: int, /) -> int:
        """Return the same for any process; raises ProcessLookupError."""

    def start_time(self, pid: int, /) -> int | None:
        """Return when the process started; None if it is dead."""

    def name_of(self, pid: int, /) -> str:
        """Return its short name."""

    def is_stopped(self, pid: int, /) -> bool:
        """Tell whether the process cannot run for now (SIGSTOP, a frozen control group)."""

    def has_mapped(self, pid: int, memfd: str, /) -> bool:
        """Tell whether the process has a memfd of this name mapped; True if that cannot be told."""

    def has_host_pids(self) -> bool:
        """Tell whether pids are the host's, as in NVML's lists; not so in most containers."""

    def kill(self, pidfd: int, /) -> None:
        """End the process."""

    def give_way(self) -> None:
        """Yield this processor to another thread."""
