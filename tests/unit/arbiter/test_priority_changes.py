"""A program whose priority is switched on and off gets no more than its classes are due."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.model.share import NOTHING_ASKED, Priority, Share
from tests.support.owners import FITS_NOT, Owners

HIGH = Share(priority=Priority.HIGH)
WHOLE_S = 200.0


@pytest.mark.parametrize(("high_s", "normal_s"), [(0.05, 0.5), (0.05, 2), (2, 2), (1, 3), (3, 6)])
@pytest.mark.parametrize("others", ["b", "bb", "ab"])
def test_switching_to_high_and_back_wins_no_time(
    others: str, high_s: float, normal_s: float
) -> None:
    card = Owners(FITS_NOT, [(owner, f"{n}") for n, owner in enumerate("a" + others)])
    own = [number for number, owner in card.owner.items() if owner == "a"]

    def got_s() -> float:
        return sum(card._got_s()[number] for number in own)

    card.run(20)
    before_s, began_s = got_s(), card.now_s
    while card.now_s - began_s < WHOLE_S:
        card.tell(ev.ShareSet(1, HIGH))
        card.run(high_s)
        card.tell(ev.ShareSet(1, NOTHING_ASKED))
        card.run(normal_s)
    due = (high_s + normal_s / 2) / (high_s + normal_s)
    assert (got_s() - before_s) / (card.now_s - began_s) <= due + 0.02


def test_a_turn_that_a_priority_won_ends_with_it() -> None:
    card = Owners(FITS_NOT, [("a", "1"), ("b", "2")])
    card.run(20)
    card.tell(ev.ShareSet(1, HIGH))
    card.run(5)
    card.tell(ev.ShareSet(1, NOTHING_ASKED))
    before_s = card._got_s()[2]
    card.run(0.5)
    assert card._got_s()[2] - before_s >= 0.3, "the other has waited, and its turn begins at once"
