"""How long a tenant works on the GPU between two silences, in time that it held a lease.

A turn that ends just before its holder would have fallen silent anyway costs twice: the memory is
moved once more than it had to be, and the holder's next silence, in which the other tenant could
have run, comes only when the holder is back. Programs that work in phases do so each time, so a
turn may last a little longer, where the last busy periods show that it ends soon.
"""

from __future__ import annotations

from collections import deque

KNOWN = 8
"""The number of busy periods that are remembered."""
_ENOUGH = 2
"""Fewer busy periods predict nothing."""
_MARGIN = 1.1
"""The next busy period may be longer than a known one by this factor."""


class BusyPeriods:
    """The last busy periods of one tenant."""

    def __init__(self) -> None:
        """No busy period is known, not even the beginning of the present one."""
        self._lengths_s: deque[float] = deque(maxlen=KNOWN)
        self._is_known = False
        self._earlier_s = 0.0
        """Length of the present busy period under earlier leases."""
        self._since_s: float | None = None
        """When its part under this lease began; None: the tenant has no lease, or is silent."""
        self.rested_s = 0.0
        """How long the tenant wanted no lease before the present busy period."""

    def begin(self, now_s: float, *, holding: bool, rested_s: float = 0.0) -> None:
        """Note that the tenant submits something after a silence, or is about to.

        `rested_s` is how long it had no lease before that, and wanted none.
        """
        self._is_known = True
        self.rested_s = rested_s
        self._earlier_s = 0.0
        self._since_s = now_s if holding else None

    def go_on(self, now_s: float) -> None:
        """Note that the tenant got a lease."""
        if self._since_s is None:
            self._since_s = now_s

    def pause(self, now_s: float) -> None:
        """Note that the tenant lost its lease, or submits nothing."""
        if self._since_s is not None:
            self._earlier_s += max(0.0, now_s - self._since_s)
            self._since_s = None

    def end(self, now_s: float) -> None:
        """Note that the tenant submits nothing from `now_s` on, long enough to count as silent."""
        self.pause(now_s)
        if self._is_known and self._earlier_s > 0:
            self._lengths_s.append(self._earlier_s)
        self._is_known = False

    def rest_s(self, now_s: float, most_s: float) -> float:
        """How long to wait after `now_s` for the end of the busy period; 0: it is not near.

        It is if one as long as one of the last would end within `most_s`.
        """
        if not self._is_known or self._since_s is None or len(self._lengths_s) < _ENOUGH:
            return 0.0
        so_far_s = self._earlier_s + now_s - self._since_s
        near_s = (length_s for length_s in self._lengths_s if length_s - so_far_s <= most_s)
        return max(0.0, _MARGIN * max(near_s, default=0.0) - so_far_s)

    @property
    def expected_s(self) -> float:
        """The longest of the last, for one that has not run yet; 0 if too few are known.

        A busy period that ran under an earlier lease is longer than expected.
        """
        if not self._is_known or self._earlier_s > 0 or self._since_s is not None:
            return 0.0
        return max(self._lengths_s) if len(self._lengths_s) >= _ENOUGH else 0.0

    @property
    def shortest_s(self) -> float:
        """The shortest of the last; 0 if too few are known."""
        return min(self._lengths_s) if len(self._lengths_s) >= _ENOUGH else 0.0
