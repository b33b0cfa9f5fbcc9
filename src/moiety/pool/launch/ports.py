"""Ports of this machine for the processes of a workload to meet at."""

from __future__ import annotations

import random
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from moiety.model.errors import BadArgument

FIRST: Final = 20000
USUAL_END: Final = 32768
"""The kernel gives ports from here on to those who name none, unless it was told otherwise."""
RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(slots=True)
class PortBook:
    """Gives out ports, each one again only after all others."""

    first: int = FIRST
    end: int = 0
    """After the last one; 0: where the kernel's own begin."""
    _next: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.end = self.end or _end_of_ours(self.first)
        self._next = random.randrange(self.first, self.end)  # another server may have begun there

    def take(self, count: int) -> int:
        """The first of `count` ports in a row that are free now; raises BadArgument."""
        with self._lock:
            for _ in range(self.end - self.first):
                start = self._next if self._next + count <= self.end else self.first
                busy = next((p for p in range(start, start + count) if not _is_free(p)), None)
                self._next = start + count if busy is None else busy + 1
                if busy is None:
                    return start
        raise BadArgument(f"no {count} ports in a row are free", "fewer --tasks")


def _end_of_ours(first: int) -> int:
    try:
        low = int(RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return USUAL_END
    return low if low > first + 1000 else USUAL_END


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("", port))
        except OSError:
            return False
    return True
