"""Finds GPUs on which one workload after the other fails at once, so that they get no more.

A program that fails wherever it runs says nothing about a GPU, and neither does one that is
submitted again and again, be it with other arguments each time: a sweep with a mistake in its
script must not drain a machine. So only different programs count, and none that failed elsewhere,
too. Work that could not be started has not used its GPU.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from moiety.pool.control.outcomes import AttemptOutcome
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState

FAILURES_MAX: Final = 3
"""The number of workloads in a row that fail on a GPU until it is drained."""
EARLY_S: Final = 10.0
"""A program that fails later has used its GPU."""
PROGRAMS_MAX: Final = 1000
"""The number of programs whose failures are kept."""
Program = tuple[int, str]
"""A user and a program: what is run, and with an interpreter the first word after it."""


@dataclass(slots=True)
class CardHealth:
    """What failed on which GPU lately, since something went well on it."""

    _failed: dict[int, dict[Program, int]] = field(default_factory=dict)
    """By GPU: the programs that failed, and the number of a workload of each."""
    _where: OrderedDict[Program, set[int]] = field(default_factory=OrderedDict)
    """By program: the GPUs on which it failed."""

    def ended(self, row: WorkRow, outcome: AttemptOutcome, now_s: float) -> dict[int, str]:
        """Take note of an attempt, by the row as it was; returns GPUs to drain, with the reason."""
        program = row.uid, " ".join(row.command.split()[:2])
        if not _says_something(outcome):
            return {}
        early = row.began_s is not None and now_s - row.began_s < EARLY_S
        if outcome.state is WorkState.DONE or not early:
            for card in row.cards:
                self._failed.pop(card, None)
            return {}
        where = self._where.setdefault(program, set())
        self._where.move_to_end(program)
        where.update(row.cards)
        if len(self._where) > PROGRAMS_MAX:
            self._where.popitem(last=False)
        if len(where) > len(row.cards):  # it is the program
            for card in where:
                self._failed.get(card, {}).pop(program, None)
            return {}
        return {card: why for card in row.cards if (why := self._count(card, program, row.id))}

    def _count(self, card: int, program: Program, number: int) -> str:
        failed = self._failed.setdefault(card, {})
        failed[program] = number
        if len(failed) < FAILURES_MAX:
            return ""
        numbers = ", ".join(map(str, sorted(failed.values())))
        del self._failed[card]
        return f"workloads {numbers} failed on it within {EARLY_S:.0f} s each"


def _says_something(outcome: AttemptOutcome) -> bool:
    """Whether it says something: a program that was told to end does not."""
    word = outcome.word
    return word.startswith(("exited", "signaled")) and outcome.state not in (
        WorkState.CANCELLED,
        WorkState.TIMED_OUT,
    )
