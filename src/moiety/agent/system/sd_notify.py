"""What the agent tells the service manager that started it (the protocol of sd_notify(3))."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping

from moiety.agent.system.event_loop import DelayLoop


class ServiceManager:
    """The service manager that listens at $NOTIFY_SOCKET; without one, nothing is sent."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """Read the socket's path from the environment; raises nothing."""
        known = os.environ if environment is None else environment
        self._path = known.get("NOTIFY_SOCKET", "")
        self._watchdog_s = 0.0
        if known.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            try:
                self._watchdog_s = int(known.get("WATCHDOG_USEC", "0")) / 1e6
            except ValueError:
                pass  # then there is no watchdog

    @property
    def listens(self) -> bool:
        """Whether there is a service manager."""
        return bool(self._path)

    def tell(self, *lines: str) -> None:
        """Send these lines in one message; a manager that cannot be reached is no error."""
        if not self._path:
            return
        # An abstract socket is written with an @ in front.
        address = "\0" + self._path[1:] if self._path.startswith("@") else self._path
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto("\n".join(lines).encode(), address)
        except OSError:
            pass

    def ready(self, status: str) -> None:
        """Say that the agent serves programs; also after a reload."""
        self.tell("READY=1", f"STATUS={status}", f"MAINPID={os.getpid()}")

    def reloading(self) -> None:
        """Say that the configuration is read again; `ready` ends it."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.tell("RELOADING=1", f"MONOTONIC_USEC={now_us}")

    def stopping(self, status: str) -> None:
        """Say that the agent is about to end."""
        self.tell("STOPPING=1", f"STATUS={status}")

    def keep_told(self, loop: DelayLoop, status: Callable[[], str], every_s: float = 10.0) -> None:
        """Show signs of life from the loop itself, so that one that hangs shows none."""
        if not self._path:
            return
        signs = ["WATCHDOG=1"] if self._watchdog_s else []
        self.tell(*signs, f"STATUS={status()}")
        if self._watchdog_s:
            every_s = min(every_s, self._watchdog_s / 3)
        loop.call_later(every_s, self.keep_told, loop, status, every_s)
