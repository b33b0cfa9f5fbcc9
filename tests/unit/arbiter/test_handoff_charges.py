"""Hand-offs take time from all whom a part was promised, and slow ones gain nothing."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.model.share import Share
from tests.support.divided_card import DividedCard

FITS_NOT = 60 << 30


class SecondIsSlow(DividedCard):
    """A card on which the second program takes longer to come back."""

    late_s = 0.0

    def _later(self, after_s: float, event: ev.Event) -> None:
        if isinstance(event, ev.Restored) and event.tenant == 2:
            after_s += self.late_s
        super()._later(after_s, event)


def card(*shares: Share, late_s: float = 0.0) -> SecondIsSlow:
    found = SecondIsSlow(shares, bytes_each=FITS_NOT)
    found.late_s = late_s
    found.run(300)
    return found


@pytest.mark.parametrize("asked", [(0.1, 0.9), (0.3, 0.7), (0.2, 0.3, 0.5)])
def test_a_small_promise_pays_no_more_for_handoffs_than_a_large_one(
    asked: tuple[float, ...],
) -> None:
    assert card(*(Share(gpu=part) for part in asked)).of_all(6000) == pytest.approx(asked, abs=0.01)


def test_what_is_shown_as_received_is_what_the_work_had() -> None:
    asked = 0.2, 0.3, 0.5
    found = card(*(Share(gpu=part) for part in asked))
    before, looks, shown = dict(found.used_s), 1000, [0.0, 0.0, 0.0]
    began_s = found.now_s
    for _ in range(looks):
        found.run(2.0)
        for number, view in enumerate(found.arbiter.tenants()):
            shown[number] += view.received / looks
    lasted_s = found.now_s - began_s
    worked = [(found.used_s[number] - before[number]) / lasted_s for number in sorted(before)]
    assert shown == pytest.approx(worked, abs=0.01)
    assert sum(worked) < 0.95, "hand-offs take some of the time"
    assert [part / sum(shown) for part in shown] == pytest.approx(asked, abs=0.01)


def test_slow_handoffs_are_charged_to_who_causes_them() -> None:
    halves = Share(gpu=0.5), Share(gpu=0.5)
    equal, slow = card(*halves).parts(3000), card(*halves, late_s=20.0).parts(3000)
    assert equal == pytest.approx([0.45, 0.45], abs=0.01)
    assert slow[1] < slow[0] - 0.1


def test_programs_without_a_promise_pay_for_their_handoffs() -> None:
    with_promise, without = card(Share(gpu=0.5), Share()).of_all(3000)
    assert with_promise > 0.515
    assert without > 0.45
