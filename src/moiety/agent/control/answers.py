"""What the agent answers on the control socket: one class for each form."""

from __future__ import annotations

import msgspec

from moiety.agent.control.rows import (
    CardName,
    ContainerRow,
    GpuName,
    GpuRow,
    GpuUse,
    OffenceRow,
    PlannedRow,
    ProcessRow,
    Sample,
    Span,
    StrangerRow,
    TenantName,
    UserLimitRow,
    WaiterRow,
)
from moiety.agent.core.journal_events import Event
from moiety.model.share import Share

ANSWER_TAG = "is"
"""The JSON key that tells one kind of answer from another."""


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
    features: list[str] = []
    """What this agent does that agents of the same protocol did not always do."""


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


class Waiting(Answer, frozen=True, tag="waiting"):
    """No GPUs have room; another answer follows, without another request."""

    place: int
    """Of those who wait, 1 is the next."""
    number: int
    """How many wait."""
    reason: str


class Contained(Answer, frozen=True, tag="contained"):
    """A share for containers."""

    row: ContainerRow
    cards: list[CardName] = []
    """The GPUs that were chosen for it, in PCI order; empty: none in particular."""


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


class WorkloadSuspended(Answer, frozen=True, tag="suspended"):
    """A workload that is suspended, or was resumed meanwhile."""

    workload: str
    program: str
    pid: int
    is_over: bool
    """True once all of its memory has left that can."""
    staying_bytes: int
    """Bytes of its data that are still on its GPUs."""
    residue_bytes: int
    """Bytes of its contexts, which stay."""
    evicted_bytes: int
    stays: list[str] = []
    """One sentence for each process that has data on a GPU, or has not given it back yet."""


class WorkloadResumed(Answer, frozen=True, tag="resumed"):
    """A workload that gets turns again."""

    workload: str
    program: str
    pid: int
    was_suspended: bool
    """False if it had not been suspended."""


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
    guarantees: dict[str, float] = {}
    """By user, group or namespace: the part of each GPU's time that is guaranteed."""
    shared: bool = False
    """True if it serves all users of the machine."""
    queue: list[WaiterRow] = []
    """The commands that wait for GPUs with room, in their order."""
    notes: list[str] = []
    """One sentence for each process that uses a GPU without moiety, or slows others down."""
    limits: dict[int, UserLimitRow] = {}
    """By user that was asked about: what it may have."""


class GpuList(Answer, frozen=True, tag="gpu_list"):
    """The GPUs, and the workloads on each."""

    rows: list[GpuUse]


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
    """All processes that share the GPUs, and others that were asked for."""

    rows: list[ProcessRow]
    unseen: str = ""
    """What is not known of processes outside moiety, as a sentence; empty: `rows` has all."""
    queue: list[WaiterRow] = []
    """The commands that wait for GPUs with room, in their order."""


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
