"""What every error has: what happened, what to try, and an exit code."""

from __future__ import annotations

from enum import IntEnum

from moiety.model.format import plain


class ExitCode(IntEnum):
    """How a command ends that failed; the numbers are those of sysexits.h and of env(1)."""

    USAGE = 64
    """The command line makes no sense: another one is needed."""
    BAD_DATA = 65
    """A file that was read makes no sense: its content has to change."""
    NO_INPUT = 66
    """What was named does not exist: a trace, a program that shares, a share."""
    UNAVAILABLE = 69
    """Something that is needed is not there: a GPU, its driver, the agent, the cluster."""
    INTERNAL = 70
    """A mistake in moiety, or an error that this version does not know."""
    CANNOT_CREATE = 73
    """A file, a directory or a socket cannot be made."""
    IO_ERROR = 74
    """The system refused to read or write."""
    TEMPORARY = 75
    """Others have it now: the same command can succeed later."""
    PROTOCOL = 76
    """Command and agent do not understand each other, as two versions may not."""
    NO_PERMISSION = 77
    """This user may not do that, or may have no more."""
    CONFIGURATION = 78
    """A setting, or the installation, has to be put right first."""
    NOT_EXECUTABLE = 126
    """The program is there, but cannot be run under a share."""
    NOT_FOUND = 127
    """There is no such program."""


class MoietyError(Exception):
    """Something failed in a way that moiety knows: `what` happened, and as a `hint` what to try."""

    exit_code: int = ExitCode.INTERNAL

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return self.what

    def __reduce__(self) -> tuple[object, ...]:
        return from_parts, (type(self).__name__, self.what, self.hint, int(self.exit_code))

    def render(self) -> str:
        """For a terminal: one line what happened, one line what to try."""
        hint = f"\n  try: {plain(self.hint)}" if self.hint else ""
        what = "\n".join(map(plain, self.what.split("\n")))
        return f"moiety: {what}{hint}"


def from_parts(kind: str, what: str, hint: str, exit_code: int) -> MoietyError:
    """The error that another process had, maybe of another version of moiety.

    A class that this version has brings its own exit code. Without the class the error is a
    MoietyError that keeps the number it came with, if a process can end with that.
    """
    found = _classes(MoietyError).get(kind)
    if found is not None:
        error = found.__new__(found)
        MoietyError.__init__(error, what, hint)
        return error
    error = MoietyError(what, hint)
    if 0 < exit_code < 256:
        error.exit_code = exit_code
    return error


def _classes(base: type[MoietyError]) -> dict[str, type[MoietyError]]:
    found = {base.__name__: base}
    for below in base.__subclasses__():
        found |= _classes(below)
    return found
