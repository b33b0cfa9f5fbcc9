"""The events of the journal: their form, and their reasons.

The names of the reasons follow Kubernetes' style, so that they can be passed on there.
"""

from __future__ import annotations

from typing import Final

import msgspec

WARNING: Final = "warning"
NORMAL: Final = "normal"

REASONS: Final = {
    "AgentStarted": (NORMAL, "an agent serves this node"),
    "AgentStopped": (NORMAL, "the agent ended normally; without this event it was killed"),
    "SettingsChanged": (NORMAL, "`moiety set --agent` changed the agent's settings"),
    "Reloaded": (NORMAL, "the agent read its configuration again and uses it"),
    "ReloadRefused": (WARNING, "the configuration has a mistake; the agent keeps its old settings"),
    "ShareChanged": (NORMAL, "`moiety set` changed the share of a program"),
    "Joined": (NORMAL, "a process shares the GPUs from now on"),
    "Left": (NORMAL, "a process no longer shares the GPUs, and why"),
    "Evicted": (NORMAL, "memory of a process was moved to the host to make room for others"),
    "AboveLimit": (WARNING, "a process has more memory than its limit, which was lowered"),
    "Refused": (WARNING, "a request for memory, a GPU or a command was refused, and why"),
    "Gang": (WARNING, "the members of a gang do not hold their GPUs together yet, and why"),
    "HostMemoryShort": (WARNING, "the host is short of memory: less can be evicted than planned"),
    "HostMemoryEnough": (NORMAL, "the host has enough again"),
    "Pinned": (WARNING, "a process made a call after which its memory cannot leave the GPU"),
    "UnknownCall": (WARNING, "a process used a function of the driver that moiety does not know"),
    "ConnectionLost": (WARNING, "a process closed its connection to the agent, and may come back"),
    "Missing": (WARNING, "a process of the last agent has not connected yet; its memory counts"),
    "BadMessage": (WARNING, "a process sent an invalid message and was disconnected"),
    "Overdue": (WARNING, "a process does not give the GPU back, or does not move its memory"),
    "Fenced": (
        WARNING,
        "an overdue process gets no lease until it answers; others continue",
    ),
    "Killed": (WARNING, "the agent ended a process, as it is configured to, and why"),
    "GpuError": (WARNING, "the driver reports an error of a GPU (XID); the processes that use it"),
    "GpuUnreadable": (WARNING, "NVML does not answer about a GPU"),
    "WatchBlind": (
        WARNING,
        "the watch cannot find GPU processes: the agent sees other pids",
    ),
    "Unregistered": (WARNING, "a process uses a GPU without moiety: its user and how much it uses"),
    "OverLimit": (WARNING, "a process has more GPU memory than its limit, as the driver counts"),
    "WithoutLease": (WARNING, "work of a process ran on a GPU while the process had no lease"),
    "Spared": (WARNING, "the watch should end a process, and is not permitted to"),
    "WouldAct": (WARNING, "what the watch would have done without `dry-run`"),
    "OffenceOver": (NORMAL, "an offence that the watch found has ended"),
    "SlowNeighbour": (
        WARNING,
        "a process made others wait for long within a minute, and how long",
    ),
    "Idle": (NORMAL, "a process has been idle on a GPU for long, and what it holds"),
}
"""By reason: the severity, and what it means."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of the journal."""

    number: int
    """Increasing, over all agents of the same directory."""
    at_s: float
    """Seconds since 1970."""
    severity: str
    """`normal` or `warning`."""
    reason: str
    message: str
    tenant: int | None = None
    pid: int | None = None
    program: str = ""
    workload: str = ""
    gpu: int | None = None
    uid: int | None = None
    """The user whom it concerns."""
    labels: dict[str, str] = {}
    """Labels of the share, or of the pod: namespace, pod, container."""
    pod: str = ""
    """The UID of the pod, for a process that shares nothing."""
