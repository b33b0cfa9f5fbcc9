"""The processes that use the GPUs, as NVML and /proc say: slow, so it runs beside the loop."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import Final

from moiety.agent.system.users import USERS, name_of
from moiety.devices.interface import Devices, GpuProcess
from moiety.devices.process_identity import Origin, origin_of, sees_host_pids
from moiety.enforcement.policy import Who

NAMED_S: Final = 0.02
"""Seconds that the system's tables may take to find a user's name, the first time: others wait for
the thread that asks NVML."""

Mark = tuple[int, int]
Found = tuple[dict[int, list[GpuProcess] | None], dict[int, Origin]]
"""By GPU its processes (None: NVML does not say), and by pid the identity of each process."""


class ProcessFinder:
    """Finds the processes on GPUs, and their users, containers and pods."""

    def __init__(self, devices: Devices, named_s: float = NAMED_S) -> None:
        """`named_s`: seconds that it waits at most for the name of a user."""
        self.is_blind = not sees_host_pids()
        """NVML's pids are of another PID namespace, so no process can be told from another."""
        self._devices = devices
        self._named_s = named_s
        self._origins: dict[int, tuple[Mark, Origin]] = {}

    def find(self, gpus: Iterable[int], since_us: int) -> Found:
        """Return what NVML says of these GPUs since that time (microseconds since 1970)."""
        found: dict[int, list[GpuProcess] | None] = {}
        for gpu in gpus:
            try:
                found[gpu] = self._devices.users(gpu, since_us)
            except Exception:  # NVML raises anything; GpuProbe reports that it does not answer
                found[gpu] = None
        pids = {process.pid for seen in found.values() for process in seen or ()}
        return found, {} if self.is_blind else self._origins_of(pids)

    def _origins_of(self, pids: set[int]) -> dict[int, Origin]:
        """Return their identities; an earlier answer counts while it is the same process."""
        found = {}
        for pid in pids:
            mark = mark_of(pid)
            before, known = self._origins.get(pid, (None, None))
            if mark is None or known is None or mark != before:
                known = origin_of(pid, name_of=name_of)
            if mark is None or known is None:
                continue
            user = USERS.wait_for(known.uid, self._named_s)
            if (user.name, user.is_known) != (known.user, known.is_named):
                known = dataclasses.replace(known, user=user.name, is_named=user.is_known)
            found[pid] = mark, known
        self._origins = found
        return {pid: known for pid, (_, known) in found.items()}


def mark_of(pid: int) -> Mark | None:
    """What no later process with this pid has: its folder in /proc; None: there is no such process.

    It takes a tenth of the time in which its start time is read.
    """
    try:
        found = os.stat(f"/proc/{pid}")
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def who_of(origin: Origin) -> Who:
    """Return a process as the policy knows it."""
    placed = origin.placement
    return Who(
        pid=origin.pid,
        started=origin.started,
        uid=origin.uid,
        user=origin.user,
        command=origin.command,
        container=placed.container,
        runtime=placed.runtime,
        pod=placed.pod,
        where=origin.where,
    )
