"""Gangs that users name: programs that hold GPUs together or not at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from moiety.model.errors import InvalidGang

SIZE_MAX: Final = 1024
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"


@dataclass(frozen=True, slots=True)
class Gang:
    """A gang by its name; it begins once `size` processes are in it (0: with any number).

    Raises InvalidGang for an invalid name or size.
    """

    name: str
    size: int = 0

    def __post_init__(self) -> None:
        if not re.fullmatch(_NAME, self.name):
            raise InvalidGang(
                f"{self.name!r} is no name of a gang",
                "up to 63 letters, digits, dots, underscores and dashes, such as train-7",
            )
        if not 0 <= self.size <= SIZE_MAX:
            raise InvalidGang(
                f"{self.size} is no size of a gang",
                f"the number of processes that use GPUs together: 1 to {SIZE_MAX}",
            )

    def check_beside(self, size: int, members: int) -> None:
        """Raise InvalidGang unless one more may join; the gang's known size is `size` (0: none).

        `members` processes are in it already.
        """
        if self.size and size and self.size != size:
            raise InvalidGang(
                f"gang {self.name} has {size} members, not {self.size}",
                f"--gang-size {size}, or another --gang",
            )
        most = self.size or size
        if most and members >= most:
            raise InvalidGang(
                f"gang {self.name} has {members} members already, and {most} are all",
                "another --gang, or this one once a member has ended (moiety ps -o wide)",
            )


def of_options(name: str | None, size: int | None) -> Gang | None:
    """The gang that two options name; None if neither is given. Raises InvalidGang."""
    if name is None:
        if size is not None:
            raise InvalidGang("--gang-size says how many, and not of which gang", "--gang NAME")
        return None
    if size is not None and size < 1:
        raise InvalidGang(
            f"{size} is no size of a gang",
            f"the number of processes that use GPUs together: 1 to {SIZE_MAX}",
        )
    return Gang(name, size or 0)
