"""Options of commands that are settings, made from the table of settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from moiety.cli.lazy_completion import completed_as
from moiety.config.load import Config, load
from moiety.config.setting import Setting
from moiety.config.table import name_of, of_section

S = TypeVar("S")
SHORT: Final = {"run.quiet": "-q"}


def setting_options(section: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A command's options for every setting of a section that has a flag.

    Each arrives as the text that was typed (a switch as a bool), None if it was not.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for setting in reversed(of_section(name_of(section))):
            if setting.flag:
                command = _option(setting)(command)
        return command

    return decorate


def settled(
    section: type[S], given: Mapping[str, str | bool | None], config: Config | None = None
) -> S:
    """The values of a section, as an object of its class; typed options count for most.

    Raises BadConfigFile, BadSetting, and errors of a setting's parser for a typed value.
    """
    config = config or load()
    typed = {
        setting.name: _text(value)
        for setting in of_section(name_of(section))
        if (value := given.get(setting.field)) is not None
    }
    return Config(config.environment, typed, config.files).all_of(section)


def _option(setting: Setting) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    short = [SHORT[setting.name]] if setting.name in SHORT else []
    if not setting.is_switch:
        names = [str(setting.flag), *short, setting.field]
        return click.option(
            *names, metavar=setting.metavar, help=setting.help, shell_complete=completed_as(setting)
        )
    key = str(setting.flag).removeprefix("--")
    names = [f"--{key}/--no-{key}", *short, setting.field]
    return click.option(*names, default=None, help=setting.help)


def _text(value: str | bool) -> str:
    if isinstance(value, str):
        return value
    return "true" if value else "false"
