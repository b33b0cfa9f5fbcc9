"""How long work will run, estimated from similar work that ran before.

A user rarely submits only once: work of the same likeness (user, shape) that came shortly before or
after tends to run as long. So the chance to end in a span of run time is counted over such
neighbours, the nearer the more, over all work of the likeness, and over all work; each of these
only adds what the one before does not know. Work that still runs counts for as long as it has run
(Kaplan and Meier's estimate with weights, after Beran).

A history is explicit: an answer depends only on the work that was reported to it, in that order.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Spans = NDArray[np.int64]
Rows = NDArray[np.int64]

FIRST_S: Final = 60.0
RATIO: Final = 1.5
LONGEST_S: Final = 60 * 86400.0
NEIGHBOURS: Final = 40
"""The number of neighbours on either side."""
CLOSE_S: Final = 600.0
"""A neighbour that came this much earlier or later counts half as much."""
LIKE_WEIGHT: Final = 0.2
"""The weight of the likeness as a whole, in neighbours."""
ALL_WEIGHT: Final = 10.0
"""The weight of all work, in pieces of work of the likeness."""
UNKNOWN_CHANCE: Final = 0.12
"""The chance to end within a span, for work without a history: every span is half as long again as
the one before, so work is the less likely to end soon the longer it has run."""
EDGE_S: Final = 1e-3
"""An edge that is nearer than this has been reached: sums of seconds are not exact."""
CERTAIN: Final = 0.95
"""The largest chance that is used."""
ROWS_MIN: Final = 64


def _edges() -> Floats:
    edges = [0.0, FIRST_S]
    while edges[-1] < LONGEST_S:
        edges.append(edges[-1] * RATIO)
    return np.array(edges)


EDGES: Final = _edges()
"""The edges of the spans of run time in seconds: each span goes from one edge to the next."""
_EDGES: Final[list[float]] = EDGES.tolist()
SPANS: Final = len(EDGES) - 1
WIDTHS: Final = np.diff(EDGES)
LAGS_BEFORE: Final = np.arange(NEIGHBOURS, 0.0, -1.0)
LAGS_AFTER: Final = np.arange(1.0, NEIGHBOURS + 1.0)


def span_of(run_s: float) -> int:
    """The span of work that has run for `run_s`."""
    return min(bisect_right(_EDGES, run_s + EDGE_S) - 1, SPANS - 1)


def spans_of(run_s: Floats) -> Spans:
    """`span_of` for each of several."""
    found: Spans = np.minimum(np.searchsorted(EDGES, run_s + EDGE_S, side="right") - 1, SPANS - 1)
    return found


def next_edge(run_s: float) -> float:
    """Seconds of run time with which the next span begins; infinity: the last one has no end."""
    edge_s = _EDGES[span_of(run_s) + 1]
    return edge_s if edge_s > run_s + EDGE_S else math.inf


class _Like:
    """All work of one likeness, in the order of submission."""

    __slots__ = ("_came_s", "_rows", "count", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        """Its row in what is counted over likenesses."""
        self.count = 0
        self._rows: Rows = np.zeros(ROWS_MIN, np.int64)
        self._came_s: Floats = np.zeros(ROWS_MIN)

    def copy(self) -> _Like:
        """Another one of the same work."""
        twin = _Like(self.number)
        twin.count, twin._rows, twin._came_s = self.count, self._rows.copy(), self._came_s.copy()
        return twin

    def add(self, row: int, came_s: float) -> int:
        """Add work that came last; returns its place."""
        place = self.count
        if place == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._came_s = np.concatenate([self._came_s, np.zeros_like(self._came_s)])
        self._rows[place], self._came_s[place] = row, came_s
        self.count += 1
        return place

    def last(self, count: int) -> Rows:
        """The rows of the work that came last."""
        return self._rows[max(0, self.count - count) : self.count]

    def near(self, place: int) -> Rows:
        """The rows of the neighbours of a place: what came next before and after it."""
        after = self._rows[place + 1 : min(place + 1 + NEIGHBOURS, self.count)]
        return np.concatenate([self._rows[max(0, place - NEIGHBOURS) : place], after])

    def weights(self, place: int) -> Floats:
        """How much each neighbour counts."""
        first, last = max(0, place - NEIGHBOURS), min(place + 1 + NEIGHBOURS, self.count)
        before, after = self._came_s[first:place], self._came_s[place + 1 : last]
        gaps = np.abs(np.concatenate([before, after]) - self._came_s[place])
        lags = np.concatenate([LAGS_BEFORE[NEIGHBOURS - len(before) :], LAGS_AFTER[: len(after)]])
        weights: Floats = 1.0 / ((1.0 + lags) * (1.0 + gaps / CLOSE_S))
        return weights


class RuntimeEstimator:
    """Work as it came, ran and ended."""

    def __init__(self) -> None:
        self._like: dict[Hashable, _Like] = {}
        self._of: list[_Like] = []
        self._place: list[int] = []
        """The place of each row in its likeness."""
        self._like_of: Rows = np.zeros(ROWS_MIN, np.int64)
        """The number of the likeness of each row."""
        self._like_ended = np.zeros((ROWS_MIN, SPANS))
        self._like_reached = np.zeros((ROWS_MIN, SPANS))
        self._spans: list[int] = []
        """For each row, the number of spans that it has outlived."""
        self._end: list[int] = []
        """For each row, the span in which it ended, or -1."""
        self._near_ended = np.zeros((ROWS_MIN, SPANS))
        self._near_reached = np.zeros((ROWS_MIN, SPANS))
        self._ended = np.zeros(SPANS)
        self._reached = np.zeros(SPANS)

    def fork(self) -> RuntimeEstimator:
        """An estimator that knows the same; what either is told from now on the other ignores."""
        other = copy(self)
        likes = {id(like): like.copy() for like in self._like.values()}
        other._like = {key: likes[id(like)] for key, like in self._like.items()}
        other._of = [likes[id(like)] for like in self._of]
        other._place, other._like_of = self._place[:], self._like_of.copy()
        other._like_ended = self._like_ended.copy()
        other._like_reached = self._like_reached.copy()
        other._spans, other._end = self._spans[:], self._end[:]
        other._near_ended = self._near_ended.copy()
        other._near_reached = self._near_reached.copy()
        other._ended, other._reached = self._ended.copy(), self._reached.copy()
        return other

    def came(self, likeness: Hashable, submitted_s: float) -> int:
        """Add new work; returns its row, which names it from now on."""
        row = len(self._of)
        if row >= len(self._near_ended):
            more = np.zeros_like(self._near_ended)
            self._near_ended = np.concatenate([self._near_ended, more])
            self._near_reached = np.concatenate([self._near_reached, more])
            self._like_of = np.concatenate([self._like_of, np.zeros_like(self._like_of)])
        like = self._like.get(likeness)
        if like is None:
            like = self._like[likeness] = self._new_like()
        self._of.append(like)
        self._like_of[row] = like.number
        place = like.add(row, submitted_s)
        self._place.append(place)
        self._spans.append(0)
        self._end.append(-1)
        near = like.near(place)
        spans = np.array([self._spans[other] for other in near.tolist()], np.int64)
        known = spans > 0
        if known.any():
            weights, spans = like.weights(place)[known], spans[known]
            outlived = np.arange(SPANS) < spans[:, None]
            self._near_reached[row] = weights @ outlived
            for weight, other in zip(weights, near[known].tolist(), strict=True):
                if self._end[other] >= 0:
                    self._near_ended[row, self._end[other]] += weight
        return row

    def _new_like(self) -> _Like:
        number = len(self._like)
        if number == len(self._like_ended):
            more = np.zeros_like(self._like_ended)
            self._like_ended = np.concatenate([self._like_ended, more])
            self._like_reached = np.concatenate([self._like_reached, more])
        return _Like(number)

    def near(self, row: int) -> Rows:
        """The neighbours of a row: work of its likeness that came next before and after it."""
        return self._of[row].near(self._place[row])

    def _weights(self, row: int) -> Floats:
        return self._of[row].weights(self._place[row])

    def ran(self, row: int, run_s: float) -> bool:
        """Note how long work has run by now; returns whether estimates of other work change."""
        return self._outlived(row, span_of(run_s))

    def _outlived(self, row: int, spans: int) -> bool:
        before = self._spans[row]
        if spans <= before:
            return False
        self._spans[row] = spans
        new = slice(before, spans)
        self._reached[new] += 1
        self._like_reached[self._of[row].number, new] += 1
        near = self.near(row)
        if len(near):
            self._near_reached[near, new] += self._weights(row)[:, None]
        return True

    def ended(self, row: int, run_s: float) -> None:
        """Note that work ended after `run_s`."""
        end = span_of(run_s)
        self._outlived(row, end + 1)
        self._end[row] = end
        self._ended[end] += 1
        self._like_ended[self._of[row].number, end] += 1
        near = self.near(row)
        if len(near):
            self._near_ended[near, end] += self._weights(row)

    def chances(self, rows: Sequence[int] | Rows) -> Floats:
        """For each row and each span, the chance of work that reaches the span to end in it."""
        every = (self._ended + ALL_WEIGHT * UNKNOWN_CHANCE) / (self._reached + ALL_WEIGHT)
        likes = self._like_of[rows]
        like = (self._like_ended[likes] + ALL_WEIGHT * every) / (
            self._like_reached[likes] + ALL_WEIGHT
        )
        chances = (self._near_ended[rows] + LIKE_WEIGHT * like) / (
            self._near_reached[rows] + LIKE_WEIGHT
        )
        return np.minimum(chances, CERTAIN)

    def left_s(self, row: int, run_s: float, quantile: float = 0.5) -> float:
        """Seconds until work that has run for `run_s` has ended with the likelihood `quantile`."""
        return _left_s(self.chances([row])[0], run_s, quantile)

    def typical_s(self, likeness: Hashable, quantile: float = 0.5) -> float | None:
        """Seconds that new work of a likeness will run; None: no work of it has ended."""
        found = self.typical(likeness)
        return None if found is None else found.left_s(0.0, quantile)

    def typical(self, likeness: Hashable) -> HazardRates | None:
        """The chances of new work of a likeness; None: no work of it has ended."""
        like = self._like.get(likeness)
        if like is None or not self._like_ended[like.number].any():
            return None
        # As if it came now, right after the last: its neighbours before it count, and all work.
        near = like.last(NEIGHBOURS).tolist()
        weights = 1.0 / (1.0 + np.arange(len(near), 0, -1))
        ends = np.array([self._end[other] for other in near])
        spans = np.array([self._spans[other] for other in near])
        columns = np.arange(SPANS)
        reached = weights @ (columns < spans[:, None]) + LIKE_WEIGHT
        ended = weights @ (columns == ends[:, None])
        every = (self._ended + ALL_WEIGHT * UNKNOWN_CHANCE) / (self._reached + ALL_WEIGHT)
        whole = (self._like_ended[like.number] + ALL_WEIGHT * every) / (
            self._like_reached[like.number] + ALL_WEIGHT
        )
        return HazardRates(np.minimum((ended + LIKE_WEIGHT * whole) / reached, CERTAIN))


@dataclass(frozen=True, slots=True, eq=False)
class HazardRates:
    """The chance of work that reaches a span to end in it, for each span, from a history."""

    of: Floats

    def left_s(self, run_s: float, quantile: float = 0.5) -> float:
        """See RuntimeDistribution."""
        return _left_s(self.of, run_s, quantile)


def _left_s(chances: Floats, run_s: float, quantile: float) -> float:
    """Seconds until work that has run for `run_s` has ended with the likelihood `quantile`."""
    span = span_of(run_s)
    chances = chances[span:]
    widths = WIDTHS[span:].copy()
    if run_s < EDGES[-1]:  # else the last span begins again
        widths[0] = EDGES[span + 1] - run_s
    goes_on, at_s = 1.0, 0.0
    for chance, width in zip(chances, widths, strict=True):
        after = goes_on * (1.0 - float(chance))
        if after <= 1.0 - quantile:
            return at_s + float(width) * (goes_on - (1.0 - quantile)) / (goes_on - after)
        goes_on, at_s = after, at_s + float(width)
    return at_s
