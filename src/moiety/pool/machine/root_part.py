"""The root part of a machine's pool, as root's commands find it."""

from __future__ import annotations

import os
import signal
import socket

from moiety.agent.system import processes
from moiety.pool.paths import PoolPaths


def is_machines(paths: PoolPaths) -> bool:
    """Whether this command brings up a pool of all users, with a starter."""
    return paths.agent.shared and os.geteuid() == 0


def starter_pid(paths: PoolPaths) -> int | None:
    """The process of the starter; None if there is none that takes servers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as probe:
        try:
            probe.connect(str(paths.starter))
        except OSError:
            return None
        peer = processes.peer_of(probe)
    return peer.pid if peer.uid == os.geteuid() else None


def stop_starter(paths: PoolPaths) -> None:
    """Let the starter end after the last workload; nothing happens if there is none."""
    pid = starter_pid(paths)
    if pid is None:
        return
    pidfd = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    finally:
        os.close(pidfd)
