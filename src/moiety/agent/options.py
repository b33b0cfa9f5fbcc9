"""What an agent can be told when it starts: one table for its command line and for the CLI."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moiety.agent.host import available_bytes
from moiety.agent.logs import LogFormat, parse_log_format
from moiety.agent.scrape import Address, parse_address
from moiety.arbiter.settings import Overdue, Settings
from moiety.devices.budget import GRANULE_BYTES
from moiety.model.share import check_quantum
from moiety.model.units import format_bytes, parse_bytes, parse_duration

ARENA_SHARE: Final = 0.8
"""of the memory that is available when the agent starts"""
ARENA_MOST: Final = 0.95
"""of the same; no arena can be asked for that takes more"""


@dataclass(frozen=True, slots=True)
class Options:
    """How one agent was told to be."""

    capacity_bytes: int | None = None
    arena_bytes: int | None = None
    arena_ready_bytes: int | None = None
    """the most of it that is prepared before it is needed; None: whatever could be"""
    gpus: tuple[int, ...] | None = None
    metrics: Address | None = None
    """where Prometheus reads; None: nowhere"""
    log_format: LogFormat = LogFormat.TEXT
    idle_exit_s: float = 60.0
    linger_s: float = 5.0
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """of the arbiter, where they are not the defaults"""
    ready_fd: int | None = None
    """who started it waits here for one line: that it is ready, or why not"""

    def arbiter_settings(self) -> Settings:
        """The arbiter's settings, with host memory for evicted bytes as found on this machine."""
        arena = self.arena_bytes
        if arena is None:
            arena = int(available_bytes() * ARENA_SHARE)
        return Settings(arena_bytes=arena, **self.settings)

    def settings_over(self, settings: Settings) -> Settings:
        """The settings as this agent was started, with the host memory that it found then."""
        return Settings(arena_bytes=settings.arena_bytes, **self.settings)


@dataclass(frozen=True, slots=True)
class Flag:
    """One option: `field` is a field of Options, or of the arbiter's Settings."""

    name: str
    field: str
    parse: Callable[[str], Any]
    metavar: str
    help: str
    of_arbiter: bool = False


def parse_gpus(text: str) -> tuple[int, ...]:
    """0,2 as (0, 2); raises ValueError."""
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise ValueError(f"{text!r} is no list of GPU indices; write 0,1") from None


def parse_factor(text: str) -> float:
    """A number that is not negative; raises ValueError."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(f"{text!r} must be a number from 0 on")
    return value


def parse_capacity(text: str) -> int:
    """Bytes, one granule of GPU memory at least; raises ValueError."""
    value = parse_bytes(text)
    if value < GRANULE_BYTES:
        raise ValueError(f"{text!r} is too little, {format_bytes(GRANULE_BYTES)} are the least")
    return value


def parse_speed(text: str) -> int:
    """Bytes in a second, more than none; raises ValueError."""
    if value := parse_bytes(text):
        return value
    raise ValueError(f"{text!r} is no speed at all")


def parse_quantum(text: str) -> float:
    """Seconds, 0 for none of its own; raises ValueError."""
    return check_quantum(value) if (value := parse_duration(text)) else value


def parse_overdue(text: str) -> Overdue:
    """What is done about who does not give a GPU back in time; raises ValueError."""
    try:
        return Overdue(text)
    except ValueError:
        raise ValueError(f"{text!r} is none of {', '.join(Overdue)}") from None


FLAGS: Final = (
    Flag("--capacity", "capacity_bytes", parse_capacity, "SIZE", "share out this much of each GPU"),
    Flag("--arena", "arena_bytes", parse_bytes, "SIZE", "host memory for evicted data"),
    Flag(
        "--arena-ready",
        "arena_ready_bytes",
        parse_bytes,
        "SIZE",
        "prepare at most so much of it ahead of need",
    ),
    Flag("--gpus", "gpus", parse_gpus, "LIST", "manage only these GPUs, such as 0,1"),
    Flag("--metrics", "metrics", parse_address, "ADDRESS", "serve /metrics there, such as 9402"),
    Flag("--log-format", "log_format", parse_log_format, "FORM", "text, json, or journal"),
    Flag("--idle-exit", "idle_exit_s", parse_duration, "TIME", "end when unused so long; 0: never"),
    Flag("--linger", "linger_s", parse_duration, "TIME", "forget an ended workload after so long"),
    Flag("--turn-min", "turn_min_s", parse_duration, "TIME", "no turn is shorter", True),
    Flag("--turn-factor", "turn_factor", parse_factor, "N", "turn length / hand-off time", True),
    Flag("--quantum", "quantum_s", parse_quantum, "TIME", "length of every turn; 0: none", True),
    Flag("--idle-min", "idle_min_s", parse_duration, "TIME", "silence that ends a turn", True),
    Flag(
        "--idle-free", "idle_free_s", parse_duration, "TIME", "same, if no data has to move", True
    ),
    Flag("--link", "link_bytes_per_s", parse_speed, "SIZE", "assumed speed of the link", True),
    Flag("--revoke-deadline", "revoke_deadline_s", parse_duration, "TIME", "report drains", True),
    Flag("--overdue", "overdue", parse_overdue, "WHAT", "then also: report, fence or kill", True),
)


def parse(arguments: Sequence[str]) -> Options:
    """Options from a command line; raises ValueError with a sentence."""
    parser = argparse.ArgumentParser(prog="moiety.agent", exit_on_error=False, add_help=False)
    for flag in FLAGS:
        parser.add_argument(flag.name, dest=flag.field)
    parser.add_argument("--ready-fd", dest="ready_fd", type=int)
    try:
        given, rest = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError as error:
        raise ValueError(str(error)) from None
    if rest:
        raise ValueError(f"the agent does not know {rest[0]!r}")
    return from_values(vars(given))


def from_values(values: dict[str, Any]) -> Options:
    """Options from the text given for each field (None: not given); raises ValueError."""
    own: dict[str, Any] = {"ready_fd": values.get("ready_fd")}
    settings: dict[str, Any] = {}
    for flag in FLAGS:
        text = values.get(flag.field)
        if text is not None:
            try:
                value = flag.parse(text)
            except ValueError as error:
                raise ValueError(f"{flag.name}: {error}") from None
            (settings if flag.of_arbiter else own)[flag.field] = value
    return Options(settings=settings, **own)


def changed_settings(settings: Settings, texts: dict[str, str]) -> Settings:
    """Settings with what was typed for some fields; raises ValueError with a sentence."""
    known = {flag.field: flag for flag in FLAGS if flag.of_arbiter}
    unknown = [field for field in texts if field not in known]
    if unknown:
        raise ValueError(f"{unknown[0]!r} cannot be changed while the agent runs")
    return dataclasses.replace(settings, **from_values(texts).settings)
