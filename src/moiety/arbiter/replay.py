"""Recorded events, decided once more: the same instructions come out, or the first difference.

The arbiter is a pure function of its state and its events, so a recording that begins with a
checkpoint says all that is needed to decide again what an agent decided.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from msgspec.structs import replace

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.checkpoint import Checkpoint, restore

HIDDEN: Final = re.compile(r"<(?:removed|user|host|mail)>|~")
"""What replaces a private text in a recording."""


@dataclass(frozen=True, slots=True)
class Step:
    """One event, and the instructions that came out, in the order in which they were carried out.

    `now_s` is in seconds on the clock of the agent that recorded it.
    """

    now_s: float
    event: ev.Event
    instructions: tuple[do.Instruction, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first instruction that differs. `number` counts events from 1."""

    number: int
    step: Step
    expected: do.Instruction | None
    """The recorded instruction; None: the recording has no more."""
    got: do.Instruction | None
    """The new instruction; None: the arbiter decided no more."""
    error: str = ""
    """The arbiter's error on this event; empty if there was none."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay."""

    events: int
    instructions: int
    """The number of instructions that were the same."""
    difference: Difference | None = None


class Replay:
    """An arbiter that decides again."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Begin with this state; raises BadCheckpoint."""
        self.arbiter = restore(checkpoint)

    def decide(self, now_s: float, event: ev.Event) -> list[do.Instruction]:
        """The instructions that come out now, in the order in which an agent carries them out."""
        return list(self.arbiter.handle(now_s, event))


def replay(checkpoint: Checkpoint, steps: Iterable[Step]) -> Replayed:
    """Decide all steps again, up to the first difference; raises BadCheckpoint."""
    again = Replay(checkpoint)
    events = instructions = 0
    for number, step in enumerate(steps, start=1):
        events = number
        try:
            got = again.decide(step.now_s, step.event)
        except Exception as error:  # a bug of the arbiter, which the recording is to show
            what = f"{type(error).__name__}: {error}"
            return Replayed(events, instructions, Difference(number, step, None, None, what))
        for expected, found in _pairs(step.instructions, got):
            if not agree(expected, found):
                return Replayed(events, instructions, Difference(number, step, expected, found))
            instructions += 1
    return Replayed(events, instructions)


def _pairs(
    expected: Iterable[do.Instruction], got: Iterable[do.Instruction]
) -> Iterator[tuple[do.Instruction | None, do.Instruction | None]]:
    return zip_longest(expected, got)


def agree(expected: do.Instruction | None, got: do.Instruction | None) -> bool:
    """Whether two instructions are the same, but for what is private in a refusal's text."""
    if isinstance(expected, do.Refused) and isinstance(got, do.Refused):
        return replace(expected, text="") == replace(got, text="") and _reads(
            expected.text, got.text
        )
    return expected == got


def _reads(expected: str, got: str) -> bool:
    """Whether a text is another one, of which parts may be hidden."""
    if expected == got:
        return True
    parts = HIDDEN.split(expected)
    return len(parts) > 1 and bool(re.fullmatch(".+?".join(map(re.escape, parts)), got, re.DOTALL))
