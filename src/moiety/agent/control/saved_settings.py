"""What `moiety set --agent` changed, written down for the agents that follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from moiety.agent.control.options import Options, changed_settings
from moiety.agent.control.records import write_whole
from moiety.agent.system.paths import Directory
from moiety.arbiter.settings import Settings


class SavedSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """settings.json: what was changed. Empty fields are left out: older agents know fewer."""

    settings: dict[str, str] = {}
    """What was typed, by field of the arbiter's settings."""
    beside: dict[str, Any] = {}
    """Their values on the command line and in files at that time: a killed agent comes back with
    the same values, and the changes made since are newer."""
    drained: list[str] = []
    """UUIDs of the GPUs that get no new workloads."""

    def over(self, settings: Settings) -> Settings:
        """These settings with the changes made to them; raises ValueError with a sentence."""
        return changed_settings(settings, self.settings)

    def and_then(self, settings: dict[str, str]) -> SavedSettings:
        """These changes, and then others."""
        return msgspec.structs.replace(self, settings=self.settings | settings)

    def without_settings(self) -> SavedSettings:
        """These changes, with the arbiter's settings as they were before."""
        return SavedSettings(drained=self.drained)

    def with_drained(self, uuids: Iterable[str], *, drained: bool) -> SavedSettings:
        """These changes, and then GPUs that get no new workloads, or get them again."""
        now = {*self.drained, *uuids} if drained else {*self.drained}.difference(uuids)
        return msgspec.structs.replace(self, drained=sorted(now))


def write(
    directory: Directory, kept: SavedSettings, options: Options, *, ends: bool = False
) -> None:
    """Write the changes to the file; without changes there is no file. Raises OSError.

    `options` are the options of the agent that was changed. If it `ends` in order, the next command
    line is newer than the changes; files stay as old as they were.
    """
    beside = {f: v for f, v in options.settings.items() if not ends or f in options.filed}
    kept = msgspec.structs.replace(kept, beside=beside)
    if not kept.settings and not kept.drained:
        directory.settings.unlink(missing_ok=True)
    else:
        write_whole(directory.settings, msgspec.json.encode(kept) + b"\n")


def read(directory: Directory, options: Options, log: Any) -> SavedSettings:
    """The changes made to earlier agents, less what the command line and files say anew.

    A file that cannot be understood is set aside, and the log says so: an agent with the defaults
    is better than none. Of settings that another version took, those that this one refuses are
    left out.
    """
    path = directory.settings
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=SavedSettings)
    except FileNotFoundError:
        return SavedSettings()
    except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
        log.warning("settings_invalid", problem=str(error), set_aside=_set_aside(path))
        return SavedSettings()
    kept = msgspec.structs.replace(kept, settings=_accepted(kept.settings, log))
    return msgspec.structs.replace(kept, settings=_not_said_anew(kept, options.settings))


def look(directory: Directory, settings: Mapping[str, Any]) -> dict[str, str]:
    """What `read` would find, by field, and nothing where the file cannot be read.

    `settings` are those of the arbiter that the command line and files say.
    """
    try:
        kept = msgspec.json.decode(directory.settings.read_bytes(), type=SavedSettings)
    except (OSError, ValueError):
        return {}
    return _not_said_anew(kept, settings)


def _not_said_anew(kept: SavedSettings, settings: Mapping[str, Any]) -> dict[str, str]:
    """The changes without those that the command line or a file has overridden since."""
    newer = {field for field, value in settings.items() if kept.beside.get(field) != value}
    return {field: text for field, text in kept.settings.items() if field not in newer}


def _accepted(settings: dict[str, str], log: Any) -> dict[str, str]:
    """Those of these settings that this version takes."""
    found = {}
    for field, text in settings.items():
        try:
            changed_settings(Settings(arena_bytes=0), {field: text})
        except ValueError as error:
            log.warning("setting_refused", field=field, problem=str(error))
        else:
            found[field] = text
    return found


def _set_aside(path: Path) -> str:
    aside = path.with_name(f"{path.name}.damaged")
    try:
        path.replace(aside)
    except OSError as error:
        return f"not even that: {error.strerror}"
    return str(aside)
