"""Where files of settings and other files of a user lie; it is quick to import."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

SYSTEM: Final = Path("/etc/moiety/config.toml")
OVERRIDE: Final = "MOIETY_CONFIG"


class Kind(StrEnum):
    """Whose file it is."""

    SYSTEM = "system"
    USER = "user"
    NAMED = "named"
    """MOIETY_CONFIG or a command line names it; it counts as the system's and the user's."""


HOMES: Final = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
}
"""Where a user's files lie, below the home directory unless the environment says otherwise."""


def user_folder(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder that one of HOMES names, as the XDG Base Directory Specification has it."""
    named = environment.get(name, "")
    if named.startswith("/"):  # a relative one is to be ignored, it says
        return Path(named)
    return Path(os.path.expanduser("~")) / HOMES[name]


def user_file(environment: Mapping[str, str]) -> Path:
    """$XDG_CONFIG_HOME/moiety/config.toml."""
    return user_folder("XDG_CONFIG_HOME", environment) / "moiety" / "config.toml"


def places(environment: Mapping[str, str]) -> list[tuple[Path, Kind]]:
    """Where files can stand; the first counts for most."""
    if (named := environment.get(OVERRIDE)) is not None:
        return [(Path(named).absolute(), Kind.NAMED)] if named else []
    return [(user_file(environment), Kind.USER), (SYSTEM, Kind.SYSTEM)]


def is_any_there(environment: Mapping[str, str]) -> bool:
    """Whether a file can say anything: one is there, or one is named."""
    return any(kind is Kind.NAMED or os.path.lexists(path) for path, kind in places(environment))
