"""What holds: a flag before the environment, a user's file before the system's, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from moiety.config.files import File, read_all
from moiety.config.places import Kind
from moiety.config.setting import Setting
from moiety.config.table import OF_THE_SYSTEM, SECTIONS, SETTINGS, name_of, of_section
from moiety.model.errors import BadSetting, InvalidValue

S = TypeVar("S")


class Source(StrEnum):
    """Where a value comes from; the first counts for most."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    USER = "user"
    SYSTEM = "system"
    DEFAULT = "default"


_OF_FILE: Final = {Kind.USER: Source.USER, Kind.SYSTEM: Source.SYSTEM, Kind.NAMED: Source.USER}


class Value(msgspec.Struct, frozen=True):
    """What a setting is, and where that stands."""

    setting: Setting
    value: Any
    """What its `parse` made of the text; None if it is set nowhere and has no default."""
    text: str | None
    """The text as it was written."""
    source: Source
    where: str = ""
    """FILE:LINE, a variable or a flag; empty for a default."""
    section: str = ""
    """The full name of a section that there is for each name: users.alice; else empty."""

    @property
    def name(self) -> str:
        """As people write it: agent.turn-min, users.alice.gpu."""
        return f"{self.section}.{self.setting.key}" if self.section else self.setting.name


class Config(msgspec.Struct, frozen=True):
    """What flags, environment and files say."""

    environment: Mapping[str, str]
    flags: Mapping[str, str]
    """The text of each flag, by the name of its setting."""
    files: Sequence[File]

    def value(self, setting: Setting) -> Value:
        """What holds for one setting; raises BadSetting, for a flag InvalidValue or its kind."""
        text = self.flags.get(setting.name)
        if text is not None:
            where = setting.flag or setting.name
            return Value(setting, _typed(setting, text, where), text, Source.FLAG, where)
        variable = setting.variable
        if variable is not None and (text := self.environment.get(variable)) is not None:
            value = _parsed(setting, text, variable, variable)
            return Value(setting, value, text, Source.ENVIRONMENT, variable)
        for file in self.files:
            table = file.tables.get(setting.section)
            if isinstance(table, dict) and setting.key in table:
                return _of_file(file, setting.section, setting, table[setting.key])
        value = None if setting.default is None else setting.parse(setting.default)
        return Value(setting, value, setting.default, Source.DEFAULT)

    def section(self, section: str) -> dict[str, Value]:
        """What holds in a section, by field. Raises BadSetting."""
        return {setting.field: self.value(setting) for setting in of_section(section)}

    def all_of(self, section: type[S]) -> S:
        """What holds in a section, as an object of its class. Raises BadSetting."""
        found = self.section(name_of(section))
        return section(**{field: value.value for field, value in found.items()})

    def named(self, group: str) -> dict[str, dict[str, Value]]:
        """What files say under `[GROUP.NAME]`: by name, then by field; only what is said.

        `group` is users or groups, say. Raises BadSetting.
        """
        section = f"{group}.*"
        known = {setting.key: setting for setting in of_section(section)}
        found: dict[str, dict[str, Value]] = {}
        for file in self.files:
            for name, table in file.tables.get(group, {}).items():
                values = found.setdefault(name, {})
                for key, raw in table.items():
                    setting = known.get(key)
                    if setting is not None and setting.field not in values:
                        values[setting.field] = _of_file(file, f"{group}.{name}", setting, raw)
        return found


def load(
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
    files: Sequence[File] | None = None,
) -> Config:
    """Everything that was said. Raises BadConfigFile, and BadSetting for a name that is none."""
    environment = os.environ if environment is None else environment
    found = read_all(environment) if files is None else files
    for file in found:
        for problem in unknown_names(file):
            raise problem
    return Config(environment, flags or {}, found)


def problems(file: File) -> list[BadSetting]:
    """All that is wrong with one file."""
    found = list(unknown_names(file))
    for name, section, table in _sections(file):
        for setting in of_section(section):
            if isinstance(table, dict) and setting.key in table:
                try:
                    _of_file(file, name, setting, table[setting.key])
                except BadSetting as problem:
                    found.append(problem)
    return found


def unknown_names(file: File) -> Iterator[BadSetting]:
    """What stands in a file under a name that is none, or where it does not belong."""
    for name, section, table in _sections(file):
        where = file.where(name)
        if not section:
            yield _no_section(where, name, table)
        elif not isinstance(table, dict):
            hint = f"[{name}]" if "." not in name else f"[{section.replace('*', 'NAME')}]"
            yield BadSetting(where, name, "is a section", hint)
        else:
            if section in OF_THE_SYSTEM and file.kind is Kind.USER:
                hint = "an administrator, who can write it there"
                yield BadSetting(where, f"[{name}]", "counts in the system's file only", hint)
            known = [setting.key for setting in of_section(section)]
            for key in table:
                if key not in known:
                    full = f"{name}.{key}"
                    yield BadSetting(file.where(full), full, *_no_such("setting", key, known))


def _no_section(where: str, name: str, content: Any) -> BadSetting:
    """What is wrong with a name that is no section: it may be a setting that stands in none."""
    sections = [f"[{s.section}]" for s in SETTINGS if s.section and s.key == name]
    if sections and not isinstance(content, dict):
        return BadSetting(where, name, "stands in no section", f"under {' or '.join(sections)}")
    heads = sorted({section.partition(".")[0] for section in SECTIONS})
    return BadSetting(where, f"[{name}]", *_no_such("section", name, heads))


def _sections(file: File) -> Iterator[tuple[str, str, Any]]:
    """What stands at the top of a file: its full name, its name in SECTIONS, and its content."""
    for head, content in file.tables.items():
        several = f"{head}.*"
        if several in SECTIONS and isinstance(content, dict):
            for name, table in content.items():
                yield f"{head}.{name}", several, table
        else:
            yield head, next((s for s in (head, several) if s in SECTIONS), ""), content


def closest(word: str, known: Sequence[str]) -> str:
    """The known word that is meant, or nothing."""
    import difflib

    found = difflib.get_close_matches(word.replace("_", "-"), known, n=1)
    return found[0] if found else ""


def text_of(raw: Any) -> str | None:
    """A value of a TOML file as one would type it; None for what no setting can be."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str):
        return raw
    if isinstance(raw, int | float):
        return repr(raw)
    if isinstance(raw, list):
        parts = [text_of(part) for part in raw]
        return None if None in parts else ",".join(part for part in parts if part is not None)
    return None


def _no_such(what: str, word: str, known: Sequence[str]) -> tuple[str, str]:
    near = closest(word, known)
    return f"there is no such {what}", near or ", ".join(known)


def _of_file(file: File, section: str, setting: Setting, raw: Any) -> Value:
    name = f"{section}.{setting.key}"
    where = file.where(name)
    text = text_of(raw)
    if text is None:
        raise BadSetting(where, name, f"is no {type(raw).__name__}", f"{setting.key} = a string")
    value = _parsed(setting, text, where, name)
    several = "" if section == setting.section else section
    return Value(setting, value, text, _OF_FILE[file.kind], where, several)


def _typed(setting: Setting, text: str, flag: str) -> Any:
    """What a flag's text means; raises what its `parse` does, with the flag named."""
    try:
        return setting.parse(text)
    except InvalidValue as error:
        error.what = f"{flag}: {error.what}"
        raise
    except ValueError as error:
        raise InvalidValue(f"{flag}: {error}") from None


def _parsed(setting: Setting, text: str, where: str, name: str) -> Any:
    try:
        return setting.parse(text)
    except ValueError as error:
        hint = getattr(error, "hint", "") or f"{setting.metavar}: {setting.help}"
        raise BadSetting(where, name, str(error), hint) from None
