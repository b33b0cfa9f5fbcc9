"""Errors of the program that is to run under a share."""

from __future__ import annotations

from moiety.model.errors.base import ExitCode, MoietyError


class ProgramError(MoietyError):
    """The program cannot be run, or not under a share."""

    def __init__(self, program: str, problem: str, hint: str) -> None:
        super().__init__(f"{program}: {problem}", hint)


class WrongArchitecture(ProgramError):
    """The program is built for another processor than moiety's library."""

    exit_code = ExitCode.NOT_EXECUTABLE

    def __init__(self, program: str, built_for: str, own: str = "x86_64") -> None:
        super().__init__(
            program,
            f"it is built for {built_for}, moiety for {own}",
            f"a build of the program for {own}",
        )


class SecureProgram(ProgramError):
    """The program gains rights when it starts, so the loader preloads nothing into it."""

    exit_code = ExitCode.NOT_EXECUTABLE

    def __init__(self, program: str, how: str) -> None:
        super().__init__(
            program,
            f"it {how}, and the loader preloads nothing into such programs",
            "a copy of the program without these rights",
        )


class StaticProgram(ProgramError):
    """The program is statically linked, so it loads neither moiety's library nor the driver."""

    exit_code = ExitCode.NOT_EXECUTABLE

    def __init__(self, program: str) -> None:
        super().__init__(
            program,
            "it is statically linked, so nothing can be preloaded",
            "a dynamically linked build; --no-check if the program only starts others",
        )


class MuslProgram(ProgramError):
    """The program is linked against musl; moiety's library and the driver need glibc."""

    exit_code = ExitCode.NOT_EXECUTABLE

    def __init__(self, program: str) -> None:
        super().__init__(
            program,
            "it is linked against musl, but the NVIDIA driver needs glibc",
            "a build of the program for glibc",
        )


class ImageUnfit(ProgramError):
    """Moiety's library cannot be loaded into the programs of this container image."""

    exit_code = ExitCode.NOT_EXECUTABLE

    def __init__(self, image: str, problem: str, hint: str) -> None:
        super().__init__(image, problem, hint)


class ToolRefused(ProgramError):
    """The profiler, debugger or sanitizer cannot work on a GPU that is shared."""

    exit_code = ExitCode.NOT_EXECUTABLE

    def __init__(self, tool: str, why: str, instead: str) -> None:
        super().__init__(f"{tool} cannot work on a shared GPU", why, f"{instead}; or --no-check")


class ProgramNotExecutable(ProgramError):
    """The program is there but cannot be executed."""

    exit_code = ExitCode.NOT_EXECUTABLE

    def __init__(self, program: str, problem: str = "not executable", hint: str = "") -> None:
        usual = f"chmod +x, or the interpreter before it: python {program}"
        super().__init__(program, problem, hint or usual)


class ProgramNotFound(ProgramError):
    """There is no such program."""

    exit_code = ExitCode.NOT_FOUND

    def __init__(self, program: str) -> None:
        super().__init__(program, "not found", "the program's full path, or another PATH")
