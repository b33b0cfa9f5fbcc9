"""What commands and the agent say to each other on the control socket: one JSON line each.

The first line is `Hello`, and its layout is kept in every version, like that of its answers
`Here` and `Failed`: so two versions can still tell each other apart. An agent answers commands of
its own version of the protocol and of the one before, whatever the version of moiety: a new field
has a default, and a field that is not known is ignored.
"""

from __future__ import annotations

import msgspec

from moiety.agent.control.rows import (
    CardName,
    ContainerRow,
    GpuName,
    GpuRow,
    OffenceRow,
    PlannedRow,
    ProcessRow,
    Sample,
    Span,
    StrangerRow,
    TenantName,
)
from moiety.agent.core.journal_events import Event
from moiety.model.cards import CardRequest
from moiety.model.format import encodable
from moiety.model.gang import Gang
from moiety.model.share import NOTHING_ASKED, Mode, Priority, Share
from moiety.wire.layout import VERSION

LINE_MAX = 256 << 10
"""Largest request in bytes; the agent reads many at one time."""
NAME_MAX = 255
"""Longest name of a program."""
ANSWER_TAG = "is"
"""The JSON key that tells one kind of answer from another."""


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
    """Describe the agent and its GPUs; answered by NodeStatus."""


class Ps(ControlRequest, frozen=True, tag="ps"):
    """List the processes that share the GPUs; answered by Processes."""


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


class Stop(ControlRequest, frozen=True, tag="stop"):
    """End the agent; refused while it is used, unless forced."""

    force: bool = False
    restarts: bool = False
    """The next one is started at once: what was set while this one ran stays."""


class Answer(msgspec.Struct, frozen=True, tag_field=ANSWER_TAG):
    """What the agent answers."""


class Failed(Answer, frozen=True, tag="failed"):
    """An error, in the parts that the command shows; `kind` is the class in model.errors."""

    kind: str
    what: str
    hint: str
    exit_code: int


class Here(Answer, frozen=True, tag="here"):
    """The answer to HelloRequest."""

    product: str
    wire: int
    pid: int
    capacity_bytes: int | None = None
    """The --capacity with which the agent was started."""
    simulated: bool = False


class Done(Answer, frozen=True, tag="done"):
    """Nothing more to say."""


class Reloaded(Answer, frozen=True, tag="reloaded"):
    """The configuration counts as it is written now, except for `later`."""

    later: list[str] = []
    """Keys of settings that count for the next agent only."""


class Created(Answer, frozen=True, tag="created"):
    """A workload; programs find the agent through `socket`."""

    id: str
    socket: str
    cards: list[CardName] = []
    """The GPUs that were chosen for it, in PCI order; empty: none in particular."""


class Contained(Answer, frozen=True, tag="contained"):
    """A share for containers."""

    row: ContainerRow


class ContainerRows(Answer, frozen=True, tag="container_rows"):
    """All shares for containers, by name."""

    rows: list[ContainerRow]


class Shared(Answer, frozen=True, tag="shared"):
    """The share of a program from now on."""

    program: str
    pid: int
    share: Share
    above_limit_bytes: int = 0
    """The most that one of its processes has on a GPU beyond the new limit."""


class NodeStatus(Answer, frozen=True, tag="status"):
    """The agent and its GPUs."""

    pid: int
    product: str
    driver_version: str
    up_s: float
    settled: bool
    simulated: bool
    arena_bytes: int
    workloads: int
    tenants: int
    gpus: list[GpuRow]
    metrics: str = ""
    """Where Prometheus can read; empty: nowhere."""
    settings: dict[str, float | int | str | bool] = {}
    """By field: the arbiter's settings."""
    arena_ready_bytes: int = 0
    """The part of `arena_bytes` whose pages exist."""
    arena_used_bytes: int = 0
    """The part of `arena_bytes` that holds evicted data."""
    user: str = ""
    """The user as which the agent runs."""
    shared: bool = False
    """True if it serves all users of the machine."""
    notes: list[str] = []
    """One sentence for each process that uses a GPU without moiety, or slows others down."""


class Watched(Answer, frozen=True, tag="watched"):
    """What the watch sees."""

    policy: dict[str, str]
    """By key of the section [watch]."""
    is_blind: bool
    """True if NVML's pids mean nothing to this agent."""
    strangers: list[StrangerRow]
    offences: list[OffenceRow]
    planned: list[PlannedRow] = []


class Processes(Answer, frozen=True, tag="ps"):
    """All processes that share the GPUs."""

    rows: list[ProcessRow]


class Recorded(Answer, frozen=True, tag="recorded"):
    """One page of what happened. Times are seconds on the machine's monotonic clock."""

    pid: int
    now_s: float
    gpus: list[GpuName]
    tenants: list[TenantName]
    """Every tenant that the page names."""
    spans: list[Span]
    """In the order in which they ended."""
    samples: list[Sample]
    open: list[Span]
    """What goes on now, up to `now_s`; only on the last page."""
    spans_next: int
    samples_next: int
    lost: int
    """Number of spans that were asked for and are not kept any more."""
    more: bool
    """True if there is another page."""


class RecordingPage(Answer, frozen=True, tag="recording_page"):
    """Some bytes of the arbiter's recording; they follow those of the page before."""

    pid: int
    data: bytes
    """Records, each with its length in front; the first one of all is the starting point."""
    segment: int
    """What to ask for next; 0: there is no starting point now."""
    offset: int
    more: bool
    is_lost: bool
    """True if what was asked for is not kept any more."""


class Happened(Answer, frozen=True, tag="happened"):
    """Events, oldest first; `more`: there are others after them."""

    events: list[Event]
    more: bool = False
    read_to: int = 0
    """Number of the last event that was considered; not all may be shown to this user."""


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
    | Reload
    | NamePods
    | Stop
)
AnyAnswer = (
    Failed
    | Here
    | Done
    | Created
    | Contained
    | ContainerRows
    | Shared
    | NodeStatus
    | Processes
    | Recorded
    | RecordingPage
    | Happened
    | Watched
    | Reloaded
)


def encode(message: ControlRequest | Answer) -> bytes:
    """Return one line, less its end; bytes that are no text become question marks."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        return msgspec.json.encode(encodable(msgspec.to_builtins(message)))


decode_request = msgspec.json.Decoder(AnyRequest).decode
decode_answer = msgspec.json.Decoder(AnyAnswer).decode
