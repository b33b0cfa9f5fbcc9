"""The options of an agent at its start: the section [agent] of the settings."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from moiety.agent.arena.host_memory import available_bytes
from moiety.agent.core.rate_limits import MESSAGES
from moiety.agent.system import pool_account
from moiety.arbiter.settings import OverduePolicy, Settings
from moiety.config.files import File, read_all
from moiety.config.load import Config, Source, load
from moiety.config.places import Kind
from moiety.config.table import of_section
from moiety.config.values import Address, LogFormat, Visible
from moiety.enforcement.policy import Policy

ARENA_SHARE: Final = 0.8
"""Size of the arena by default, as a part of the memory that is available at the start."""
ARENA_MOST: Final = 0.95
"""Size of the largest arena, as a part of the same memory."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one agent."""

    capacity_bytes: int | None = None
    arena_bytes: int | None = None
    arena_ready_bytes: int | None = None
    """The most of it that is prepared before it is needed; None: all of it."""
    gpus: tuple[int, ...] | None = None
    metrics: Address | None = None
    """The address that Prometheus reads; None: there is none."""
    metrics_hosts: tuple[str, ...] | None = None
    """Names under which a port is asked for them, beside addresses and the machine's name."""
    system: bool = False
    """True if it serves all users of the machine."""
    socket_mode: int = 0o666
    """Mode of a system agent's control socket: which users may connect."""
    socket_group: int | None = None
    pool_uid: int | None = None
    """The account of the machine's pool, which starts programs for all users."""
    visible: Visible = Visible.SIZES
    """What users of a system agent see of each other."""
    messages_per_s: float = MESSAGES
    """Messages a second of one user's programs, after a burst of ten times as many."""
    log_format: LogFormat = LogFormat.TEXT
    idle_exit_s: float = 60.0
    linger_s: float = 5.0
    watch: Policy = dataclasses.field(default_factory=Policy)
    """What is done about processes that are without moiety, are idle, or slow others down."""
    say_after_s: float = 3.0
    """Seconds after which a waiting program is told why; 0: never."""
    fast_handoff: bool = True
    """Whether a native thread reads programs' messages, and carries out what is armed."""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The arbiter's settings that are set somewhere, by field; the rest have their defaults."""
    filed: frozenset[str] = frozenset()
    """The fields that a file sets, and that neither a flag nor the environment overrides."""
    ready_fd: int | None = None
    """Pipe to the process that started it, for one line: that it is ready, or why not."""

    def arbiter_settings(self) -> Settings:
        """The arbiter's settings, with host memory for evicted bytes as found on this machine."""
        arena = self.arena_bytes
        if arena is None:
            arena = int(available_bytes() * ARENA_SHARE)
        return Settings(arena_bytes=arena, **self.settings)

    def settings_over(self, settings: Settings) -> Settings:
        """The settings as this agent was started, with the host memory that it found then."""
        return Settings(arena_bytes=settings.arena_bytes, **self.settings)


POOL_USER: Final = next(each for each in of_section("pool") if each.field == "user")
FLAGS: Final = of_section("agent") + of_section("memory") + of_section("watch")
"""The flags of an agent's command line."""


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
    """The files for an agent of all users: no user's own file, not even root's."""
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
    if system:  # it serves all users, and no user's program may keep the others waiting
        own.setdefault("idle_exit_s", 0.0)
        settings.setdefault("overdue", OverduePolicy.FENCE)
        own["pool_uid"] = pool_account.uid_of(config.value(POOL_USER).value)
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
