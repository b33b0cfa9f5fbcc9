"""Errors about amounts: more was asked for than there is, or than is left."""

from __future__ import annotations

from moiety.model.errors.base import ExitCode, MoietyError
from moiety.model.errors.values import typed_size
from moiety.model.format import format_bytes


class AmountError(MoietyError):
    """More was asked for than there is."""


class LimitAboveCapacity(AmountError):
    """The memory limit is more than any GPU of this machine can give."""

    exit_code = ExitCode.USAGE

    def __init__(self, limit: int, possible: int) -> None:
        super().__init__(
            f"a memory limit of {format_bytes(limit)} is more than any GPU here can give, which is "
            f"{format_bytes(possible)}",
            f"--memory-limit {typed_size(possible)} or less, no --memory-limit for a whole GPU, or "
            "add --mode managed to have more than a GPU",
        )


class MemoryAboveGpu(AmountError):
    """More memory is to be kept than any GPU of this machine can keep for one program."""

    exit_code = ExitCode.USAGE

    def __init__(self, memory: int, possible: int) -> None:
        super().__init__(
            f"{format_bytes(memory)} to keep are more than any GPU here can give, which is "
            f"{format_bytes(possible)}",
            f"--memory {typed_size(possible)} or less",
        )


class CapacityAboveGpu(AmountError):
    """The capacity that the agent is to share out is more than the GPU has to give."""

    exit_code = ExitCode.USAGE

    def __init__(self, capacity: int, gpu: int, total: int, possible: int) -> None:
        super().__init__(
            f"{format_bytes(capacity)} of GPU {gpu} cannot be shared out: it has "
            f"{format_bytes(total)}, of which {format_bytes(possible)} can be shared out",
            f"--capacity {typed_size(possible)} or less, or no --capacity for all of that",
        )


class CapacityMismatch(AmountError):
    """The agent that runs shares out another amount than this command asks for."""

    exit_code = ExitCode.USAGE

    def __init__(self, running: int | None, wanted: int | None) -> None:
        super().__init__(
            f"the agent shares out {_capacity(running)} of each GPU, not {_capacity(wanted)}",
            "the same command without --capacity, or after `moiety stop`",
        )


class ShareTaken(AmountError):
    """The share cannot be guaranteed beside what other programs were promised.

    The message says what stands in the way: `80 % of it are promised to others`.
    """

    exit_code = ExitCode.TEMPORARY

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem, hint)


class UserLimit(AmountError):
    """The system's settings let this user have no more.

    The message says what this user may have, and in which line of which file that stands.
    """

    exit_code = ExitCode.NO_PERMISSION

    def __init__(self, problem: str, where: str) -> None:
        super().__init__(
            f"{problem} ({where})",
            "ask for less, or end another program of yours; administrators change that file "
            "(`moiety agent reload`)",
        )


class ArenaAboveHost(AmountError):
    """The host has less free memory than the agent is to have for evicted data."""

    exit_code = ExitCode.USAGE

    def __init__(self, arena: int, possible: int) -> None:
        super().__init__(
            f"the host has no {format_bytes(arena)} of memory for evicted data: within this "
            f"cgroup's limit {format_bytes(possible)} are free now",
            f"--arena {typed_size(possible)} or less, or no --arena: the agent then chooses",
        )


def _capacity(size: int | None) -> str:
    return "all" if size is None else format_bytes(size)
