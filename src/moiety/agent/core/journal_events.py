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
    "AgentStopped": (NORMAL, "it ended in order; without this line it was killed"),
    "SettingsChanged": (NORMAL, "`moiety set --agent` changed how it decides"),
    "Reloaded": (NORMAL, "the configuration was read again, and counts as it is written now"),
    "ReloadRefused": (WARNING, "the configuration is wrong; what was read before still counts"),
    "ShareChanged": (NORMAL, "`moiety set` changed what a program is promised"),
    "Joined": (NORMAL, "a process shares the GPUs from now on"),
    "Left": (NORMAL, "it does not any more, and why"),
    "Evicted": (NORMAL, "memory of a process was moved to the host so that others have room"),
    "AboveLimit": (WARNING, "a process has more memory than its limit, which was lowered"),
    "Refused": (WARNING, "a program did not get memory, a GPU, or what a command asked, and why"),
    "Gang": (WARNING, "processes that belong together do not hold the GPUs together yet, and why"),
    "HostMemoryShort": (WARNING, "the host is short of memory: less can be evicted than was meant"),
    "HostMemoryEnough": (NORMAL, "the host has enough again"),
    "Pinned": (WARNING, "a process made a call after which its memory cannot leave the GPU"),
    "UnknownCall": (WARNING, "a process used a function of the driver that moiety does not know"),
    "ConnectionLost": (WARNING, "a process closed its connection to the agent, and may come back"),
    "Missing": (WARNING, "a process of the last agent has not found this one; its memory counts"),
    "BadMessage": (WARNING, "a process said what makes no sense and was hung up on"),
    "Overdue": (WARNING, "a process does not give the GPU back, or does not move its memory"),
    "Fenced": (WARNING, "others do without what an overdue process has, until it answers"),
    "Killed": (WARNING, "a process was ended, because the agent was told to, and for what"),
    "GpuError": (WARNING, "the driver reports an error of a GPU (XID), and who uses it"),
    "GpuUnreadable": (WARNING, "NVML does not answer about a GPU"),
    "WatchBlind": (WARNING, "the watch cannot know who uses the GPUs: the agent sees other pids"),
    "Unregistered": (WARNING, "a process uses a GPU without moiety: whose it is, how much it uses"),
    "OverLimit": (WARNING, "a process has more GPU memory than it may, as the driver counts"),
    "WithoutLease": (WARNING, "a process' work ran on a GPU while it had no lease"),
    "Spared": (WARNING, "the watch was to end a process, and may not"),
    "WouldAct": (WARNING, "what the watch would have done, if it did more than say so"),
    "OffenceOver": (NORMAL, "what the watch found wrong with a process is so no more"),
    "SlowNeighbour": (WARNING, "a process cost others much time within a minute, in figures"),
    "Idle": (NORMAL, "a process has done nothing on a GPU for long, and what it holds"),
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
