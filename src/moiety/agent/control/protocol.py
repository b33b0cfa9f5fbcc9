"""What commands and the agent say to each other on the control socket: one JSON line each.

The first line is `Hello`, and its layout is kept in every version, like that of its answers
`Here` and `Failed`: so two versions can still tell each other apart. An agent answers commands of
its own version of the protocol and of the one before, whatever the version of moiety: a new field
has a default, and a field that is not known is ignored.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from types import UnionType
from typing import Any

import msgspec

from moiety.agent.control.answers import (
    ANSWER_TAG,
    Answer,
    Contained,
    ContainerRows,
    Created,
    Done,
    Failed,
    GpuList,
    Happened,
    Here,
    NodeStatus,
    Processes,
    Recorded,
    RecordingPage,
    Reloaded,
    Shared,
    Waiting,
    Watched,
    WorkloadResumed,
    WorkloadSuspended,
)
from moiety.model.cards import CardRequest
from moiety.model.format import encodable
from moiety.model.gang import Gang
from moiety.model.share import NOTHING_ASKED, Mode, Priority, Share
from moiety.wire.layout import VERSION

__all__ = [
    "ANSWER_TAG",
    "CONTAINER_CARDS",
    "EXCLUSIVE",
    "FEATURES",
    "LINE_MAX",
    "MEMORY_PART",
    "NAME_MAX",
    "ON_BEHALF",
    "SUSPEND",
    "WAIT",
    "Answer",
    "AnyAnswer",
    "AnyRequest",
    "Contained",
    "ContainerRows",
    "Containers",
    "ControlRequest",
    "CreateContainer",
    "CreateWorkload",
    "Created",
    "Done",
    "DrainGpus",
    "EventRecording",
    "Events",
    "Failed",
    "GpuList",
    "GpusRequest",
    "GuaranteeNamespaces",
    "Happened",
    "HelloRequest",
    "Here",
    "NamePods",
    "NodeStatus",
    "Ping",
    "Processes",
    "Ps",
    "Recorded",
    "RecordingPage",
    "Reload",
    "Reloaded",
    "RemoveContainer",
    "ResumeWorkload",
    "SetAgent",
    "SetShare",
    "Shared",
    "Status",
    "Stop",
    "SuspendWorkload",
    "TimelineRequest",
    "Waiting",
    "WatchRequest",
    "Watched",
    "WorkloadResumed",
    "WorkloadSuspended",
    "decode_answer",
    "decode_request",
    "encode",
]

EXCLUSIVE = "exclusive"
"""The feature of agents that work out the share of a workload with whole GPUs."""
WAIT = "wait"
"""The feature of agents in which a workload can wait for GPUs with room."""
CONTAINER_CARDS = "container_cards"
"""The feature of agents that choose the GPUs of a share for containers."""
MEMORY_PART = "memory_part"
"""The feature of agents that know memory limits as parts of a GPU's memory."""
ON_BEHALF = "on_behalf"
"""The feature of agents that make a workload for another process than the one that asks."""
SUSPEND = "suspend"
"""The feature of agents that suspend and resume workloads."""
FEATURES = (EXCLUSIVE, WAIT, CONTAINER_CARDS, MEMORY_PART, ON_BEHALF, SUSPEND)
LINE_MAX = 256 << 10
"""Largest request in bytes; the agent reads many at one time."""
NAME_MAX = 255
"""Longest name of a program."""


class ControlRequest(msgspec.Struct, frozen=True, tag_field="ask"):
    """Something a command asks for."""


class HelloRequest(ControlRequest, frozen=True, tag="hello"):
    """The greeting: the first line of every connection."""

    product: str
    wire: int = VERSION


class Ping(ControlRequest, frozen=True, tag="ping"):
    """Are you there? Answered by Done."""


class CreateWorkload(ControlRequest, frozen=True, tag="create_workload"):
    """The asking process is about to become this program; answered by Created."""

    program: str
    argv: list[str]
    cwd: str
    share: Share = NOTHING_ASKED
    name: str | None = None
    """Its name, instead of the program's own."""
    gang: Gang | None = None
    """The gang with which its processes hold GPUs."""
    capacity_bytes: int | None = None
    """The capacity of each GPU that the command requires; None: any."""
    cards: CardRequest | None = None
    """The GPUs that the agent is to choose for it; None: it chooses none, and any will do."""
    wait: bool = False
    """Wait until there is room: each change is told with Waiting before the answer."""
    pid: int = 0
    """The process that becomes the program, of the user who asks; 0: the asking process."""
    uid: int = -1
    """The user whose workload it is, if an administrator asks; -1: the user who asks."""


class CreateContainer(ControlRequest, frozen=True, tag="create_container"):
    """Make a share that containers get, or change the one of that name; answered by Contained."""

    name: str
    share: Share = NOTHING_ASKED
    spec: str = ""
    """Path of its CDI specification."""
    capacity_bytes: int | None = None
    """The same as in CreateWorkload."""
    gpus: list[str] = []
    """UUIDs of the GPUs that it is a share of; empty: any."""
    cards: CardRequest | None = None
    """Which of these GPUs the agent is to choose for it; None: it is a share of all of them."""
    pods: list[str] = []
    """UIDs of Kubernetes' pods whose processes may use it; empty: all that see its socket."""
    labels: dict[str, str] = {}
    """Labels of its processes in metrics and events: namespace, pod, container."""


class RemoveContainer(ControlRequest, frozen=True, tag="remove_container"):
    """Remove a share for containers; answered by Contained, with the share as it was."""

    name: str
    force: bool = False
    """Remove it also while processes use it; they go on without a share."""


class Containers(ControlRequest, frozen=True, tag="containers"):
    """List the shares for containers; answered by ContainerRows."""


class Status(ControlRequest, frozen=True, tag="status"):
    """Describe the agent, its GPUs, and the limits of users; answered by NodeStatus."""

    limits_of: list[int] = []


class Ps(ControlRequest, frozen=True, tag="ps"):
    """List the processes that share the GPUs; answered by Processes."""

    workloads: bool = False
    """List also the first process of each workload that uses no GPU now, as tenant 0."""
    outside: bool = False
    """List also the processes that use GPUs without moiety, as tenant 0."""


class SetShare(ControlRequest, frozen=True, tag="set_share"):
    """Change the share of a program while it runs; UNSET fields stay. Answered by Shared."""

    target: str
    """A tenant's number, a pid or a name."""
    gpu: float | msgspec.UnsetType | None = msgspec.UNSET
    gpu_limit: float | msgspec.UnsetType = msgspec.UNSET
    memory_bytes: int | msgspec.UnsetType = msgspec.UNSET
    memory_limit_bytes: int | msgspec.UnsetType | None = msgspec.UNSET
    priority: Priority | msgspec.UnsetType = msgspec.UNSET
    latency: bool | msgspec.UnsetType = msgspec.UNSET
    mode: Mode | msgspec.UnsetType = msgspec.UNSET
    quantum_s: float | msgspec.UnsetType | None = msgspec.UNSET
    memory_limit_part: float | msgspec.UnsetType | None = msgspec.UNSET


class SuspendWorkload(ControlRequest, frozen=True, tag="suspend"):
    """Suspend a workload until it is resumed; answered by WorkloadSuspended. It may be repeated."""

    target: str
    """A tenant's number, a pid, a name, or the id of a workload."""
    wait_s: float = 0.0
    """Wait this long for its memory to leave."""


class ResumeWorkload(ControlRequest, frozen=True, tag="resume"):
    """Let a suspended workload go on; answered by WorkloadResumed."""

    target: str


class SetAgent(ControlRequest, frozen=True, tag="set_agent"):
    """Change how the arbiter decides; answered by Done."""

    settings: dict[str, str]
    """By field of the arbiter's settings: the text that was typed."""
    defaults: bool = False
    """Forget earlier changes first."""


class TimelineRequest(ControlRequest, frozen=True, tag="timeline"):
    """Read the timeline, a page at a time; answered by Recorded."""

    spans_from: int = 0
    """The `spans_next` of the page before; 0: from the oldest that is kept."""
    samples_from: int = 0
    since_s: float = 0.0
    """Return only what ended after this, on the clock of `Recorded.now_s`."""


class Events(ControlRequest, frozen=True, tag="events"):
    """Read the journal; answered by Happened."""

    after: int = 0
    """Return only events with a higher number."""
    wait_s: float = 0.0
    """Wait this long for an event if there is none."""


class EventRecording(ControlRequest, frozen=True, tag="event_recording"):
    """The arbiter's last events and instructions, a page at a time; answered by RecordingPage."""

    segment: int = 0
    """`RecordingPage.segment` of the page before; 0: from the oldest starting point."""
    offset: int = 0


class GpusRequest(ControlRequest, frozen=True, tag="gpus"):
    """List the GPUs and the workloads on each; answered by GpuList."""


class DrainGpus(ControlRequest, frozen=True, tag="drain_gpus"):
    """Choose GPUs for no new workload, or again; answered by GpuList, with these GPUs."""

    gpus: list[str]
    """Indices, or beginnings of UUIDs."""
    drained: bool = True
    """False: they are chosen again."""


class WatchRequest(ControlRequest, frozen=True, tag="watch"):
    """What uses GPUs without moiety, and what is done about it; answered by Watched."""

    policy: dict[str, str] = {}
    """By key: settings of [watch] that are tried without being set."""
    plan: bool = False
    """Return also what would be done if nothing changed."""


class Reload(ControlRequest, frozen=True, tag="reload"):
    """Read the configuration again; answered by Reloaded."""


class NamePods(ControlRequest, frozen=True, tag="pods"):
    """The names of this node's pods; replaces all earlier names. Answered by Done."""

    names: dict[str, str]
    """By UID: namespace/name."""


class GuaranteeNamespaces(ControlRequest, frozen=True, tag="guarantee_namespaces"):
    """What namespaces are guaranteed; replaces all earlier parts. Answered by Done."""

    parts: dict[str, float]
    """By namespace: the part of each GPU's time, from 0 to 1."""


class Stop(ControlRequest, frozen=True, tag="stop"):
    """End the agent; refused while it is used, unless forced."""

    force: bool = False
    restarts: bool = False
    """The next one is started at once: what was set while this one ran stays."""


AnyRequest = (
    HelloRequest
    | Ping
    | CreateWorkload
    | CreateContainer
    | RemoveContainer
    | Containers
    | Status
    | Ps
    | SetShare
    | SetAgent
    | TimelineRequest
    | EventRecording
    | Events
    | WatchRequest
    | GpusRequest
    | DrainGpus
    | Reload
    | NamePods
    | GuaranteeNamespaces
    | Stop
    | SuspendWorkload
    | ResumeWorkload
)
AnyAnswer = (
    Failed
    | Here
    | Done
    | Created
    | Waiting
    | Contained
    | ContainerRows
    | Shared
    | NodeStatus
    | Processes
    | Recorded
    | RecordingPage
    | Happened
    | Watched
    | GpuList
    | Reloaded
    | WorkloadSuspended
    | WorkloadResumed
)


def encode(message: ControlRequest | Answer) -> bytes:
    """Return one line, less its end; bytes that are no text become question marks."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        return msgspec.json.encode(encodable(msgspec.to_builtins(message)))


@cache
def _decoder(kinds: Any) -> msgspec.json.Decoder[Any]:
    """Made when it is needed: a command needs a few kinds of message, and each one takes time."""
    return msgspec.json.Decoder(kinds)


def decode_request(line: bytes) -> ControlRequest:
    """Raises msgspec.MsgspecError for what is no request."""
    found: ControlRequest = _decoder(AnyRequest).decode(line)
    return found


def decode_answer(line: bytes, expected: type[Answer] | UnionType | None = None) -> Answer:
    """One answer of any kind; one of the `expected` kind is found quickest.

    Raises msgspec.MsgspecError for what is no answer.
    """
    if expected is not None:
        with suppress(msgspec.ValidationError):
            likely: Answer = _decoder(expected | Failed).decode(line)
            return likely
    found: Answer = _decoder(AnyAnswer).decode(line)
    return found
