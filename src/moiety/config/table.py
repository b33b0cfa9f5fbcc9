"""Every setting that there is: where it stands, how it is read, what it is unless told otherwise.

A section of a file is a row of SECTIONS, what may stand in it a row of SETTINGS. A section whose
name ends in `.*` is there once for each name: `users.*` is `[users.alice]` in a file. A section
that no row of SETTINGS belongs to may hold anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from moiety.config import values
from moiety.enforcement.policy import USUAL, parse_exemptions, parse_ladder
from moiety.model.share import parse_mode, parse_priority
from moiety.model.units import parse_bytes, parse_duration, parse_fraction


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting; `field` is what the code calls it."""

    section: str
    """of a file; empty: it stands in the environment only"""
    key: str
    field: str
    parse: Callable[[str], Any]
    metavar: str
    help: str
    default: str | None = None
    """as it would be typed; None: `unset` says what happens then"""
    unset: str = ""
    flag: str | None = None
    variable: str | None = None
    of_arbiter: bool = False
    """a field of the arbiter's Settings"""

    @property
    def name(self) -> str:
        """As people write it: agent.turn-min, MOIETY_DIR."""
        return f"{self.section}.{self.key}" if self.section else self.key

    @property
    def is_switch(self) -> bool:
        """Whether its flag takes no value."""
        return self.parse is values.parse_switch


SECTIONS: Final = {
    "agent": "how the agent shares out the GPUs",
    "run": "what `moiety run` asks for, where its command line does not say it",
    "cli": "how commands answer",
    "watch": "what the agent does about programs that use GPUs without it",
    "kube": "how a node of Kubernetes is served (`moiety kube node`)",
    "defaults": "what every user may have",
    "users.*": "what one user may have",
    "groups.*": "what the users of one group may have",
}
OF_THE_SYSTEM: Final = frozenset({"defaults", "users.*", "groups.*"})
"""whose limits they are may not write them: they stand in the system's file only"""


def _agent(
    key: str, field: str, parse: Callable[[str], Any], metavar: str, text: str, **more: Any
) -> Setting:
    variable = "MOIETY_AGENT_" + key.upper().replace("-", "_")
    return Setting(
        "agent", key, field, parse, metavar, text, flag=f"--{key}", variable=variable, **more
    )


def _arbiter(
    key: str, field: str, parse: Callable[[str], Any], metavar: str, text: str, default: str
) -> Setting:
    return _agent(key, field, parse, metavar, text, default=default, of_arbiter=True)


def _watch(
    key: str, field: str, parse: Callable[[str], Any], metavar: str, text: str, **more: Any
) -> Setting:
    named = {"variable": "MOIETY_WATCH_" + key.upper().replace("-", "_"), "flag": f"--watch-{key}"}
    return Setting("watch", key, field, parse, metavar, text, **(named | more))


def _run(
    key: str, field: str, parse: Callable[[str], Any], metavar: str, text: str, **more: Any
) -> Setting:
    named = {"variable": "MOIETY_RUN_" + key.upper().replace("-", "_"), "flag": f"--{key}"} | more
    return Setting("run", key, field, parse, metavar, text, **named)


def _kube(
    key: str, field: str, parse: Callable[[str], Any], metavar: str, text: str, **more: Any
) -> Setting:
    named = {"variable": "MOIETY_KUBE_" + key.upper().replace("-", "_"), "flag": f"--{key}"} | more
    return Setting("kube", key, field, parse, metavar, text, **named)


def _environment(name: str, text: str, unset: str) -> Setting:
    return Setting("", name, name, str, "TEXT", text, unset=unset, variable=name)


_AGENT: Final = (
    _agent(
        "capacity",
        "capacity_bytes",
        values.parse_capacity,
        "SIZE",
        "share out this much of each GPU",
        unset="all of it, less headroom",
    ),
    _agent(
        "arena",
        "arena_bytes",
        parse_bytes,
        "SIZE",
        "host memory for evicted data",
        unset="80 % of what is available when the agent starts",
    ),
    _agent(
        "arena-ready",
        "arena_ready_bytes",
        parse_bytes,
        "SIZE",
        "prepare at most so much of it ahead of need",
        unset="whatever could be needed",
    ),
    _agent(
        "gpus",
        "gpus",
        values.parse_gpus,
        "LIST",
        "manage only these GPUs, such as 0,1",
        unset="all of them",
    ),
    _agent(
        "metrics",
        "metrics",
        values.parse_address,
        "ADDRESS",
        "serve /metrics there, such as 9402",
        unset="nowhere",
    ),
    _agent(
        "socket-mode",
        "socket_mode",
        values.parse_socket_mode,
        "MODE",
        "system agent: who may come, 0600, 0660 or 0666",
        default="0666",
    ),
    _agent(
        "socket-group",
        "socket_group",
        values.parse_group,
        "GROUP",
        "system agent: its socket's group",
        unset="the agent's own",
    ),
    _agent(
        "visible",
        "visible",
        values.parse_visible,
        "WHAT",
        "system agent: what users see of each other: nothing, sizes, all",
        default="sizes",
    ),
    _agent(
        "messages",
        "messages_per_s",
        values.parse_factor,
        "N",
        "read so many messages of one user's programs in a second, after a burst",
        default="12800",
    ),
    _agent(
        "log-format",
        "log_format",
        values.parse_log_format,
        "FORM",
        "text, json, or journal",
        default="text",
    ),
    _agent(
        "idle-exit",
        "idle_exit_s",
        parse_duration,
        "TIME",
        "end when unused so long; 0: never",
        default="60s",
    ),
    _agent(
        "linger",
        "linger_s",
        parse_duration,
        "TIME",
        "forget an ended workload after so long",
        default="5s",
    ),
    _agent(
        "say-after",
        "say_after_s",
        parse_duration,
        "TIME",
        "tell a program's terminal why it waits; 0: never",
        default="3s",
    ),
    _arbiter("turn-min", "turn_min_s", parse_duration, "TIME", "no turn is shorter", "100ms"),
    _arbiter(
        "turn-factor", "turn_factor", values.parse_factor, "N", "turn length / hand-off time", "9"
    ),
    _arbiter(
        "quantum", "quantum_s", values.parse_quantum, "TIME", "length of every turn; 0: none", "0"
    ),
    _arbiter("idle-min", "idle_min_s", parse_duration, "TIME", "silence that ends a turn", "20ms"),
    _arbiter(
        "idle-free", "idle_free_s", parse_duration, "TIME", "same, if no data has to move", "1ms"
    ),
    _arbiter(
        "link", "link_bytes_per_s", values.parse_speed, "SIZE", "assumed speed of the link", "10GB"
    ),
    _arbiter(
        "allowance",
        "allowance_bytes",
        parse_bytes,
        "SIZE",
        "allocated without asking; 0: none",
        "512MiB",
    ),
    _arbiter(
        "revoke-deadline", "revoke_deadline_s", parse_duration, "TIME", "report drains", "10s"
    ),
    _arbiter(
        "overdue",
        "overdue",
        values.parse_overdue,
        "WHAT",
        "then also: report, fence or kill",
        "report",
    ),
)
"""in the order of `moiety agent start --help`"""

_WATCH: Final = (
    _watch(
        "every",
        "every_s",
        parse_duration,
        "TIME",
        "look who uses the GPUs so often; 0: never",
        default="5s",
    ),
    _watch(
        "unregistered",
        "unregistered",
        parse_ladder,
        "STEPS",
        "who uses a GPU without moiety: warn,event,60s,kill, say, or off",
        default="warn,event",
    ),
    _watch(
        "limit",
        "limit",
        parse_ladder,
        "STEPS",
        "who has more memory than it may",
        default="warn,event",
    ),
    _watch(
        "lease",
        "lease",
        parse_ladder,
        "STEPS",
        "whose work runs without a lease",
        default="warn,event",
    ),
    _watch(
        "exempt",
        "exempt",
        parse_exemptions,
        "LIST",
        "let these off: user:NAME, command:NAME, container:ID, pod:UID, gpu:N; * matches",
        default=USUAL,
    ),
    _watch(
        "dry-run",
        "dry_run",
        values.parse_switch,
        "BOOL",
        "only say what would be done",
        default="false",
    ),
    _watch(
        "slack",
        "slack_bytes",
        parse_bytes,
        "SIZE",
        "let a program have so much more than its limit and its context",
        unset="what two contexts take",
    ),
    _watch(
        "idle",
        "idle_s",
        parse_duration,
        "TIME",
        "name who has done nothing so long; 0: nobody",
        default="10min",
    ),
    _watch(
        "slow",
        "slow_s",
        parse_duration,
        "TIME",
        "name who cost others so much waiting in a minute; 0: nobody",
        default="5s",
    ),
)
"""after those of [agent] in `moiety agent start --help`"""

_RUN: Final = (
    _run(
        "gpu",
        "gpu",
        parse_fraction,
        "PART",
        "The part of a GPU's time that it is guaranteed.",
        unset="an equal part",
    ),
    _run(
        "gpu-limit",
        "gpu_limit",
        parse_fraction,
        "PART",
        "The largest part it may have.",
        default="1",
    ),
    _run(
        "memory",
        "memory",
        values.parse_some_bytes,
        "SIZE",
        "What stays on the GPU while others run.",
        unset="nothing",
    ),
    _run(
        "memory-limit",
        "memory_limit",
        values.parse_some_bytes,
        "SIZE",
        "The most GPU memory it may allocate.",
        unset="what the GPU has",
    ),
    _run("priority", "priority", parse_priority, "CLASS", "low, normal or high.", default="normal"),
    _run(
        "latency",
        "latency",
        values.parse_switch,
        "BOOL",
        "It goes first at once, and gives back when idle.",
        default="false",
    ),
    _run(
        "mode",
        "mode",
        parse_mode,
        "MODE",
        "How its memory leaves: swap, managed.",
        default="swap",
    ),
    _run(
        "quantum",
        "quantum",
        values.parse_some_time,
        "TIME",
        "How long its turns are.",
        unset="as the agent makes them",
    ),
    _run(
        "say",
        "say",
        values.parse_when,
        "WHEN",
        "Say on stderr why it waits: auto (a terminal), always, never.",
        default="auto",
        variable="MOIETY_SAY",
    ),
    _run(
        "quiet",
        "quiet",
        values.parse_switch,
        "BOOL",
        "Say nothing unless it fails.",
        default="false",
        variable="MOIETY_QUIET",
    ),
)
"""in the order of `moiety run --help`"""


_KUBE: Final = (
    _kube(
        "mode",
        "mode",
        values.parse_kube_mode,
        "MODE",
        "how pods get shares: dra (claims), plugin (units), or both",
        default="dra",
    ),
    _kube("node", "node", str, "NAME", "the node's name", unset="$NODE_NAME, else the machine's"),
    _kube(
        "kubeconfig",
        "kubeconfig",
        str,
        "FILE",
        "how the API server is reached",
        unset="as a pod, else $KUBECONFIG, else ~/.kube/config",
    ),
    _kube(
        "units",
        "units",
        values.parse_units,
        "N",
        "units of moiety.dev/gpu that each GPU has (device plugin)",
        default="100",
    ),
    _kube(
        "resources",
        "resources",
        values.parse_resources,
        "NAME=MODEL,...",
        "resources of their own for units of some models: moiety.dev/a100=*A100*",
        unset="all are moiety.dev/gpu",
    ),
    _kube("kubelet-dir", "kubelet_dir", Path, "DIR", "the kubelet's", default="/var/lib/kubelet"),
    _kube("cdi-dir", "cdi_dir", Path, "DIR", "where CDI files go", default="/var/run/cdi"),
    _kube(
        "state-dir",
        "state_dir",
        Path,
        "DIR",
        "where it is written down what pods have",
        unset="/var/lib/moiety/kube; with MOIETY_DIR, a folder in that",
    ),
    _kube(
        "native-dir",
        "native_dir",
        Path,
        "DIR",
        "where the machine sees our libraries; they are copied there",
        unset="in a pod /var/lib/moiety/native, else where they are",
    ),
    _kube(
        "hook",
        "hook",
        values.parse_switch,
        "BOOL",
        "have the container runtime look at each image before it starts",
        unset="not in a pod",
    ),
    _kube(
        "listen",
        "listen",
        values.parse_address,
        "ADDRESS",
        "serve /healthz and /readyz there",
        unset="nowhere",
    ),
    _kube(
        "recovery",
        "recovery_s",
        parse_duration,
        "TIME",
        "after so long without a serious error a GPU counts as well again",
        default="5min",
    ),
    _kube(
        "log-format",
        "log_format",
        values.parse_log_format,
        "FORMAT",
        "how it logs to stderr: text or json",
        default="text",
    ),
)


def _limits(section: str) -> tuple[Setting, ...]:
    """What may be said of a user, of each user of a group, or of all others."""
    rows: tuple[tuple[str, str, Callable[[str], Any], str, str], ...] = (
        ("gpu", "gpu", parse_fraction, "PART", "of each GPU's time, for all programs together"),
        ("memory", "memory_bytes", values.parse_some_bytes, "SIZE", "of each GPU, likewise"),
        ("priority", "priority", parse_priority, "CLASS", "the highest: low, normal or high"),
        ("latency", "latency", values.parse_switch, "BOOL", "whether it may be --latency"),
        ("workloads", "workloads", values.parse_count, "N", "so many at one time; 0: none"),
    )
    quantum = Setting(
        section,
        "quantum",
        "quantum_s",
        values.parse_quantum,
        "TIME",
        "the longest that it may say as --quantum; 0: none",
        unset="10s" if section == "defaults" else "no limit",
    )
    return (*(Setting(section, *row, unset="no limit") for row in rows), quantum)


_LIMITS: Final = (*_limits("defaults"), *_limits("users.*"), *_limits("groups.*"))

WHICH_AGENT: Final = Setting(
    "cli",
    "agent",
    "agent",
    values.parse_which_agent,
    "WHICH",
    "which agent commands talk to: own, system, or auto (the system's if there is one)",
    default="auto",
    variable="MOIETY_AGENT",
)

_CLI: Final = (
    Setting(
        "cli",
        "color",
        "colour",
        values.parse_when,
        "WHEN",
        "use colours: auto (on a terminal), always or never",
        default="auto",
        flag="--color",
        variable="MOIETY_COLOR",
    ),
    WHICH_AGENT,
)

_ENVIRONMENT: Final = (
    _environment("MOIETY_CONFIG", "read this file alone, instead of the two usual ones", "both"),
    _environment(
        "MOIETY_DIR",
        "the agent's directory, with all of its files",
        "$XDG_RUNTIME_DIR/moiety, else /tmp/moiety-UID",
    ),
    _environment("MOIETY_SYSTEM_DIR", "the same of the agent of all users", "/run/moiety"),
    _environment("MOIETY_AGENT_ARGS", "flags for an agent that a command starts", "none"),
    _environment("MOIETY_DISABLE", "1: programs run as if moiety were not there", "they share"),
    _environment("MOIETY_TOOLS", "allow: also ncu, compute-sanitizer, cuda-gdb", "refused"),
    _environment(
        "MOIETY_DEEPBIND", "keep: leave RTLD_DEEPBIND alone (not shared then)", "taken off"
    ),
    _environment("MOIETY_SIMGPU", "a simulated card, or a file that describes one", "real GPUs"),
    _environment(
        "MOIETY_SIMGPU_STATE", "where simulated GPUs keep their memory", "a folder in /dev/shm"
    ),
    _environment("MOIETY_HOST_MEMORY", "host memory that the agent believes in", "what there is"),
    _environment("MOIETY_LOCK_DIR", "where agents of all users see their locks", "/run/lock"),
    _environment("MOIETY_NATIVE", "the folder with libmoiety.so", "the package's own"),
    _environment("MOIETY_RECORD", "the folder where a recorder writes", "no recording"),
    _environment("MOIETY_ERRORS", "json: an error is one line of JSON on stderr", "sentences"),
    _environment("MOIETY_DEBUG", "1: errors with where they come from", "sentences"),
)

SETTINGS: Final[tuple[Setting, ...]] = (
    *_AGENT,
    *_WATCH,
    *_LIMITS,
    *_RUN,
    *_KUBE,
    *_CLI,
    *_ENVIRONMENT,
)


def of_section(section: str) -> tuple[Setting, ...]:
    """The settings of a section, as SECTIONS names it."""
    return tuple(setting for setting in SETTINGS if setting.section == section)
