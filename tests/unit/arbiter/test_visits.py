"""Short visits: they come soon, and what they take from the turns of others is bounded."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.model.share import NOTHING_ASKED, Priority, Share
from tests.support.alternating import Alternating, Program

PART, MOVE_S, WORK_S, PAUSE_S = 0.96, 0.06, 0.005, 0.495
HANDOFF_S = MOVE_S * (2 * PART - 1) / PART
"""56 ms: all that moves for one hand-off."""
WARM_S, LONG_S = 20.0, 60.0
VISITS_PART = 0.25


def hog() -> Program:
    """A program that never pauses."""
    return Program(lambda: 1e6, lambda: 0.0)


def visitor(work_s: float | Callable[[], float] = WORK_S, pause_s: float = PAUSE_S) -> Program:
    """A program that works shortly now and then."""
    return Program(work_s if callable(work_s) else lambda: work_s, lambda: pause_s)


class Waiting(Alternating):
    """It also knows how long each wait for a lease took, and each lease."""

    def __init__(self, *programs: Program, visits_part: float = VISITS_PART) -> None:
        """These programs, none of which fits beside another."""
        self.waits_s: dict[int, list[float]] = {n + 1: [] for n in range(len(programs))}
        self.holds_s: dict[int, list[float]] = {n + 1: [] for n in range(len(programs))}
        self._asked_s: dict[int, float] = {}
        self._granted_s: dict[int, float] = {}
        super().__init__(programs, part=PART, move_s=MOVE_S, visits_part=visits_part)
        self.run(WARM_S)

    def forget(self) -> None:
        """Begin to count."""
        for number, program in self.programs.items():
            self.waits_s[number].clear()
            self.holds_s[number].clear()
            program.worked_s = 0.0

    def tell(self, event: ev.Event) -> None:
        """Note when a program asks."""
        if isinstance(event, ev.LeaseRequest):
            self._asked_s.setdefault(event.tenant, self.now_s)
        super().tell(event)

    def _do(self, told: do.Instruction) -> None:
        if isinstance(told, do.Grant) and told.tenant in self._asked_s:
            self.waits_s[told.tenant].append(self.now_s - self._asked_s.pop(told.tenant))
        if isinstance(told, do.Grant):
            self._granted_s[told.tenant] = self.now_s
        elif isinstance(told, do.Revoke):
            self.holds_s[told.tenant].append(self.now_s - self._granted_s[told.tenant])
        super()._do(told)

    def worked(self, seconds: float) -> list[float]:
        """The part of the next seconds that each program works for."""
        self.forget()
        began = {}
        for number, program in self.programs.items():
            if program.runs_since_s is not None:
                began[number] = self.now_s - program.runs_since_s
        self.run(seconds)
        found = []
        for number, program in self.programs.items():
            since_s = program.runs_since_s
            own_s = program.worked_s - began.get(number, 0.0)
            found.append((own_s + (self.now_s - since_s if since_s is not None else 0)) / seconds)
        return found


def both(seconds: float, *make: Callable[[], Program]) -> tuple[list[float], list[float], Waiting]:
    """What programs work for with visits and without them; and the node with visits."""
    node = Waiting(*(each() for each in make))
    worked = node.worked(seconds)
    return worked, Waiting(*(each() for each in make), visits_part=0.0).worked(seconds), node


def test_short_work_waits_for_the_move_and_not_for_the_turn() -> None:
    with_visits, without, node = both(LONG_S, hog, visitor)
    waits_s = node.waits_s[2]
    assert len(waits_s) > 0.8 * LONG_S / (WORK_S + PAUSE_S)
    assert statistics.median(waits_s) <= 1.1 * HANDOFF_S
    assert with_visits[0] >= 0.95 * without[0]


def test_without_the_setting_it_waits_for_the_turn() -> None:
    node = Waiting(hog(), visitor(), visits_part=0.0)
    node.worked(LONG_S)
    assert statistics.median(node.waits_s[2]) > 2 * HANDOFF_S


@pytest.mark.parametrize("visitors", [2, 5])
def test_all_visitors_together_take_no_more_than_their_part(visitors: int) -> None:
    with_visits, without, node = both(LONG_S, hog, *[visitor] * visitors)
    assert with_visits[0] >= (1 - VISITS_PART) * without[0] - 0.02
    for number in range(2, visitors + 2):
        assert len(node.waits_s[number]) >= 0.8 * LONG_S / 1.1, "they have their turns besides"


def test_those_that_are_interrupted_go_on_with_their_turns() -> None:
    with_visits, without, node = both(LONG_S, hog, hog, visitor)
    assert abs(with_visits[0] - with_visits[1]) < 0.02
    for number in (1, 2):
        assert with_visits[number - 1] >= (1 - VISITS_PART) * without[number - 1]
        assert max(node.waits_s[number]) <= 1.0, "without visits it is 0.83 s"
    assert statistics.median(node.waits_s[3]) <= 1.1 * HANDOFF_S


@pytest.mark.parametrize(("work_s", "pause_s"), [(WORK_S, 0.03), (0.4, 3.0)])
def test_work_that_is_not_rare_or_not_short_waits_for_its_turn(
    work_s: float, pause_s: float
) -> None:
    with_visits, without, _ = both(LONG_S, hog, hog, lambda: visitor(work_s, pause_s))
    assert with_visits == without


def test_a_visitor_that_works_longer_than_before_has_no_more_of_it() -> None:
    spell_s = [WORK_S]
    node = Waiting(hog(), hog(), visitor(lambda: spell_s[0]))
    node.forget()
    spell_s[0] = 10.0
    node.run(5.0)
    first_s, second_s = node.holds_s[3][:2]
    assert node.waits_s[3][0] <= 1.1 * HANDOFF_S
    assert first_s <= 1.5 * WORK_S + 0.021
    assert second_s > 0.1, "the rest is for its ordinary turns"
    assert node.waits_s[3][1] > 2 * HANDOFF_S
    spell_s[0] = WORK_S
    ended = node.programs[3].spells + 1
    while node.programs[3].spells < ended:
        node.run(0.1)
    node.forget()
    node.run(4.0)
    assert statistics.median(node.waits_s[3]) > 2 * HANDOFF_S, "it might do it again"
    node.run(20.0)
    node.forget()
    node.run(10.0)
    assert statistics.median(node.waits_s[3]) <= 1.1 * HANDOFF_S


def test_a_visitor_that_often_works_long_takes_nothing_from_others() -> None:
    def liar() -> Program:
        dice = random.Random(1)
        return visitor(lambda: WORK_S if dice.random() < 0.8 else 2.0)

    with_visits, without, _ = both(LONG_S, hog, liar)
    assert with_visits[0] >= without[0] - 0.03


@pytest.mark.parametrize(
    "share", [Share(quantum_s=0.5), Share(latency=True), Share(priority=Priority.HIGH)]
)
def test_turns_of_a_set_length_and_of_higher_classes_are_not_interrupted(share: Share) -> None:
    node = Waiting(hog(), visitor())
    node.tell(ev.ShareSet(1, share))
    node.run(2.0)
    node.forget()
    node.run(20.0)
    assert all(length_s >= 0.49 for length_s in node.holds_s[1])


def test_a_visitor_stays_for_a_turn_where_nobody_goes_on() -> None:
    spell_s = [WORK_S]
    node = Waiting(hog(), hog(), visitor(lambda: spell_s[0]))
    node.forget()
    spell_s[0] = 60.0
    while not node.waits_s[3]:
        node.run(0.001)
    node.tell(ev.Left(1))
    node.tell(ev.Left(2))
    node.run(50.0)
    assert not node.holds_s[3], "its lease is never taken"
    spell_s[0] = WORK_S
    node.programs[4] = hog()
    node.programs[4].left_s = 1e6
    node.waits_s[4], node.holds_s[4] = [], []
    node.add(4, NOTHING_ASKED)
    node.tell(ev.LeaseRequest(4))
    node.run(30.0)
    node.forget()
    node.run(10.0)
    assert statistics.median(node.waits_s[3]) <= 1.1 * HANDOFF_S, "it has no debt from that time"
