"""What an agent is told when it starts: the section [agent] of the settings."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from moiety.agent.arena.host_memory import available_bytes
from moiety.agent.core.rate_limits import MESSAGES
from moiety.arbiter.settings import OverduePolicy, Settings
from moiety.config.files import File, Kind, read_all
from moiety.config.load import Config, Source, load
from moiety.config.table import of_section
from moiety.config.values import Address, LogFormat, Visible
from moiety.enforcement.policy import Policy

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
    system: bool = False
    """it serves all users of the machine"""
    socket_mode: int = 0o666
    """of a system agent's control socket: who may come"""
    socket_group: int | None = None
    visible: Visible = Visible.SIZES
    """what users see of each other, with a system agent"""
    messages_per_s: float = MESSAGES
    """of one user's programs, after a burst of ten times as many"""
    log_format: LogFormat = LogFormat.TEXT
    idle_exit_s: float = 60.0
    linger_s: float = 5.0
    watch: Policy = dataclasses.field(default_factory=Policy)
    """what is done about who uses the GPUs without us, is idle, or slows others down"""
    say_after_s: float = 3.0
    """programs that wait longer are told why; 0: never"""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """of the arbiter, where somebody said what they are"""
    filed: frozenset[str] = frozenset()
    """the fields that a file says, and nothing that counts for more"""
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


FLAGS: Final = of_section("agent") + of_section("watch")
"""what the command line of an agent knows"""


def parse(arguments: Sequence[str], config: Config | None = None) -> Options:
    """Options from a command line, else from the environment, files of settings, and defaults.

    Raises ValueError with a sentence for the command line, ConfigError for all else. `config` is
    read if it is not given.
    """
    texts, ready_fd, system = typed(arguments)
    if config is None:
        config = load(files=files_of_system() if system else None)
    said = {flag.name: texts[flag.field] for flag in FLAGS if flag.field in texts}
    known = Config(config.environment, {**config.flags, **said}, config.files)
    return of_config(known, ready_fd, system=system)


def files_of_system() -> list[File]:
    """What an agent of all users goes by: nobody's own file, root's neither."""
    return [file for file in read_all(os.environ) if file.kind is not Kind.USER]


def typed(arguments: Sequence[str]) -> tuple[dict[str, str], int | None, bool]:
    """What a command line says, by field, --ready-fd and --system; raises ValueError."""
    parser = argparse.ArgumentParser(prog="moiety.agent", exit_on_error=False, add_help=False)
    for flag in FLAGS:
        switch: dict[str, Any] = {"nargs": "?", "const": "true"} if flag.is_switch else {}
        parser.add_argument(str(flag.flag), dest=flag.field, **switch)
    parser.add_argument("--ready-fd", dest="ready_fd", type=int)
    parser.add_argument("--system", dest="system", action="store_true")
    try:
        given, rest = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError as error:
        raise ValueError(str(error)) from None
    if rest:
        raise ValueError(f"the agent does not know {rest[0]!r}")
    texts = vars(given)
    ready_fd, system = texts.pop("ready_fd"), texts.pop("system")
    return {field: text for field, text in texts.items() if text is not None}, ready_fd, system


def of_config(config: Config, ready_fd: int | None = None, *, system: bool = False) -> Options:
    """Options as the section [agent] has them; raises ValueError for a flag, else BadSetting."""
    own: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    watch: dict[str, Any] = {}
    filed: set[str] = set()
    for flag in FLAGS:
        found = config.value(flag)
        if found.source is Source.DEFAULT:
            continue
        part = watch if flag.section == "watch" else settings if flag.of_arbiter else own
        part[flag.field] = found.value
        if found.source in (Source.USER, Source.SYSTEM):
            filed.add(flag.field)
    if system:  # it is there for whoever comes, and nobody's program may keep the others waiting
        own.setdefault("idle_exit_s", 0.0)
        settings.setdefault("overdue", OverduePolicy.FENCE)
    return Options(
        settings=settings,
        watch=Policy(**watch),
        filed=frozenset(filed),
        ready_fd=ready_fd,
        system=system,
        **own,
    )


def changed_settings(settings: Settings, texts: dict[str, str]) -> Settings:
    """Settings with what was typed for some fields; raises ValueError with a sentence."""
    known = {flag.field: flag for flag in FLAGS if flag.of_arbiter}
    unknown = [field for field in texts if field not in known]
    if unknown:
        raise ValueError(f"{unknown[0]!r} cannot be changed while the agent runs")
    said = {known[field].name: text for field, text in texts.items()}
    return dataclasses.replace(settings, **of_config(Config({}, said, ())).settings)
