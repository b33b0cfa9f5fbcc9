"""Where a GPU does not divide its time equally, who gets more takes turns: parts hold again."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter.states import Apart
from moiety.model.share import Share
from tests.support.divided_card import DividedCard


def apart(card: DividedCard, *numbers: int, kind: Apart = Apart.OF_ALL) -> None:
    for number in numbers:
        card.tell(ev.DivisionSet(number, kind))


def held_together(card: DividedCard, seconds: float) -> set[frozenset[int]]:
    """The sets of processes that held at one time."""
    found = set()
    for _ in range(round(seconds / 0.005)):
        card.run(0.005)
        found.add(frozenset(card.open))
    return found


@pytest.mark.parametrize("asked", [(None, None), (0.7, 0.3), (0.3, 0.7), (None, None, None)])
def test_parts_hold_beside_one_that_the_gpu_prefers(asked: tuple[float | None, ...]) -> None:
    card = DividedCard([Share(gpu=part) for part in asked])
    card.counts[1] = 4.0
    card.run(2)
    expected = [part or 1 / len(asked) for part in asked]
    unfair = card.parts(4)
    assert unfair != pytest.approx(expected, abs=0.05)
    apart(card, 1)
    card.run(2)
    assert card.parts(4) == pytest.approx(expected, abs=0.03)
    assert card.unused_s < 0.05


def test_the_others_hold_together_meanwhile() -> None:
    card = DividedCard([Share(), Share(), Share()])
    apart(card, 1)
    card.run(2)
    found = held_together(card, 4)
    assert frozenset({2, 3}) in found
    assert not any(1 in each and len(each) > 1 for each in found)


def test_clients_of_mps_take_turns_only_among_themselves() -> None:
    card = DividedCard([Share(), Share(), Share()])
    apart(card, 1, 2, kind=Apart.OF_MPS)
    card.run(2)
    found = held_together(card, 4)
    assert not any({1, 2} <= each for each in found)
    assert any(3 in each and len(each) == 2 for each in found)
    assert card.parts(4) == pytest.approx([1 / 3] * 3, abs=0.03)


def test_taken_back_all_hold_together_again() -> None:
    card = DividedCard([Share(), Share()])
    apart(card, 1)
    card.run(2)
    apart(card, 1, kind=Apart.NO)
    card.run(1)
    revokes = card.revokes
    card.run(10)
    assert card.open == {1, 2}
    assert card.revokes == revokes
