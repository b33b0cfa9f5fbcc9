"""Errors of moiety itself, of its installation and of the system below it."""

from __future__ import annotations

from moiety.model.errors.base import ExitCode, MoietyError


class InternalError(MoietyError):
    """Moiety made a mistake."""

    exit_code = ExitCode.INTERNAL

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"this should not happen: {problem}",
            "run it again with MOIETY_DEBUG=1, and report what it prints",
        )


class SystemRefusal(MoietyError):
    """The system refused what nearly always works, such as to write what a command prints."""

    exit_code = ExitCode.IO_ERROR

    def __init__(self, error: OSError) -> None:
        on = f"{error.filename}: " if error.filename else ""
        super().__init__(
            f"the system refuses: {on}{error.strerror or error}",
            "`moiety doctor`; the same command with MOIETY_DEBUG=1 shows where it failed",
        )


class ProtocolError(MoietyError):
    """A client or an agent sent a message that makes no sense."""

    exit_code = ExitCode.PROTOCOL

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"a message makes no sense: {problem}",
            "install the same version of moiety on both sides (`moiety version` prints it)",
        )


class InstallationError(MoietyError):
    """A part of moiety is not installed."""


class NativeLibraryMissing(InstallationError):
    """Moiety's own native library, or its simulated driver, is not where it was installed."""

    exit_code = ExitCode.CONFIGURATION

    def __init__(self, library: str) -> None:
        super().__init__(
            f"{library} is not where moiety was installed",
            "install moiety again (the wheel is for x86-64 Linux with glibc), "
            "or set MOIETY_NATIVE=<build directory>",
        )


class ScreenMissing(InstallationError):
    """The library that draws the screen of `moiety top` is not installed."""

    exit_code = ExitCode.CONFIGURATION

    def __init__(self) -> None:
        super().__init__(
            "textual, which draws this screen, is not installed",
            "`pip install 'moiety[top]'`; `moiety top --once` needs no screen",
        )


class ArraysMissing(InstallationError):
    """The library of arrays with which the simulator calculates is not installed."""

    exit_code = ExitCode.CONFIGURATION

    def __init__(self) -> None:
        super().__init__(
            "numpy, with which the simulator calculates, is not installed",
            "`pip install 'moiety[sim]'`",
        )


class YamlMissing(InstallationError):
    """The library that writes YAML is not installed."""

    exit_code = ExitCode.CONFIGURATION

    def __init__(self) -> None:
        super().__init__(
            "PyYAML, which writes YAML, is not installed",
            "`pip install 'moiety[yaml]'`; `-o json` needs nothing more",
        )


class PlotMissing(InstallationError):
    """The library that draws plots is not installed."""

    exit_code = ExitCode.CONFIGURATION

    def __init__(self) -> None:
        super().__init__(
            "matplotlib, which draws plots, is not installed",
            "`pip install 'moiety[plot]'`; without --plot the command prints numbers",
        )
