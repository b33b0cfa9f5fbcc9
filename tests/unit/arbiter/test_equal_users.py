"""Time that no tenant was promised is divided by owner, then by workload, then by process."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter.schedule.owners import weights
from moiety.model.share import NOTHING_ASKED, Priority, Share
from tests.support.owners import FITS, FITS_NOT, Owners

SIZES = pytest.mark.parametrize("bytes_each", [FITS, FITS_NOT], ids=["fits", "fits not"])


def seconds(bytes_each: int) -> float:
    return 20 if bytes_each == FITS else 200


# How parts follow


def test_time_is_divided_by_owner_then_workload_then_process() -> None:
    paths = [("a", "1", "p"), ("a", "1", "q"), ("a", "2", "r"), ("b", "3", "s")]
    assert weights(paths) == pytest.approx([1 / 8, 1 / 8, 1 / 4, 1 / 2])


def test_a_gang_counts_as_one_process() -> None:
    paths = [("a", "1", "gang g"), ("a", "1", "gang g"), ("a", "1", "p")]
    assert weights(paths) == pytest.approx([1 / 4, 1 / 4, 1 / 2])


# What owners receive


@SIZES
def test_seven_programs_of_one_user_get_what_one_of_another_gets(bytes_each: int) -> None:
    card = Owners(bytes_each, [("a", f"{n}") for n in range(7)] + [("b", "7")])
    card.run(seconds(bytes_each) / 4)
    found = card.by_owner(seconds(bytes_each))
    assert max(found.values()) / min(found.values()) <= 1.03
    assert bytes_each == FITS_NOT or card.unused_s / card.now_s < 0.001


@SIZES
def test_seven_processes_of_one_workload_get_what_another_workload_gets(bytes_each: int) -> None:
    card = Owners(bytes_each, [("a", "run")] * 7 + [("a", "other")])
    card.run(seconds(bytes_each) / 4)
    found = card.by_workload(seconds(bytes_each))
    assert max(found.values()) / min(found.values()) <= 1.03


@SIZES
def test_all_three_levels_hold_together(bytes_each: int) -> None:
    card = Owners(bytes_each, [("a", "1"), ("a", "1"), ("a", "1"), ("a", "2"), ("b", "3")])
    card.run(seconds(bytes_each) / 4)
    found = list(card.by({n: n for n in card.owner}, 2 * seconds(bytes_each)).values())
    assert found == pytest.approx([1 / 12, 1 / 12, 1 / 12, 1 / 4, 1 / 2], abs=0.02)


def test_one_owners_equal_workloads_are_never_interrupted() -> None:
    card = Owners(FITS, [("a", f"{n}") for n in range(5)])
    card.run(60)
    assert card.revokes == 0


def test_windows_of_owners_with_many_programs_are_longer_and_not_more() -> None:
    card = Owners(FITS, [("a", "1")] * 32 + [("b", "2")])
    card.run(5)
    before = card.revokes
    found = card.by_owner(20)
    assert max(found.values()) / min(found.values()) <= 1.05
    assert (card.revokes - before) / 20 < 100


def test_promises_come_first_and_the_rest_is_divided_by_owner() -> None:
    card = Owners(FITS)
    card.start("a", "1", Share(gpu=0.4))
    for _ in range(3):
        card.start("a", "2")
    card.start("b", "3")
    card.run(2)
    assert card.parts(20) == pytest.approx([0.4, 0.1, 0.1, 0.1, 0.3], abs=0.02)


def test_who_takes_turns_with_equals_still_holds_beside_them() -> None:
    card = Owners(20 << 30, [("a", "1")] * 3 + [("b", "2")])
    card.add(5, NOTHING_ASKED, 60 << 30, owner="b", workload="2")
    card.owner[5], card.workload[5] = "b", ("b", "2")
    card.run(5)
    most = 0
    for _ in range(200):
        card.run(0.01)
        most = max(most, len(card.open & {1, 2, 3}))
    assert most == 3


# Who comes and goes


@SIZES
def test_programs_that_join_and_leave_move_nothing_between_owners(bytes_each: int) -> None:
    card = Owners(bytes_each, [("a", "1"), ("b", "2")])
    card.run(5)
    extra = [card.start("a", f"more {n}") for n in range(6)]
    card.run(seconds(bytes_each) / 10)
    found = card.by_owner(seconds(bytes_each))
    assert found["a"] == pytest.approx(0.5, abs=0.02)
    for number in extra:
        card.end(number)
    card.run(1)
    found = card.by_owner(seconds(bytes_each))
    assert found["a"] == pytest.approx(0.5, abs=0.02)


@SIZES
def test_an_idle_owner_saves_nothing_up(bytes_each: int) -> None:
    card = Owners(bytes_each, [("a", "1")] * 3 + [("b", "2")])
    card.run(5)
    card.nap(4, 60)
    found = card.by_owner(60)
    assert found["a"] > 0.97
    card.run(1)
    found = card.by_owner(seconds(bytes_each) / 4)
    assert found["b"] == pytest.approx(0.5, abs=0.05)


# Who tries to gain by it


@SIZES
def test_starting_and_ending_programs_gains_nothing(bytes_each: int) -> None:
    card = Owners(bytes_each, [("a", "1"), ("b", "2")])
    card.run(2)
    before_s = dict(card.used_s)
    began_s, number, count = card.now_s, 1, 0
    while card.now_s < began_s + seconds(bytes_each):
        card.run(0.03 if bytes_each == FITS else 0.3)
        card.end(number)
        number, count = card.start("a", f"again {count}"), count + 1
    lasted_s = card.now_s - began_s
    assert (card.used_s[2] - before_s[2]) / lasted_s >= 0.47


def test_many_programs_that_take_turns_to_work_gain_nothing() -> None:
    card = Owners(FITS, [("b", "0")] + [("a", f"{n}") for n in range(1, 11)])
    for number in range(3, 12):
        card.nap(number, 1e9)
    card.run(2)
    before_s, began_s, works = card.used_s[1], card.now_s, 2
    for turn in range(400):
        other = 2 + (turn + 1) % 10
        card.wake(other)
        card.nap(works, 1e9)
        works = other
        card.run(0.04)
    assert (card.used_s[1] - before_s) / (card.now_s - began_s) >= 0.46


@pytest.mark.parametrize("lifetime_s", [0.04, 0.5])
def test_many_short_workloads_gain_nothing(lifetime_s: float) -> None:
    card = Owners(FITS, [("b", "0")])
    card.run(2)
    before_s, began_s = card.used_s[1], card.now_s
    for _ in range(round(6 / lifetime_s)):
        numbers = [card.start("a", f"{card.now_s} {n}") for n in range(10)]
        card.run(lifetime_s)
        for number in numbers:
            card.end(number)
    assert (card.used_s[1] - before_s) / (card.now_s - began_s) >= 0.46


def test_forks_within_a_workload_gain_nothing_from_another_workload() -> None:
    card = Owners(FITS, [("a", "one"), ("a", "forks")])
    for _ in range(15):
        card.start("a", "forks")
    card.run(2)
    assert card.by_workload(20)["a", "one"] == pytest.approx(0.5, abs=0.02)


def test_who_ends_far_ahead_leaves_that_to_the_owners_next_program() -> None:
    card = Owners(FITS_NOT, [("a", "1"), ("b", "2")])
    card.run(20)
    ahead = 1 if 1 in card.open else 2
    card.run(0.05)
    owner = card.owner[ahead]
    lag_s = next(v.lag_s for v in card.arbiter.tenants() if v.tenant == ahead)
    card.end(ahead)
    number = card.start(owner, "next")
    found = next(v.lag_s for v in card.arbiter.tenants() if v.tenant == number)
    assert lag_s < 0
    assert found == pytest.approx(lag_s, abs=0.02)


def test_a_gang_of_several_workloads_is_one_workload() -> None:
    card = Owners(FITS, [("a", "1"), ("a", "2"), ("a", "3")])
    card.tell(ev.GangJoined(1, "g", 2))
    card.tell(ev.GangJoined(2, "g", 2))
    card.run(2)
    assert card.parts(20) == pytest.approx([1 / 4, 1 / 4, 1 / 2], abs=0.02)


def test_a_gang_that_ends_between_two_rounds_is_looked_at_no_more() -> None:
    card = Owners(FITS, [("a", "1"), ("a", "2"), ("a", "3"), ("b", "4")])
    card.tell(ev.GangJoined(1, "g", 2))
    card.tell(ev.GangJoined(2, "g", 2))
    card.run(1)
    fair_share = card.arbiter._context.fair_share
    gang = card.arbiter._context.ledger.tenants[2].gang
    assert gang is not None
    gang.members.reverse()  # another member comes first
    found_s = fair_share.next_change_s()
    assert found_s is None or found_s > 0


# Who changes priorities


def flip(card: Owners, number: int) -> None:
    """Lower the priority of a program, and raise it again at once."""
    card.tell(ev.ShareSet(number, Share(priority=Priority.LOW)))
    card.tell(ev.ShareSet(number, NOTHING_ASKED))


@SIZES
@pytest.mark.parametrize("others", [0, 2], ids=["alone", "beside others of its owner"])
def test_a_priority_that_changes_back_and_forth_gains_nothing(bytes_each: int, others: int) -> None:
    card = Owners(bytes_each, [("b", "0"), ("a", "1")] + [("a", f"{n}") for n in range(others)])
    guaranteed = {"b": 0.7} if not others else {}  # else all hold together all the time
    card.tell(ev.GuaranteesSet(guaranteed))
    due = 0.7 if guaranteed else 0.5
    card.run(seconds(bytes_each) / 10)
    before_s, began_s = card._got_s()[1], card.now_s
    step_s = 0.05 if bytes_each == FITS else 0.5
    for step in range(round(seconds(bytes_each) / step_s)):
        flip(card, 2 + step % (others + 1))
        card.run(step_s)
    assert (card._got_s()[1] - before_s) / (card.now_s - began_s) >= due - 0.03


def test_another_class_leaves_its_owner_as_far_ahead_as_it_was() -> None:
    card = Owners(FITS_NOT, [("a", "1"), ("a", "2"), ("b", "3")])
    card.run(20)

    def lag_s(*numbers: int) -> float:
        return sum(v.lag_s for v in card.arbiter.tenants() if v.tenant in numbers)

    while abs(lag_s(1, 2)) < 0.2:
        card.run(0.05)
    before_s, own_s = lag_s(1, 2), lag_s(1)
    card.tell(ev.ShareSet(1, Share(priority=Priority.LOW)))
    assert lag_s(1) == 0, "in its new class it is new"
    assert lag_s(2) == pytest.approx(before_s)
    card.tell(ev.ShareSet(1, NOTHING_ASKED))
    assert lag_s(1, 2) == pytest.approx(before_s)
    assert lag_s(1) == pytest.approx(own_s)


def test_the_only_program_of_an_owner_gets_its_lag_back_with_its_class() -> None:
    card = Owners(FITS_NOT, [("a", "1"), ("b", "2"), ("c", "3")])
    card.run(20)

    def lag_s(number: int) -> float:
        return next(v.lag_s for v in card.arbiter.tenants() if v.tenant == number)

    while lag_s(1) > -0.2:
        card.run(0.05)
    before_s = lag_s(1)
    card.tell(ev.ShareSet(1, Share(priority=Priority.LOW)))
    assert lag_s(1) == 0
    card.tell(ev.ShareSet(1, NOTHING_ASKED))
    assert lag_s(1) == pytest.approx(before_s)
