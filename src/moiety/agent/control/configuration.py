"""An agent's configuration: its command line and the files, read at its start and on demand."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Final

from moiety.agent.control.limits import LimitRules
from moiety.agent.control.options import Options, files_of_system, parse, typed
from moiety.agent.system.users import USERS
from moiety.config.load import load

Read = Callable[[], tuple[Options, LimitRules]]
LIVE: Final = frozenset({"settings", "watch", "visible", "pool_uid", "filed", "ready_fd"})
"""Fields of Options that can change while the agent runs."""


def configured(arguments: Sequence[str]) -> tuple[Options, LimitRules]:
    """Options and rules as they are written now.

    Raises ValueError with a sentence for the command line, ConfigError for all else.
    """
    system = typed(arguments)[2]
    config = load(files=files_of_system() if system else None)
    options = parse(arguments, config)
    if not system:  # a user who could change the agent itself needs no rules
        return options, LimitRules()
    USERS.forget()
    return options, LimitRules(config, exempt=frozenset({0, os.getuid()}))


def later(before: Options, after: Options) -> list[str]:
    """The keys of changed options that count for the next agent only."""
    return [
        field.name.removesuffix("_bytes").removesuffix("_s").replace("_", "-")
        for field in dataclasses.fields(Options)
        if field.name not in LIVE and getattr(before, field.name) != getattr(after, field.name)
    ]
