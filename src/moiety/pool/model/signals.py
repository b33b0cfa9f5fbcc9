"""Signals before the time limit, as `--signal USR1@60` has them."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Final

from moiety.model.errors import BadArgument

WARN_S: Final = 60.0
"""How long before, if it is not said."""
WARN_MAX_S: Final = 1e9
_WARNING: Final = re.compile(r"(B:)?([A-Za-z0-9+-]{1,16})(?:@([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class LimitWarning:
    """A signal that is sent before the time limit."""

    number: int
    before_s: float = WARN_S
    is_for_first: bool = False
    """Only the main process gets it."""


def parse_warning(text: str) -> LimitWarning:
    """What `B:USR1@60` means; raises BadArgument."""
    match = _WARNING.fullmatch(text)
    if match is None:
        raise BadArgument(f"{text[:40]!r} is no signal before the time limit", _hint())
    first, name, before = match.groups()
    return LimitWarning(signal_number(name), float(before) if before else WARN_S, bool(first))


def signal_number(name: str) -> int:
    """The number of `USR1`, `SIGUSR1` or `10`; raises BadArgument."""
    if name.isdecimal():
        number = int(name)
        if 0 < number <= signal.SIGRTMAX:
            return number
        raise BadArgument(f"{name} is no signal", _hint())
    try:
        return int(signal.Signals["SIG" + name.upper().removeprefix("SIG")])
    except KeyError:
        raise BadArgument(f"{name!r} is no signal", _hint()) from None


def _hint() -> str:
    return "--signal USR1@60 or B:TERM@120, say"
