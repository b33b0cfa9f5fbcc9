"""A card whose time several owners share, who start and end programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from moiety.model.share import NOTHING_ASKED, Share
from tests.support.divided_card import DividedCard

FITS, FITS_NOT = 1 << 30, 60 << 30
T = TypeVar("T")
Who = tuple[str, str]
"""An owner and a workload."""


class Owners(DividedCard):
    """A card that owners share, who may start and end programs."""

    def __init__(self, bytes_each: int, programs: Iterable[Who] = ()) -> None:
        self.owner: dict[int, str] = {}
        self.workload: dict[int, Who] = {}
        super().__init__([], bytes_each=bytes_each, link_bytes_per_s=1e12)
        for owner, workload in programs:
            self.start(owner, workload)

    def start(self, owner: str, workload: str, share: Share = NOTHING_ASKED) -> int:
        """One more program; returns its number."""
        number = len(self.owner) + 1
        self.owner[number] = owner
        self.workload[number] = owner, workload
        self.add(number, share, owner=owner, workload=workload)
        return number

    def by_owner(self, seconds: float) -> dict[str, float]:
        """The part of the card that each owner gets while so much time passes.

        Where all fit, that is what its work really got; else hand-offs count for who causes them.
        """
        return self.by(self.owner, seconds)

    def by_workload(self, seconds: float) -> dict[Who, float]:
        """The same for each workload."""
        return self.by(self.workload, seconds)

    def by(self, who: dict[int, T], seconds: float) -> dict[T, float]:
        """The same for all programs of which `who` says the same."""
        before = self._got_s()
        self.run(seconds)
        found = dict.fromkeys(who.values(), 0.0)
        for number, got_s in self._got_s().items():
            found[who[number]] += (got_s - before.get(number, 0.0)) / seconds
        return found

    def _got_s(self) -> dict[int, float]:
        self.run(0.0)
        if self._bytes_each <= FITS:
            return dict(self.used_s)
        return {view.tenant: view.received_s for view in self.arbiter.tenants()}
