"""`moiety config`: shows each setting and where it comes from, and checks configuration files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from moiety.agent.control import saved_settings
from moiety.agent.control.client import arguments_from_environment
from moiety.agent.control.options import FLAGS, of_config, typed
from moiety.agent.system import paths
from moiety.cli.lazy_completion import completed
from moiety.cli.output import emit_json, output_option, table
from moiety.config import files, guarantees, places
from moiety.config.load import Config, Source, Value, closest, load, problems
from moiety.config.setting import Setting
from moiety.config.table import SECTIONS, SETTINGS, of_section
from moiety.model import errors

ARGUMENTS = "MOIETY_AGENT_ARGS"
SET_AGENT = "moiety set --agent"
NAMED_SECTIONS = ("users", "groups")
HELP: Final = """Show what is set, and where; check a file of settings.

\b
Settings stand, what comes first counting for most,
  on the command line      moiety run --gpu 0.5
  in the environment       MOIETY_RUN_GPU=0.5
  in your file             $XDG_CONFIG_HOME/moiety/config.toml (~/.config/moiety/config.toml)
  in the system's file     /etc/moiety/config.toml"""


@click.group(help=HELP)
def config() -> None:
    """Show what is set, and where; check a file of settings."""


@config.command()
@click.option("--origin", is_flag=True, help="Show where each value comes from.")
@click.option("--changed", is_flag=True, help="Only what is not the default.")
@output_option
@click.argument(
    "names", nargs=-1, metavar="[SECTION|NAME]...", shell_complete=completed("names_of_settings")
)
def show(origin: bool, changed: bool, output: str, names: tuple[str, ...]) -> None:
    """Show every setting, or those named: `agent`, `run.gpu`, `MOIETY_DIR`."""
    found = [value for value in everything() if not changed or value.source is not Source.DEFAULT]
    if names:
        wanted = [setting for name in names for setting in chosen(name)]
        found = [value for value in found if value.setting in wanted]
    if output == "json":
        emit_json([as_json(value) for value in found])
        return
    titles = ["SETTING", "VALUE", *(["FROM"] if origin else [])]
    rows = [[value.name, said(value), *([came_from(value)] if origin else [])] for value in found]
    click.echo(table(titles, rows))


@config.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@output_option
def check(file: Path | None, output: str) -> None:
    """Check FILE, or the files that count here; exit code 78 if something is wrong."""
    found = [_named(file)] if file is not None else files.read_all(os.environ)
    wrong = [problem for each in found for problem in problems(each)]
    if not wrong:
        wrong = list(guarantees.problems(Config({}, {}, found)))
    if output == "json":
        said = [{"what": problem.what, "hint": problem.hint} for problem in wrong]
        names = [str(each.path) for each in found]
        notes = [note for each in found for note in nobodies(each)]
        emit_json({"files": names, "problems": said, "notes": notes})
        sys.exit(errors.BadSetting.exit_code if wrong else 0)
    for problem in wrong:
        click.echo(problem.render(), err=True)
    for note in [note for each in found for note in nobodies(each)]:
        click.echo(f"moiety: {note}", err=True)
    for each in found:
        bad = sum(problem.what.startswith(str(each.path)) for problem in wrong)
        click.echo(f"{each.path}: {f'{bad} wrong' if bad else 'good'}")
    if not found:
        looked = " and ".join(str(path) for path, _ in places.places(os.environ))
        click.echo(f"there is no file of settings ({looked or 'MOIETY_CONFIG is empty'})")
    if wrong:
        sys.exit(errors.BadSetting.exit_code)


def _named(file: Path) -> files.File:
    """A file that the command line names. Raises BadConfigFile with what to do about that one."""
    path = file.absolute()
    try:
        read = files.read(path, places.Kind.NAMED)
    except errors.BadConfigFile as error:
        if not path.exists():
            error.hint = "the path of a file that is there"
        elif "it is not TOML" in error.what:
            error.hint = 'NAME = "TEXT", on a line: texts have quotes (docs/configuration.md)'
        raise
    assert read is not None, "a file that is named is there, or it is refused"
    return read


def nobodies(file: files.File) -> Iterator[str]:
    """Notes about sections of users and groups that do not exist on this machine."""
    import grp
    import pwd

    for section, what, find in (("users", "user", pwd.getpwnam), ("groups", "group", grp.getgrnam)):
        named = file.tables.get(section)
        for name in named if isinstance(named, dict) else ():
            try:
                if not name.isdecimal():  # a number is the id of a user or group without a name
                    find(name)
            except (KeyError, ValueError):
                where = file.where(f"{section}.{name}")
                yield f"{where}: this machine has no {what} {name!r}: the section has no effect"


def everything() -> Iterator[Value]:
    """The value of every setting, in the table's order. Raises BadConfigFile or BadSetting."""
    loaded = load()
    texts, _ = _agent_arguments()
    said_there = {flag.name: texts[flag.field] for flag in FLAGS if flag.field in texts}
    changed = _changed(Config(loaded.environment, said_there, loaded.files))
    for setting in SETTINGS:
        if setting.name in changed:
            yield Value(setting, None, changed[setting.name], Source.FLAG, SET_AGENT)
            continue
        if setting.name not in said_there:
            yield loaded.value(setting)
            continue
        text = said_there[setting.name]
        value = Config({}, {setting.name: text}, ()).value(setting).value
        yield Value(setting, value, text, Source.ENVIRONMENT, ARGUMENTS)
    for group in NAMED_SECTIONS:
        for values in loaded.named(group).values():
            yield from values.values()


def _changed(config: Config) -> dict[str, str]:
    """By name: what `moiety set --agent` changed, and neither a flag nor a file changed since."""
    found = saved_settings.look(paths.find(), of_config(config).settings)
    return {flag.name: found[flag.field] for flag in FLAGS if flag.field in found}


def chosen(name: str) -> list[Setting]:
    """The settings of a section, or the setting of a name; raises BadArgument."""
    if name in SECTIONS:
        return list(of_section(name))
    if found := [setting for setting in SETTINGS if name in (setting.name, setting.variable)]:
        return found
    known = [*SECTIONS, *(setting.name for setting in SETTINGS)]
    near = closest(name, known)
    hint = near or "moiety config show, which names them all"
    raise errors.BadArgument(f"there is no setting {name!r}", hint)


def said(value: Value) -> str:
    """A value for a table: as it was written, or the effect of an unset one."""
    return value.text if value.text is not None else f"({value.setting.unset})"


def came_from(value: Value) -> str:
    """Where a value comes from, for a table."""
    return value.where or str(value.source)


def as_json(value: Value) -> dict[str, Any]:
    """A value for a program."""
    return {
        "name": value.name,
        "value": value.text,
        "source": str(value.source),
        "where": value.where or None,
        "variable": value.setting.variable,
        "flag": value.setting.flag,
        "help": value.setting.help,
    }


def _agent_arguments() -> tuple[dict[str, str], int | None]:
    try:
        return typed(arguments_from_environment())[:2]
    except ValueError as error:
        hint = getattr(error, "hint", "") or "moiety agent start --help"
        text = str(error).removeprefix(f"{ARGUMENTS}: ")
        raise errors.BadArgument(f"{ARGUMENTS}: {text}", hint) from None
