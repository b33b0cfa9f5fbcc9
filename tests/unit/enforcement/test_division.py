"""Turns come where a GPU's work deviates from what is charged, and stay only where they help."""

from __future__ import annotations

import pytest

from moiety.enforcement.division import IN_VAIN_S, TURNS_S, Change, Division, Seen

LOOK_S = 5.0


class Looked:
    """One GPU, looked at every five seconds."""

    def __init__(self) -> None:
        self.division = Division()
        self.now_s = 0.0
        self._charged: dict[int, float] = {}

    def look(
        self,
        charged: dict[int, float],
        busy: dict[int, float | None],
        *,
        mps: frozenset[int] = frozenset(),
        fits: bool = True,
    ) -> list[Change]:
        """Time passes in which tenants are charged with these parts and have this much work."""
        self.now_s += LOOK_S
        for tenant, part in charged.items():
            self._charged[tenant] = self._charged.get(tenant, 0.0) + part * LOOK_S
        seen = [Seen(t, self._charged[t], busy[t], t in mps) for t in charged]
        return self.division.look(self.now_s, 0, seen, fits=fits)

    def until(
        self, seconds: float, charged: dict[int, float], busy: dict[int, float | None]
    ) -> list[Change]:
        """The first changes within this time; none if nothing changes."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            if found := self.look(charged, busy):
                return found
        return []


HALVES = {1: 0.5, 2: 0.5}
UNFAIR: dict[int, float | None] = {1: 0.8, 2: 0.2}
FAIR: dict[int, float | None] = {1: 0.5, 2: 0.5}


def kinds(changes: list[Change]) -> list[tuple[int, str]]:
    return [(change.tenant, change.apart) for change in changes]


def test_equal_division_changes_nothing() -> None:
    looked = Looked()
    assert looked.until(300, HALVES, FAIR) == []
    assert looked.until(300, HALVES, {1: 0.56, 2: 0.44}) == []
    assert looked.until(300, {1: 0.7, 2: 0.3}, {1: 0.66, 2: 0.34}) == []


def test_who_gets_more_takes_turns_after_ten_seconds() -> None:
    looked = Looked()
    looked.look(HALVES, UNFAIR)
    assert looked.look(HALVES, UNFAIR) == []
    (change,) = looked.look(HALVES, UNFAIR)
    assert kinds([change]) == [(1, "all")]
    assert "80%" in change.why.replace(" ", "")
    assert "50%" in change.why.replace(" ", "")


def test_turns_that_help_stay_and_end_to_look_again_less_and_less_often() -> None:
    looked = Looked()
    assert looked.until(20, HALVES, UNFAIR)
    lengths = []
    for _ in range(3):
        began_s = looked.now_s
        assert kinds(looked.until(10_000, HALVES, FAIR)) == [(1, "")]
        lengths.append(looked.now_s - began_s)
        assert kinds(looked.until(10, HALVES, UNFAIR)) == [(1, "all")]
    assert lengths == pytest.approx([TURNS_S, 2 * TURNS_S, 4 * TURNS_S], abs=10)


def test_turns_end_for_good_where_the_gpu_divides_equally_again() -> None:
    looked = Looked()
    assert looked.until(20, HALVES, UNFAIR)
    assert kinds(looked.until(10_000, HALVES, FAIR)) == [(1, "")]
    assert looked.until(1000, HALVES, FAIR) == []


def test_a_program_that_pauses_is_no_reason_for_turns() -> None:
    looked = Looked()
    assert looked.until(20, HALVES, {1: 0.75, 2: 0.25})
    began_s = looked.now_s
    assert kinds(looked.until(100, HALVES, {1: 0.5, 2: 0.2})) == [(1, "")]
    assert looked.now_s - began_s <= 10
    assert looked.until(IN_VAIN_S - 20, HALVES, {1: 0.75, 2: 0.25}) == []
    assert looked.until(100, HALVES, {1: 0.75, 2: 0.25})


def test_nothing_is_compared_without_figures_room_or_work() -> None:
    looked = Looked()
    for _ in range(20):
        assert looked.look(HALVES, {1: 0.9, 2: None}) == []
        assert looked.look(HALVES, UNFAIR, fits=False) == []
        assert looked.look(HALVES, {1: 0.3, 2: 0.05}) == []
        assert looked.look({1: 0.97, 2: 0.01}, {1: 0.5, 2: 0.4}) == []


def test_a_new_program_begins_the_comparison_anew() -> None:
    looked = Looked()
    looked.look(HALVES, UNFAIR)
    looked.look(HALVES, UNFAIR)
    thirds = dict.fromkeys((1, 2, 3), 1 / 3)
    busy: dict[int, float | None] = {1: 0.8, 2: 0.1, 3: 0.1}
    assert looked.look(thirds, busy) == []
    assert looked.look(thirds, busy) == []
    assert kinds(looked.look(thirds, busy)) == [(1, "all")]


def test_several_clients_of_mps_take_turns_and_one_does_not() -> None:
    looked = Looked()
    assert looked.look(HALVES, FAIR, mps=frozenset({1})) == []
    both = frozenset({1, 2})
    assert kinds(looked.look(HALVES, FAIR, mps=both)) == [(1, "mps"), (2, "mps")]
    assert looked.look(HALVES, UNFAIR, mps=both) == []
    assert looked.look(HALVES, UNFAIR, mps=both) == []
    assert sorted(kinds(looked.look(HALVES, FAIR))) == [(1, ""), (2, "")]


def test_what_was_set_is_named_at_the_end() -> None:
    looked = Looked()
    looked.look(HALVES, FAIR, mps=frozenset({1, 2}))
    assert sorted(looked.division.end()) == [1, 2]
    assert looked.division.end() == []
    assert looked.until(20, HALVES, UNFAIR)
    assert looked.division.end() == [1]


def test_one_that_leaves_the_gpu_takes_turns_no_more() -> None:
    looked = Looked()
    assert looked.until(20, HALVES, UNFAIR)
    assert kinds(looked.look({2: 1.0}, {2: 1.0})) == [(1, "")]
    assert looked.look({2: 1.0}, {2: 1.0}) == []
    assert looked.division.end() == []


def test_a_client_of_mps_that_leaves_the_gpu_takes_turns_no_more() -> None:
    looked = Looked()
    clients = frozenset({1, 2, 3})
    thirds, busy = dict.fromkeys(clients, 1 / 3), dict.fromkeys(clients, 1 / 3)
    looked.look(thirds, {**busy}, mps=clients)
    assert kinds(looked.look(HALVES, {**FAIR}, mps=frozenset({1, 2}))) == [(3, "")]
