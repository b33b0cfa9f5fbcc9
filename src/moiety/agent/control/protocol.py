"""What commands and the agent say to each other on the control socket: one JSON line each.

The first line is `Hello`, and its layout is kept in every version, like that of its answers
`Here` and `Failed`: so two versions can still tell each other apart.
"""

from __future__ import annotations

from typing import Any

import msgspec

from moiety.agent.core import journal_events
from moiety.model.gang import Gang
from moiety.model.share import NOTHING_ASKED, Mode, Priority, Share
from moiety.wire.layout import VERSION

LINE_MAX = 256 << 10
"""of a request: the agent reads many at one time"""
NAME_MAX = 255
"""of a program"""
ARGV_MAX = 4096
"""of a program's command line, as it is written down"""
ANSWER_TAG = "is"
"""what tells one kind of answer from another on the socket, and means nothing beyond it"""


def shortened(argv: list[str]) -> list[str]:
    """A command line, or the beginning of a long one."""
    found: list[str] = []
    left = ARGV_MAX
    for word in argv:
        if len(word) >= left:
            return [*found, word[:left] + "..."]
        found.append(word)
        left -= len(word) + 1
    return found


class ControlRequest(msgspec.Struct, frozen=True, tag_field="ask"):
    """Something a command asks for."""


class HelloRequest(ControlRequest, frozen=True, tag="hello"):
    """Who asks; the first line of every conversation."""

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
    """what to call it instead of the program's own name"""
    gang: Gang | None = None
    """with which others its processes hold GPUs"""
    capacity_bytes: int | None = None
    """what the asker wants shared out of each GPU, if that matters to it"""


class CreateContainer(ControlRequest, frozen=True, tag="create_container"):
    """Make a share that containers get, or change the one of that name; answered by Contained."""

    name: str
    share: Share = NOTHING_ASKED
    spec: str = ""
    """where its CDI specification is written"""
    capacity_bytes: int | None = None
    """as of CreateWorkload"""
    gpus: list[str] = []
    """UUIDs of those that it is of; empty: of any"""
    pods: list[str] = []
    """UIDs of Kubernetes' pods whose processes may use it; empty: whoever sees its socket"""
    labels: dict[str, str] = {}
    """what is said of its processes in metrics and events: namespace, pod, container"""


class RemoveContainer(ControlRequest, frozen=True, tag="remove_container"):
    """Remove such a share; answered by Contained, as it was."""

    name: str
    force: bool = False
    """also while processes use it: they go on without a share"""


class Containers(ControlRequest, frozen=True, tag="containers"):
    """Which of them there are; answered by ContainerRows."""


class Status(ControlRequest, frozen=True, tag="status"):
    """How the GPUs are; answered by NodeStatus."""


class Ps(ControlRequest, frozen=True, tag="ps"):
    """Who uses them; answered by Processes."""


class SetShare(ControlRequest, frozen=True, tag="set_share"):
    """Change what a program is promised, while it runs; what is UNSET stays. Answered by Shared."""

    target: str
    """a tenant's number, a pid or a name"""
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
    """by field of the arbiter's settings, as typed"""
    defaults: bool = False
    """forget first what was changed before"""


class TimelineRequest(ControlRequest, frozen=True, tag="timeline"):
    """What happened, a page at a time; answered by Recorded."""

    spans_from: int = 0
    """`spans_next` of the page before; 0: from the oldest that is kept"""
    samples_from: int = 0
    since_s: float = 0.0
    """only what ended after this, on the clock of `Recorded.now_s`"""


class Events(ControlRequest, frozen=True, tag="events"):
    """What happened that matters; answered by Happened."""

    after: int = 0
    """only those with a higher number"""
    wait_s: float = 0.0
    """if there are none, wait for one so long"""


class WatchRequest(ControlRequest, frozen=True, tag="watch"):
    """What goes past the agent, and what is done about it; answered by Watched."""

    policy: dict[str, str] = {}
    """settings of [watch] to be tried without being set, by key"""
    plan: bool = False
    """what would be done if all that is seen now went on"""


class Reload(ControlRequest, frozen=True, tag="reload"):
    """Read the configuration again; answered by Reloaded."""


class NamePods(ControlRequest, frozen=True, tag="pods"):
    """What the pods of this node are called; replaces what was said before. Answered by Done."""

    names: dict[str, str]
    """by UID: namespace/name"""


class Stop(ControlRequest, frozen=True, tag="stop"):
    """End the agent; refused while it is used, unless forced."""

    force: bool = False


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
    """as it was asked for when the agent was started"""
    simulated: bool = False


class Done(Answer, frozen=True, tag="done"):
    """Nothing more to say."""


class Reloaded(Answer, frozen=True, tag="reloaded"):
    """The configuration counts as it is written now, except for `later`."""

    later: list[str] = []
    """keys of settings that count for the next agent"""


class Created(Answer, frozen=True, tag="created"):
    """A workload; programs find the agent through `socket`."""

    id: str
    socket: str


class ContainerRow(msgspec.Struct, frozen=True):
    """One share for containers in `moiety container ls`."""

    name: str
    uid: int
    share: Share
    spec: str
    folder: str
    """on this machine: what of it is put into containers lies there"""
    pids: list[int] = []
    """of the processes that use GPUs with it, as this machine counts them"""
    containers: list[str] = []
    """the short ids of the containers they run in"""
    gpus: list[str] = []
    pods: list[str] = []
    labels: dict[str, str] = {}
    """as of CreateContainer"""


class Contained(Answer, frozen=True, tag="contained"):
    """A share for containers."""

    row: ContainerRow


class ContainerRows(Answer, frozen=True, tag="container_rows"):
    """All of them, by name."""

    rows: list[ContainerRow]


class Shared(Answer, frozen=True, tag="shared"):
    """What a program is promised from now on."""

    program: str
    pid: int
    share: Share
    above_limit_bytes: int = 0
    """the most that one of its processes has on a GPU beyond the new limit"""


class GpuRow(msgspec.Struct, frozen=True):
    """One GPU in `moiety status`."""

    gpu: int
    uuid: str
    name: str
    total_bytes: int
    used_bytes: int | None
    capacity_bytes: int
    resident_bytes: int
    allocated_bytes: int
    residue_bytes: int
    free_bytes: int
    utilisation: float | None
    holders: list[int]
    waiting: list[int]
    lost: str = ""
    """why nobody can use it any more"""
    errors: dict[int, float] = {}
    """seconds since the driver last reported each of its errors (XID), also to earlier agents"""


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
    """where Prometheus can read; empty: nowhere"""
    settings: dict[str, float | int | str | bool] = {}
    """how the arbiter decides, by field"""
    arena_ready_bytes: int = 0
    """of `arena_bytes`: its pages are there"""
    arena_used_bytes: int = 0
    """of `arena_bytes`: evicted data is in it"""
    user: str = ""
    """as which the agent runs"""
    shared: bool = False
    """it serves all users of the machine"""
    notes: list[str] = []
    """who uses a GPU without moiety, and who slows others down: a sentence each"""


class ProcessRow(msgspec.Struct, frozen=True):
    """One process on one GPU in `moiety ps`; `gpu` is None until it attached one."""

    tenant: int
    pid: int
    program: str
    workload: str
    gpu: int | None
    state: str
    allocated_bytes: int
    resident_bytes: int
    residue_bytes: int
    limit_bytes: int | None
    handoffs: int
    held_s: float
    waited_s: float
    """threads at the closed gate, summed"""
    waiting_s: float | None
    """since when it waits for its turn"""
    reason: str
    pinned: str
    share: Share = NOTHING_ASKED
    """of its workload"""
    priority: str = "normal"
    received: float = 0.0
    """part of the GPU's time over the last seconds, with the hand-offs that it caused"""
    received_s: float = 0.0
    """the same in its whole life, in GPU-seconds"""
    handoffs_s: float = 0.0
    gang: str = ""
    """of those that hold GPUs together with it"""
    paused: bool = False
    """its --gpu-limit is used up for the moment"""
    evicted_bytes: int = 0
    """by the process itself, on all its GPUs, since it started"""
    restored_bytes: int = 0
    zero_bytes: int = 0
    """left the GPU without being copied, because they were zeros"""
    managed_bytes: int = 0
    """of the allocated ones, those that the driver pages"""
    pinned_bytes: int = 0
    """of the allocated ones, those that never leave: others can see them, say"""
    unknown: dict[str, int] = {}
    """by name: about how often it used what of the driver moiety does not know; the first few"""
    unknown_calls: int = 0
    """all such calls"""
    uid: int = -1
    """whose it is; of other users' programs an agent of all users may not tell the rest"""
    container: str = ""
    """the short id of the container that it runs in"""
    idle_s: float = 0.0
    """how long it has done nothing on a GPU"""
    cost_s: float = 0.0
    """how long others waited within the last minute because it gave the GPU back late, summed"""
    cost: str = ""
    """the same in words"""
    user: str = ""
    pod: str = ""
    labels: dict[str, str] = {}
    """of its share: namespace, pod, container"""


class StrangerRow(msgspec.Struct, frozen=True):
    """One process on one GPU that does not share it."""

    pid: int
    user: str
    program: str
    gpu: int
    used_bytes: int | None
    """as NVML counts; None: it does not tell"""
    busy: float | None
    """part of the time since the last look in which its work ran"""
    worked_s: float
    """how long that was within the last minute, beside programs that share the GPU"""
    since_s: float
    """how long it has been seen"""
    container: str = ""
    runtime: str = ""
    pod: str = ""
    exempt: str = ""
    """by what it is let off"""


class OffenceRow(msgspec.Struct, frozen=True):
    """Something that is wrong with how one process uses one GPU."""

    offence: str
    pid: int
    user: str
    program: str
    gpu: int
    text: str
    since_s: float
    """how long it has gone on"""
    done: list[str]
    """steps that were taken"""
    next: str = ""
    """the next one; empty: there is none"""
    next_s: float = 0.0
    """in how long"""
    tenant: int | None = None
    container: str = ""
    pod: str = ""


class PlannedRow(msgspec.Struct, frozen=True):
    """Something that would be done."""

    after_s: float
    deed: str
    """warn, event, kill or spare"""
    offence: str
    who: str
    text: str


class Watched(Answer, frozen=True, tag="watched"):
    """What the watch sees."""

    policy: dict[str, str]
    """by key of the section [watch]"""
    is_blind: bool
    """NVML's pids mean nothing to this agent"""
    strangers: list[StrangerRow]
    offences: list[OffenceRow]
    planned: list[PlannedRow] = []


class Processes(Answer, frozen=True, tag="ps"):
    """Everybody who shares the GPUs."""

    rows: list[ProcessRow]


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Something that took time on one GPU, or a moment (end_s == begin_s), of one tenant."""

    kind: str
    """held, draining, evicting, restoring, waiting, growing (it holds and waits for more memory),
    telling (messages are on their way); or joined, left, refused, overdue"""
    tenant: int
    gpu: int
    begin_s: float
    end_s: float
    bytes: int = 0
    detail: str = ""


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """How much of a tenant was on a GPU from a moment on."""

    at_s: float
    tenant: int
    gpu: int
    resident_bytes: int


class TenantName(msgspec.Struct, frozen=True, array_like=True):
    """Who a tenant is, or was."""

    tenant: int
    pid: int
    program: str
    workload: str
    gang: str = ""


class GpuName(msgspec.Struct, frozen=True, array_like=True):
    """A GPU, and what of it is shared out."""

    gpu: int
    name: str
    capacity_bytes: int


class Recorded(Answer, frozen=True, tag="recorded"):
    """One page of what happened. Times are seconds on the machine's monotonic clock."""

    pid: int
    now_s: float
    gpus: list[GpuName]
    tenants: list[TenantName]
    """everybody whom the page names"""
    spans: list[Span]
    """in the order in which they ended"""
    samples: list[Sample]
    open: list[Span]
    """what goes on now, up to `now_s`; only on the last page"""
    spans_next: int
    samples_next: int
    lost: int
    """spans that were asked for and are not kept any more"""
    more: bool
    """whether there is another page"""


Event = journal_events.Event


class Happened(Answer, frozen=True, tag="happened"):
    """Events, oldest first; `more`: there are others after them."""

    events: list[Event]
    more: bool = False
    read_to: int = 0
    """the number of the last one that was looked at: not all may be for whoever asks"""


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
    | Happened
    | Watched
    | Reloaded
)


def encode(message: ControlRequest | Answer) -> bytes:
    """One line, less its end; a likeness of texts that are none (a name may be any bytes)."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        return msgspec.json.encode(likeness(msgspec.to_builtins(message)))


def likeness(value: Any) -> Any:
    """A value of dicts and lists in which every text can be encoded."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [likeness(each) for each in value]
    if isinstance(value, dict):
        return {likeness(key): likeness(each) for key, each in value.items()}
    return value


decode_request = msgspec.json.Decoder(AnyRequest).decode
decode_answer = msgspec.json.Decoder(AnyAnswer).decode
