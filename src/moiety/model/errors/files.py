"""Errors of files: those that are written, traces, scenarios and files of settings."""

from __future__ import annotations

from moiety.model.errors.base import ExitCode, MoietyError


class FileError(MoietyError):
    """A file cannot be read or written."""


class FileExists(FileError):
    """The file exists and would be overwritten."""

    exit_code = ExitCode.CANNOT_CREATE

    def __init__(self, path: str, instead: str = "another name, or --force to replace it") -> None:
        super().__init__(f"{path} exists already", instead)


class FileNotWritable(FileError):
    """The file cannot be written, or not to its end."""

    exit_code = ExitCode.CANNOT_CREATE

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path} cannot be written: {problem}",
            "a folder that you may write to and that has room, or `-` for stdout",
        )


class RecordingInvalid(FileError):
    """A recording of an agent's events cannot be replayed, or there is none."""

    exit_code = ExitCode.BAD_DATA

    def __init__(self, path: str, problem: str, hint: str = "") -> None:
        super().__init__(
            f"{path}: {problem}",
            hint or "a file that `moiety agent record` of the same version of moiety wrote",
        )


class RecordingMissing(FileError):
    """The file of a recording cannot be opened."""

    exit_code = ExitCode.NO_INPUT

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"there is no recording in {path}: {problem}",
            "`moiety agent record FILE`, which writes one",
        )


class TraceInvalid(FileError):
    """A line of a trace makes no sense."""

    exit_code = ExitCode.BAD_DATA

    def __init__(self, path: str, line: int, problem: str, hint: str = "") -> None:
        where = f"{path}, line {line}" if line else path
        super().__init__(
            f"{where}: {problem}",
            hint or "--bad report, which leaves such lines out and counts them",
        )


class TraceMissing(FileError):
    """The trace, or a file that belongs to it, does not exist."""

    exit_code = ExitCode.NO_INPUT

    def __init__(self, path: str, problem: str, what: str = "trace", hint: str = "") -> None:
        super().__init__(
            f"there is no {what} in {path}: {problem}",
            hint
            or "a folder with nodes.csv and jobs.csv (docs/traces-of-pools.md), a file of jobs "
            "that ran, .csv or .jsonl (docs/howto-simulate.md), or none for the one that comes "
            "with moiety",
        )


class ScenarioInvalid(FileError):
    """A file of scenarios, or one of its cases, makes no sense."""

    exit_code = ExitCode.BAD_DATA

    def __init__(self, path: str, where: str, problem: str) -> None:
        super().__init__(
            f"{path}{f', {where}' if where else ''}: {problem}",
            "a list of cases as docs/explanation-queues.md says",
        )


class ConfigError(MoietyError):
    """The settings cannot be read."""


class BadConfigFile(ConfigError):
    """A file of settings cannot be read as a whole."""

    exit_code = ExitCode.CONFIGURATION

    def __init__(self, path: str, problem: str, hint: str = "") -> None:
        super().__init__(f"{path}: {problem}", hint or f"moiety config check {path}")


class BadSetting(ConfigError):
    """A setting in a file or in the environment has an unknown name or an impossible value."""

    exit_code = ExitCode.CONFIGURATION

    def __init__(self, where: str, name: str, problem: str, hint: str = "") -> None:
        subject = "" if where == name else f"{name}: "
        super().__init__(f"{where}: {subject}{problem}", hint or "moiety config show")
