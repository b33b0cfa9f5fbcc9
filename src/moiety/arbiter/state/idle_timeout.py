"""How long to wait for a holder that fell silent, from how long its last silences were.

Waiting for a silence to end loses the time; ending the turn costs the move of memory out and back.
A wait as long as that move, and no longer, never costs more than twice the best choice in hindsight
(the ski-rental bound; Karlin et al., 1988). But many programs are predictable: a phase without the
GPU is long every time, and a data loader's pause is short every time.
So the wait is the one that would have cost least over the last silences. It is never longer than
the bound's, hence never worse in a single silence than the hand-off itself; newer silences count
for more, so that a program that changes is believed after four silences of its new kind.

There is a shortest wait, in which a silence is not told from a moment between two kernels. After a
row of silences that were all longer it is a part of that (SOON), once the row would have saved more
time than the move takes that one wrong guess costs. Each wrong guess doubles what has to be saved.
"""

from __future__ import annotations

from collections import deque

KNOWN = 16
"""How many silences are remembered."""
_ENOUGH = 3
"""Fewer teach nothing."""
_FADES = 0.8
"""Weight of a silence over that of the next one."""
SOON = 0.25
"""The part of the shortest wait after which a holder with long silences only gives way."""
_MOST_DOUBT = 1 << 10
_MARGIN = 1.5
"""The next silence of a kind may be so much longer than one that was seen."""


class IdlePeriods:
    """The last silences of one tenant that lasted longer than a moment."""

    def __init__(self) -> None:
        """No silence is known."""
        self._lengths_s: deque[float] = deque(maxlen=KNOWN)
        self._row = 0
        """Silences in a row that lasted longer than the shortest wait."""
        self._doubt = 1
        self._asked: tuple[float, float] = (0.0, 0.0)
        self._answer_s: float | None = None

    def add(self, length_s: float) -> None:
        """Note that a silence has ended after `length_s` in all."""
        self._lengths_s.append(length_s)
        self._row += 1
        self._answer_s = None

    def end_row(self) -> None:
        """Note that a silence ended within the shortest wait, but not at once."""
        self._row = 0
        self._doubt = min(_MOST_DOUBT, 2 * self._doubt)

    def is_sure(self, least_s: float, move_s: float) -> bool:
        """Whether a part of the shortest wait is enough to know that a silence is long."""
        saved_s = self._row * (1 - SOON) * least_s
        return self._row >= _ENOUGH and saved_s >= self._doubt * move_s

    def patience_s(self, least_s: float, move_s: float) -> float:
        """How long to wait for the end of a silence before memory moves.

        Between `least_s` and `move_s`, which is what moving out and back costs; less after a row of
        long silences.
        """
        found_s = self._known_s(least_s, move_s)
        if found_s == least_s and self.is_sure(least_s, move_s):
            return SOON * least_s
        return found_s

    def _known_s(self, least_s: float, move_s: float) -> float:
        if move_s <= least_s:
            return least_s
        if len(self._lengths_s) < _ENOUGH:
            return move_s
        if self._answer_s is None or self._asked != (least_s, move_s):
            self._asked = (least_s, move_s)
            self._answer_s = self._cheapest_s(least_s, move_s)
        return self._answer_s

    def _cheapest_s(self, least_s: float, move_s: float) -> float:
        """The longest wait among the cheapest for the last silences; newer ones count for more."""
        seen = {_MARGIN * length_s for length_s in self._lengths_s}
        choices = sorted({least_s, move_s} | {s for s in seen if least_s < s < move_s})
        return min(reversed(choices), key=lambda patience_s: self._cost_s(patience_s, move_s))

    def _cost_s(self, patience_s: float, move_s: float) -> float:
        total_s = 0.0
        for length_s in self._lengths_s:
            total_s = total_s * _FADES + cost_s(length_s, patience_s, move_s)
        return total_s


def cost_s(length_s: float, patience_s: float, move_s: float) -> float:
    """What a silence of this length costs queued tenants, with this patience."""
    return length_s if length_s < patience_s else patience_s + move_s
