"""Every setting that there is: where it stands, how it is read, what it is unless told otherwise.

A section of a file is a class here, a setting in it a field of that class. The field's type says
how its text is read; its key, flag and variable follow from its name. A section whose name ends in
`.*` is there once for each name: `users.*` is `[users.alice]` in a file.

The module reads the annotations of its classes, so they are no strings. The classes have no methods
of their own, because every command waits until Python has made them.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, get_args

import msgspec

from moiety.config.setting import Setting, Values, fields_of, setting
from moiety.config.values import (
    At,
    Capacity,
    CleanMode,
    Count,
    Deadline,
    Exempt,
    Factor,
    Folder,
    Gpus,
    Group,
    Hosts,
    KubeMode,
    Log,
    Memory,
    MemoryMode,
    Names,
    Overcommit,
    Part,
    PriorityClass,
    Quantum,
    Resources,
    Size,
    SocketMode,
    SomeMemory,
    SomeTime,
    Speed,
    Steps,
    Switch,
    Text,
    Time,
    ValueKind,
    WhatIsSeen,
    When,
    WhenHostFull,
    WhenOverdue,
    WhichAgent,
)
from moiety.enforcement.usual import USUAL


class AgentSettings(Values):
    """How the agent shares out the GPUs."""

    capacity_bytes: Capacity | None = setting(
        "share out this much of each GPU", unset="all of it, less headroom"
    )
    arena_bytes: Size | None = setting(
        "host memory for evicted data",
        unset="80 % of what is available, also when that becomes more",
    )
    arena_ready_bytes: Size | None = setting(
        "prepare at most this much of it ahead of need", unset="all that could be needed"
    )
    gpus: Gpus | None = setting("manage only these GPUs, such as 0,1", unset="all of them")
    metrics: At | None = setting("serve /metrics there, such as 9402", unset="nowhere")
    metrics_hosts: Hosts | None = setting(
        "host names, beside its own, under which /metrics may be asked for on a port", unset="none"
    )
    socket_mode: SocketMode = setting("system agent: who may come, 0600, 0660 or 0666", "0666")
    socket_group: Group | None = setting(
        "system agent: its socket's group", unset="the agent's own"
    )
    visible: WhatIsSeen = setting(
        "system agent: what users see of each other: nothing, sizes, all", "sizes"
    )
    messages_per_s: Factor = setting(
        "read at most this many messages of one user's programs per second, after a burst", "12800"
    )
    log_format: Log = setting("text, json, or journal", "text")
    idle_exit_s: Time = setting("end after this long without a program; 0: never", "60s")
    linger_s: Time = setting("forget an ended workload after this long", "5s")
    say_after_s: Time = setting("tell a program's terminal why it waits; 0: never", "3s")
    fast_handoff: Switch = setting(
        "hand leases over in a native thread that the agent arms ahead", "true"
    )
    turn_min_s: Time = setting("the shortest turn", "100ms", arbiter=True)
    turn_factor: Factor = setting("turn length / hand-off time", "9", arbiter=True)
    quantum_s: Quantum = setting("length of every turn; 0: not fixed", "0", arbiter=True)
    idle_min_s: SomeTime = setting("a turn ends after this long without work", "20ms", arbiter=True)
    idle_free_s: SomeTime = setting("the same, if no data has to move", "1ms", arbiter=True)
    link_bytes_per_s: Speed = setting("assumed speed of the link", "10GB", arbiter=True)
    allowance_bytes: Size = setting("allocated without asking; 0: none", "512MiB", arbiter=True)
    revoke_deadline_s: Deadline = setting("report a drain that takes longer", "10s", arbiter=True)
    overdue: WhenOverdue = setting(
        "what is done then: report, fence or kill", "report", arbiter=True
    )


class MemorySettings(Values):
    """How much memory programs may ask for together."""

    overcommit: Overcommit = setting(
        "programs may ask for this many times what GPU and arena hold; 1: no overcommit",
        "1",
        arbiter=True,
    )
    when_full: WhenHostFull = setting(
        "what is done where what they wrote does not fit: wait or kill", "wait", arbiter=True
    )


class WatchSettings(Values):
    """What the agent does about programs that use GPUs without it."""

    every_s: Time = setting("how often to look who uses the GPUs; 0: never", "5s")
    unregistered: Steps = setting(
        "who uses a GPU without moiety: warn,event,60s,kill, say, or off", "warn,event"
    )
    limit: Steps = setting("who has more memory than it may", "warn,event")
    lease: Steps = setting("whose work runs without a lease", "warn,event")
    exempt: Exempt = setting(
        "let these off: user:NAME, command:NAME, container:ID, pod:UID, gpu:N; * matches", USUAL
    )
    dry_run: Switch = setting("only say what would be done", "false")
    slack_bytes: Size | None = setting(
        "let a program have this much more than its limit and its context",
        unset="what two contexts take",
    )
    idle_s: Time = setting("name programs that did nothing for this long; 0: none", "10min")
    slow_s: Time = setting(
        "name programs that cost others this much waiting in a minute; 0: none", "5s"
    )


class UserLimits(Values):
    """What one user may have, each user of a group, or all others."""

    gpu: Part | None = setting("of each GPU's time, for all programs together", unset="no limit")
    memory: SomeMemory | None = setting(
        "of each GPU's memory, likewise: 20GiB, 50%", unset="no limit"
    )
    priority: PriorityClass | None = setting("the highest: low, normal or high", unset="no limit")
    latency: Switch | None = setting("whether it may be --latency", unset="no limit")
    workloads: Count | None = setting("how many at one time; 0: none", unset="no limit")
    gpus: Gpus | None = setting("the only GPUs that they get, such as 0,1", unset="no limit")
    quantum_s: Quantum | None = setting(
        "the longest that it may say as --quantum; 0: none", unset="no limit"
    )


class DefaultLimits(UserLimits):
    """What every user may have."""

    quantum_s: Quantum | None = setting(
        "the longest that it may say as --quantum; 0: none", unset="10s"
    )


class NamedLimits(UserLimits):
    """What one user is guaranteed too, or all users of a group together."""

    guaranteed: Part | None = setting(
        "guaranteed of each GPU's time, and lent while idle; to a group as a whole", unset="nothing"
    )


class RunSettings(Values):
    """What `moiety run` asks for, where its command line does not say it."""

    gpu: Part | None = setting(
        "The part of a GPU's time that it is guaranteed.", unset="an equal part"
    )
    gpu_limit: Part = setting("The largest part it may have.", "1")
    memory: Memory | None = setting("What stays on the GPU while others run.", unset="nothing")
    memory_limit: SomeMemory | None = setting(
        "The most GPU memory it may allocate: 20GiB, 50%; beyond 100%: --mode managed.",
        unset="what the GPU has",
    )
    priority: PriorityClass = setting("low, normal or high.", "normal")
    latency: Switch = setting("It goes first at once, and gives back when idle.", "false")
    mode: MemoryMode = setting("How its memory leaves: swap, managed.", "swap")
    clean: CleanMode = setting(
        "Memory that did not change: on (it is not copied), off (it is), verify (and compared).",
        "on",
        variable="MOIETY_CLEAN",
    )
    quantum: SomeTime | None = setting("How long its turns are.", unset="as the agent makes them")
    say: When = setting(
        "Say on stderr why it waits: auto (a terminal), always, never.",
        "auto",
        variable="MOIETY_SAY",
    )
    quiet: Switch = setting("Say nothing unless it fails.", "false", variable="MOIETY_QUIET")


class PoolSettings(Values):
    """Who serves the pool of all users of a machine, and what a user may submit there."""

    user: Text = setting(
        "the account of the server: one that nothing else runs as", "moiety", metavar="NAME"
    )
    admins: Names | None = setting(
        "who may do everything beside root: users, and groups as @NAME", unset="root alone"
    )
    waiting: Count | None = setting(
        "how much work of one user may wait at one time", unset="no limit"
    )
    processes: Count | None = setting(
        "how many processes and threads one workload may have, where there is a cgroup",
        unset="no limit",
    )
    keep: SomeTime | None = setting(
        "how long the history has workloads that have ended, and the audit log", unset="for ever"
    )


class KubeSettings(Values):
    """How a node of Kubernetes is served (`moiety kube node`)."""

    mode: KubeMode = setting("how pods get shares: dra (claims), plugin (units), or both", "dra")
    node: Text | None = setting(
        "the node's name", unset="$NODE_NAME, else the machine's", metavar="NAME"
    )
    kubeconfig: Text | None = setting(
        "how the API server is reached",
        unset="as a pod, else $KUBECONFIG, else ~/.kube/config",
        metavar="FILE",
    )
    resources: Resources | None = setting(
        "resources of their own for units of some models: moiety.dev/a100-percent=*A100*",
        unset="all are moiety.dev/gpu-percent",
    )
    kubelet_dir: Folder = setting("the kubelet's", "/var/lib/kubelet")
    cdi_dir: Folder = setting("where CDI files go", "/var/run/cdi")
    state_dir: Folder | None = setting(
        "where it is written down what pods have",
        unset="/var/lib/moiety/kube; with MOIETY_DIR, a folder in that",
    )
    native_dir: Folder | None = setting(
        "where the machine sees our libraries; they are copied there",
        unset="in a pod /var/lib/moiety/native, else where they are",
    )
    hook: Switch | None = setting(
        "have the container runtime look at each image before it starts", unset="not in a pod"
    )
    listen: At | None = setting("serve /healthz and /readyz there", unset="nowhere")
    recovery_s: Time = setting(
        "a GPU counts as well again after this long without a serious error", "5min"
    )
    binding_checks: Switch = setting(
        "check claims before pods are bound: refused pods are scheduled again; each start takes 5 s"
        " longer",
        "false",
    )
    log_format: Log = setting("how it logs to stderr: text or json", "text", metavar="FORMAT")


class CliSettings(Values):
    """How commands answer."""

    colour: When = setting(
        "use colours: auto (on a terminal), always or never", "auto", key="color", flag="--color"
    )
    agent: WhichAgent = setting(
        "which agent commands talk to: own, system, or auto (the system's if there is one)", "auto"
    )


class Section(msgspec.Struct, frozen=True):
    """Where the settings of a class stand."""

    of: type
    flags: str | None = None
    """The prefix of its flags; None: its settings have no flags."""
    variables: str | None = None
    """The prefix of its variables; None: its settings have no variables."""


SECTIONS: Final = {
    "agent": Section(AgentSettings, "--", "MOIETY_AGENT_"),
    "memory": Section(MemorySettings, "--memory-", "MOIETY_MEMORY_"),
    "watch": Section(WatchSettings, "--watch-", "MOIETY_WATCH_"),
    "defaults": Section(DefaultLimits),
    "users.*": Section(NamedLimits),
    "groups.*": Section(NamedLimits),
    "run": Section(RunSettings, "--", "MOIETY_RUN_"),
    "pool": Section(PoolSettings),
    "kube": Section(KubeSettings, "--", "MOIETY_KUBE_"),
    "cli": Section(CliSettings, None, "MOIETY_"),
}
OF_THE_SYSTEM: Final = frozenset({"defaults", "users.*", "groups.*", "pool"})
"""Sections of the system's file only: users may not write their own limits."""

ENVIRONMENT: Final = (
    ("MOIETY_CONFIG", "read this file alone, instead of the two usual ones", "both"),
    (
        "MOIETY_DIR",
        "the agent's directory, with all of its files",
        "$XDG_RUNTIME_DIR/moiety, else /tmp/moiety-UID",
    ),
    ("MOIETY_SYSTEM_DIR", "the same of the agent of all users", "/run/moiety"),
    ("MOIETY_AGENT_ARGS", "flags for an agent that a command starts", "none"),
    ("MOIETY_DISABLE", "1: programs run as if moiety were not there", "they share"),
    ("MOIETY_TOOLS", "allow: also ncu, compute-sanitizer, cuda-gdb", "refused"),
    ("MOIETY_DEEPBIND", "keep: leave RTLD_DEEPBIND alone (not shared then)", "taken off"),
    ("MOIETY_SIMGPU", "a simulated card, or a file that describes one", "real GPUs"),
    ("MOIETY_SIMGPU_STATE", "where simulated GPUs keep their memory", "a folder in /dev/shm"),
    ("MOIETY_HOST_MEMORY", "host memory that the agent believes in", "what there is"),
    ("MOIETY_LOCK_DIR", "where agents of all users see their locks", "/run/lock"),
    ("MOIETY_NATIVE", "the folder with libmoiety.so", "the package's own"),
    ("MOIETY_RECORD", "the folder where a recorder writes", "no recording"),
    ("MOIETY_ERRORS", "json: an error is one line of JSON on stderr", "sentences"),
    ("MOIETY_DEBUG", "1: errors with where they come from", "sentences"),
)
"""What stands in the environment only: its name, its meaning, and what holds without it."""

_UNIT: Final = re.compile(r"(?:_bytes)?(?:_per)?(?:_s)?$")


def _kind(hint: Any) -> ValueKind:
    """The ValueKind in an annotation such as `Size | None`."""
    told = getattr(hint, "__metadata__", ())
    return told[0] if told else next(_kind(each) for each in get_args(hint))


def _settings_of(name: str, section: Section) -> Iterator[Setting]:
    for field, hint, described in fields_of(section.of):
        told = {"key": _UNIT.sub("", field).replace("_", "-"), "unset": "", **described}
        kind, key = _kind(hint), told["key"]
        flag = None if section.flags is None else section.flags + key
        variable = section.variables
        if variable is not None:
            variable += key.upper().replace("-", "_")
        yield Setting(
            name,
            key,
            field,
            kind.parse,
            told.get("metavar", kind.metavar),
            told["help"],
            told["default"],
            told["unset"],
            told.get("flag", flag),
            told.get("variable", variable),
            told.get("arbiter", False),
            kind.words,
        )


_BY_SECTION: Final = {name: tuple(_settings_of(name, each)) for name, each in SECTIONS.items()}
SETTINGS: Final[tuple[Setting, ...]] = (
    *(each for section in _BY_SECTION.values() for each in section),
    *(Setting("", n, n, str, "TEXT", text, None, unset, None, n) for n, text, unset in ENVIRONMENT),
)
WHICH_AGENT: Final = next(each for each in SETTINGS if each.name == "cli.agent")


def name_of(section: type) -> str:
    """The name, in SECTIONS, of the section that a class describes."""
    return next(name for name, each in SECTIONS.items() if each.of is section)


def of_section(section: str) -> tuple[Setting, ...]:
    """The settings of a section, as SECTIONS names it."""
    return _BY_SECTION.get(section, ())
