"""The events of the journal: their form, and their reasons.

The names of the reasons follow Kubernetes' style, so that they can be passed on there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

WARNING: Final = "warning"
NORMAL: Final = "normal"


class EventReason(NamedTuple):
    """What a reason of events means."""

    severity: str
    """`normal` or `warning`."""
    meaning: str
    advice: str = ""
    """What an administrator can do; empty if nothing has to be done."""


REASONS: Final = {
    "AgentStarted": EventReason(NORMAL, "an agent serves this node"),
    "AgentStopped": EventReason(
        NORMAL,
        "the agent ended normally; without this event it was killed",
        "`moiety agent start`, or the next `moiety run`, starts an agent",
    ),
    "SettingsChanged": EventReason(NORMAL, "`moiety set --agent` changed the agent's settings"),
    "Reloaded": EventReason(NORMAL, "the agent read its configuration again and uses it"),
    "ReloadRefused": EventReason(
        WARNING,
        "the configuration has a mistake; the agent keeps its old settings",
        "correct the setting that the message names, then `moiety agent reload`",
    ),
    "GpuDrained": EventReason(
        NORMAL,
        "an administrator drained a GPU: it gets no new programs",
        "`moiety gpu resume` gives it back",
    ),
    "GpuResumed": EventReason(NORMAL, "a GPU that was drained gets new programs again"),
    "GpuMoved": EventReason(
        NORMAL,
        "another GPU is kept for a program that has used none yet: its own was drained or lost, or "
        "the other became free",
    ),
    "ShareChanged": EventReason(NORMAL, "`moiety set` changed the share of a program"),
    "Suspended": EventReason(
        NORMAL,
        "a program gets no turns, and its memory has left the GPU as far as it can",
        "`moiety resume` lets it go on",
    ),
    "Resumed": EventReason(NORMAL, "a program that was suspended gets turns again"),
    "Joined": EventReason(NORMAL, "a process shares the GPUs from now on"),
    "Left": EventReason(NORMAL, "a process no longer shares the GPUs, and why"),
    "Evicted": EventReason(
        NORMAL, "memory of a process was moved to the host to make room for others"
    ),
    "AboveLimit": EventReason(
        WARNING,
        "a process has more memory than its limit, which was lowered",
        "nothing if the program frees memory by itself; else end it, or raise its limit with "
        "`moiety set --memory-limit`",
    ),
    "Refused": EventReason(
        WARNING,
        "a request for memory, a GPU or a command was refused, and why",
        "the message says what was asked for and what there is: ask for less, or wait until "
        "other programs end",
    ),
    "Gang": EventReason(
        WARNING,
        "the members of a gang do not hold their GPUs together yet, and why",
        "put right what the message names; docs/howto-gangs.md lists the causes",
    ),
    "HostMemoryShort": EventReason(
        WARNING,
        "the host is short of memory: less can be evicted than planned",
        "free memory of the host, or give the agent a smaller arena (`--arena`)",
    ),
    "HostCopyDamaged": EventReason(
        WARNING,
        "memory of a process changed while it was in host memory: the process gets an error where "
        "it uses that memory, and computes nothing from it",
        "start the program again; look for memory errors of the host (`dmesg`, `edac-util`), and "
        "for a program that writes into the memory of others",
    ),
    "HostFull": EventReason(
        WARNING,
        "a program waits, because the host has no room for data of others that would have to leave "
        "the GPU; memory is overcommitted",
        "end one of the programs, raise `arena`, or lower `overcommit` in the section [memory]",
    ),
    "HostMemoryEnough": EventReason(NORMAL, "the host has enough memory again"),
    "Pinned": EventReason(
        WARNING,
        "a process made a call after which its memory cannot leave the GPU",
        "end the program if others need its memory; the message names the call",
    ),
    "UnknownCall": EventReason(
        WARNING,
        "a process used a function of the driver that moiety does not know",
        "report the name of the function; docs/compatibility.md lists what is known to work",
    ),
    "ConnectionLost": EventReason(
        WARNING,
        "a process closed its connection to the agent, and may come back",
        "nothing if the process connects again; else look for a crash in the program's own output",
    ),
    "Missing": EventReason(
        WARNING,
        "a process of the last agent has not connected yet; its memory counts",
        "wait some seconds; if the process is stopped, continue it (`kill -CONT`) or end it",
    ),
    "BadMessage": EventReason(
        WARNING,
        "a process sent an invalid message and was disconnected",
        "install the same version of moiety for the program and the agent; else report it "
        "with `moiety doctor --bundle`",
    ),
    "Overdue": EventReason(
        WARNING,
        "a process does not give the GPU back, does not move its memory, does not answer what host "
        "memory it can give back, or shuts others out with memory that cannot leave",
        "`moiety ps` shows the process; end it if it hangs, or let the agent do so with "
        "`moiety set --agent --overdue kill`",
    ),
    "Fenced": EventReason(
        WARNING,
        "an overdue process gets no lease until it answers; others continue",
        "end the process if it hangs; otherwise it continues after it answers",
    ),
    "Killed": EventReason(
        WARNING,
        "the agent ended a process, as it is configured to, and why",
        "correct the program; the message says what it did",
    ),
    "GpuError": EventReason(
        WARNING,
        "the driver reports an error of a GPU (XID); the processes that use it",
        "look up the XID in NVIDIA's list and in the kernel's log; reset the GPU if errors "
        "continue",
    ),
    "GpuUnreadable": EventReason(
        WARNING,
        "NVML does not answer about a GPU",
        "run `nvidia-smi`; if it fails too, reload the driver or restart the node",
    ),
    "WatchBlind": EventReason(
        WARNING,
        "the watch cannot find GPU processes: the agent sees other pids",
        "run the agent on the host, or in a container with `--pid=host`",
    ),
    "Unregistered": EventReason(
        WARNING,
        "a process uses a GPU without moiety: its user and how much it uses",
        "ask the user to start the program with `moiety run`; the watch (docs/watch.md) can end "
        "such programs",
    ),
    "OverLimit": EventReason(
        WARNING,
        "a process has more GPU memory than its limit, as the driver counts",
        "raise the limit with `moiety set --memory-limit`, or end the program",
    ),
    "Unreported": EventReason(
        WARNING,
        "a process has far more GPU memory than it reported; found when a driver ran out",
        "end the program if others need the memory; `moiety ps` shows what counts for it",
    ),
    "ContextMissing": EventReason(
        WARNING,
        "a process announced a context and the driver knows of none; no room is kept for it",
        "none: the context counts once it is made; end the program if it only takes room",
    ),
    "WithoutLease": EventReason(
        WARNING,
        "work of a process ran on a GPU while the process had no lease",
        "end the program, and report it with `moiety doctor --bundle` if it was started with "
        "`moiety run`",
    ),
    "Spared": EventReason(
        WARNING,
        "the watch should end a process, and is not permitted to",
        "end the process yourself; the message says why the agent may not",
    ),
    "WouldAct": EventReason(
        WARNING,
        "what the watch would have done without `dry-run`",
        "set `dry-run = false` in the section `watch` of the configuration if the watch is to act",
    ),
    "OffenceOver": EventReason(NORMAL, "an offence that the watch found has ended"),
    "SlowNeighbour": EventReason(
        WARNING,
        "a process made others wait for long within a minute, and how long",
        "give the program a smaller share or a lower priority with `moiety set`, or run it alone",
    ),
    "UnequalDivision": EventReason(
        WARNING,
        "a GPU gives a program more than an equal part beside others, or MPS serves several: it "
        "takes turns",
        "stop NVIDIA's MPS (`echo quit | nvidia-cuda-mps-control`) if it serves the programs; else "
        "nothing: parts hold by turns",
    ),
    "EqualDivision": EventReason(NORMAL, "a program holds a GPU beside others again"),
    "Idle": EventReason(
        NORMAL,
        "a process has been idle on a GPU for long, and what it holds",
        "ask the user to end the program if it is not needed",
    ),
}
"""By the name of the reason."""


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
    """The user that it concerns."""
    labels: dict[str, str] = {}
    """Labels of the share, or of the pod: namespace, pod, container."""
    pod: str = ""
    """The UID of the pod, for a process that is no client."""
