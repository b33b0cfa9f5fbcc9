"""Errors about what was typed: values that cannot be read, or that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence

from moiety.model.errors.base import ExitCode, MoietyError
from moiety.model.format import format_bytes, format_fraction


class InvalidValue(MoietyError, ValueError):
    """A value makes no sense; without a hint of its own it names the command's help."""

    exit_code = ExitCode.USAGE

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)


class BadArgument(InvalidValue):
    """The options or arguments of a command make no sense together."""

    @classmethod
    def of(cls, error: ValueError, hint: str) -> BadArgument:
        """The same as another error says, with its own hint if it has one."""
        return cls(str(error), getattr(error, "hint", "") or hint)


class InvalidSize(InvalidValue):
    """The text is not an amount of memory."""

    def __init__(self, text: str, problem: str = "is not a size") -> None:
        super().__init__(
            f"{text!r} {problem}", "a number with a unit: 20GiB, 512MiB, 1.5g, 2GB (= 2000 MB)"
        )


class InvalidDuration(InvalidValue):
    """The text is not a length of time, or the time is out of range."""

    def __init__(self, text: str, problem: str = "is not a duration") -> None:
        super().__init__(
            f"{text!r} {problem}", "a number with a unit: 50ms, 1.5s, 2min, 1h30min; plain: seconds"
        )


class InvalidFraction(InvalidValue):
    """The text is not a part of a GPU."""

    def __init__(self, text: str, problem: str = "is not a part of a GPU") -> None:
        super().__init__(f"{text!r} {problem}", "a number above 0, at most 1, such as 0.5 or 50%")


class InvalidGang(InvalidValue):
    """The gang cannot exist, or the program cannot be a member of it."""

    def __init__(self, problem: str, hint: str = "--gang NAME --gang-size N") -> None:
        super().__init__(problem, hint)


class InvalidPriority(InvalidValue):
    """There is no priority of that name."""

    def __init__(self, text: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no priority {text!r}", f"one of {', '.join(known)}")


class RequestAboveLimit(InvalidValue):
    """The part of a GPU that a program is to be guaranteed is above the part it may have."""

    def __init__(self, request: float, limit: float) -> None:
        super().__init__(
            f"{format_fraction(request)} of a GPU cannot be guaranteed to a program that may have "
            f"at most {format_fraction(limit)}",
            f"--gpu {limit:g} or less, or --gpu-limit {request:g} or more",
        )


class MemoryAboveLimit(InvalidValue):
    """The memory that a program is to keep on the GPU is above what it may allocate."""

    def __init__(self, request: int, limit: int) -> None:
        super().__init__(
            f"{format_bytes(request)} cannot be kept for a program that may allocate "
            f"at most {format_bytes(limit)}",
            f"--memory {typed_size(limit)} or less, or a larger --memory-limit",
        )


class InvalidMode(InvalidValue):
    """There is no mode of that name."""

    def __init__(self, text: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no mode {text!r}", f"one of {', '.join(known)}")


class KeptManaged(InvalidValue):
    """Memory cannot be kept on the GPU in managed mode, because the driver moves it."""

    def __init__(self, request: int) -> None:
        super().__init__(
            f"{format_bytes(request)} cannot be kept on the GPU in managed mode, where the "
            "driver moves pages",
            "--mode swap, or no --memory (for a program that runs: --memory none)",
        )


class LimitAboveGpu(InvalidValue):
    """The memory limit is more than a whole GPU, in a mode in which all has to fit on one."""

    def __init__(self, part: float) -> None:
        super().__init__(
            f"a memory limit of {format_fraction(part)} is more than a GPU has, and only in "
            "managed mode may a program have more",
            "add --mode managed, or --memory-limit 100% or less",
        )


class LimitTooSmall(InvalidValue):
    """The memory limit is smaller than the smallest piece of GPU memory."""

    def __init__(self, limit: int, least: int) -> None:
        super().__init__(
            f"with a memory limit of {format_bytes(limit)} nothing could be allocated: GPU memory "
            f"is given out in pieces of {format_bytes(least)}",
            f"--memory-limit {typed_size(least)} or more",
        )


def typed_size(size: int) -> str:
    """A size as it can be typed, rounded down."""
    return f"{size >> 20}MiB" if size >= 1 << 20 else str(size)
