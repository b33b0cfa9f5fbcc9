"""Does one thing to each target of a command, and says at once what became of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from moiety.model.errors import AgentSilent, MoietyError, NoAgent, NoPool, PoolSilent

T = TypeVar("T")
OF_ALL: Final = (AgentSilent, NoAgent, NoPool, PoolSilent)
"""Errors that the other targets would meet, too."""


def each(
    targets: Sequence[str], do: Callable[[str], T], show: Callable[[str, T], None] | None
) -> tuple[list[T], int]:
    """What `do` returned for each target, and the exit code of the first that was refused, or 0.

    A refusal is printed, and the other targets have their turn. With one target it is raised, and
    so is an error that all targets would meet. `show` prints a result as soon as it is there.
    """
    done: list[T] = []
    code = 0
    for target in targets:
        try:
            found = do(target)
        except MoietyError as error:
            if len(targets) == 1 or isinstance(error, OF_ALL):
                raise
            _say(error)
            code = code or int(error.exit_code)
            continue
        done.append(found)
        if show is not None:
            show(target, found)
    return done, code


def _say(error: MoietyError) -> None:
    from moiety.cli.main import say  # which imports commands when they are used

    say(error)
