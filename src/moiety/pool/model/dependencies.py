"""What a workload waits for, as `--depends afterok:12:13,singleton` has it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from moiety.model.errors import BadArgument

DEPENDS_MAX: Final = 1000
"""The most that one workload depends on."""
_TARGET: Final = re.compile(r"([0-9]{1,17})(?:_([0-9]{1,7}|\*))?(?:\+([0-9]{1,7}))?")
_HINT: Final = "--depends afterok:12:13, afterany:14_3 or singleton, say"


class DependencyKind(StrEnum):
    """What has to have happened; the words are Slurm's."""

    AFTER = "after"
    """They have begun, or were cancelled; with +5: five minutes ago."""
    AFTERANY = "afterany"
    """They are over."""
    AFTEROK = "afterok"
    """They are done."""
    AFTERNOTOK = "afternotok"
    """They are over, and not all are done."""
    AFTERCORR = "aftercorr"
    """The task with the same index of another array is done."""
    SINGLETON = "singleton"
    """No earlier work of the same user and name is left."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """One workload, array or task, and what has to have happened to it."""

    kind: DependencyKind
    number: int = 0
    """0: of a singleton."""
    index: int | None = None
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Dependencies:
    """All that a workload depends on."""

    parts: tuple[Dependency, ...]
    is_any: bool = False
    """One of them is enough."""


def parse_depends(text: str) -> Dependencies:
    """What `afterok:12:13,afterany:14` means; raises BadArgument."""
    if "," in text and "?" in text:
        raise BadArgument("`,` (all of them) and `?` (any of them) cannot be mixed", _HINT)
    mark = "?" if "?" in text else ","
    if (most := max(text.count(":"), text.count(mark) + 1)) > DEPENDS_MAX:
        raise BadArgument(f"{most} dependencies are more than {DEPENDS_MAX}", "an array")
    parts: list[Dependency] = []
    for part in text.split(mark):
        word, *targets = part.split(":")
        try:
            kind = DependencyKind(word)
        except ValueError:
            known = ", ".join(DependencyKind)
            raise BadArgument(f"{word[:40]!r} is no dependency", f"one of {known}") from None
        if (kind is DependencyKind.SINGLETON) == bool(targets):
            wrong = "names a workload" if targets else "names no workload"
            raise BadArgument(f"the dependency {part[:60]!r} {wrong}", _HINT)
        parts += [_of(kind, target) for target in targets] or [Dependency(kind)]
    if len(parts) > DEPENDS_MAX:
        raise BadArgument(f"{len(parts)} dependencies are more than {DEPENDS_MAX}", "an array")
    return Dependencies(tuple(parts), mark == "?")


def _of(kind: DependencyKind, target: str) -> Dependency:
    match = _TARGET.fullmatch(target)
    if match is None:
        raise BadArgument(f"{target[:40]!r} is no number of a workload", _HINT)
    number, index, minutes = match.groups()
    if minutes and kind is not DependencyKind.AFTER:
        raise BadArgument(f"{kind} has no minutes", "after:12+5, say")
    one = int(index) if index and index != "*" else None
    return Dependency(kind, int(number), one, 60.0 * int(minutes or 0))
