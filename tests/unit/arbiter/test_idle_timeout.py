"""Waiting for a silent holder: never much worse than the best, and soon as good as it can be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.arbiter.state.idle_timeout import SOON, IdlePeriods, cost_s
from moiety.model.share import Share
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant

LEAST_S, MOVE_S = 0.02, 1.0


def costs(lengths_s: Sequence[float]) -> list[float]:
    """What each of these silences costs, with what is known before it."""
    known, found = IdlePeriods(), []
    for length_s in lengths_s:
        found.append(cost_s(length_s, known.patience_s(LEAST_S, MOVE_S), MOVE_S))
        known.add(length_s)
    return found


@given(st.lists(st.floats(LEAST_S, 100.0)))
def test_no_silence_ever_costs_more_than_moving_twice(lengths_s: list[float]) -> None:
    assert all(cost <= 2 * MOVE_S for cost in costs(lengths_s))


@given(st.lists(st.sampled_from([0.021, 0.03, 0.1, 0.3, 0.7, 0.99, 1.01, 1.5, 10.0]), max_size=200))
def test_in_the_long_run_it_is_within_three_times_the_best(lengths_s: list[float]) -> None:
    best = sum(min(length_s, MOVE_S) for length_s in lengths_s)
    assert sum(costs(lengths_s)) <= 3 * best + 6 * MOVE_S


@given(
    st.lists(st.floats(LEAST_S, 100.0), max_size=40),
    st.floats(1.5 * MOVE_S, 100.0),
)
def test_phases_that_are_always_long_are_released_at_once(
    before: list[float], length_s: float
) -> None:
    known = IdlePeriods()
    for other_s in before:
        known.add(other_s)
    for _ in range(8):
        known.add(length_s)
    assert known.patience_s(LEAST_S, MOVE_S) <= 3 * LEAST_S or min(before[-8:]) < length_s
    assert costs([length_s] * 10)[3:] == pytest.approx([LEAST_S + MOVE_S] * 7)


@given(st.lists(st.floats(LEAST_S, 0.99 * MOVE_S), max_size=60))
def test_short_pauses_never_cause_a_move(lengths_s: list[float]) -> None:
    assert costs(lengths_s) == pytest.approx(lengths_s)


def test_pauses_are_waited_for_and_phases_are_not() -> None:
    epoch = [0.05] * 5 + [20.0]
    found = costs(epoch * 10)
    assert found[-6:] == pytest.approx([*[0.05] * 5, 0.075 + MOVE_S])


def test_one_that_changes_is_believed_after_four_silences() -> None:
    found = costs([10.0] * 16 + [0.03] * 10)
    assert found[20:] == pytest.approx([0.03] * 6)


@pytest.mark.parametrize(("move_s", "rows"), [(0.001, [3, 3]), (0.05, [4, 7]), (0.1, [7, 14])])
def test_a_row_of_long_silences_ends_the_shortest_wait_once_it_pays(
    move_s: float, rows: list[int]
) -> None:
    """15 ms are saved each time; a wrong guess costs the move, and then twice as much has to be."""
    known = IdlePeriods()
    for row in rows:
        for _ in range(row):
            assert known.patience_s(LEAST_S, move_s) >= LEAST_S
            known.add(0.5)
        assert known.patience_s(LEAST_S, move_s) == SOON * LEAST_S
        known.end_row()


# In the arbiter


@pytest.fixture
def pair() -> tuple[SimulatedNode, SimulatedTenant, SimulatedTenant]:
    """Two that do not fit, with turns that do not end, and a second to move there and back."""
    settings = Settings(arena_bytes=1000, link_bytes_per_s=120.0, turn_min_s=1e6)
    node = SimulatedNode([GpuSpec(0, total_bytes=60, capacity_bytes=60)], settings)
    first = node.start({0: [60]})
    return node, first, node.start({0: [60]})


def fall_silent(node: SimulatedNode, holder: SimulatedTenant) -> None:
    """Whoever holds does nothing, and tells of it as soon as it was asked to."""
    assert holder.watched
    node.tick(LEAST_S)
    holder.fall_idle()
    node.settle()


def waited_s(
    pair: tuple[SimulatedNode, SimulatedTenant, SimulatedTenant], silence_s: float
) -> float:
    """The first is silent for so long, then works again: how long does the other wait for it?

    When it has to leave, the other is silent later on, until the first is back.
    """
    node, first, other = pair
    other.touch()
    node.settle()
    assert first.is_open
    began_s = node.now_s
    fall_silent(node, first)
    while not other.is_open and node.now_s < began_s + silence_s:
        node.tick(0.001)
        node.settle()
    found_s = node.now_s - began_s
    node.tick(began_s + silence_s - node.now_s)
    first.touch()
    node.settle()
    if other.is_open:
        fall_silent(node, other)
        node.tick(MOVE_S)
        node.settle()
    assert first.is_open
    return found_s


def test_a_holder_with_data_is_waited_for_as_long_as_moving_it_costs(
    pair: tuple[SimulatedNode, SimulatedTenant, SimulatedTenant],
) -> None:
    assert waited_s(pair, 5.0) == pytest.approx(MOVE_S, abs=0.01)


def test_whose_phases_are_long_gives_way_at_once_from_the_fourth_on(
    pair: tuple[SimulatedNode, SimulatedTenant, SimulatedTenant],
) -> None:
    found = [waited_s(pair, 5.0) for _ in range(6)]
    assert found == pytest.approx([MOVE_S] * 3 + [LEAST_S] * 3, abs=0.01)


def test_whose_pauses_are_short_keeps_its_turn(
    pair: tuple[SimulatedNode, SimulatedTenant, SimulatedTenant],
) -> None:
    node, first, _ = pair
    node.told.clear()
    found = [waited_s(pair, 0.2) for _ in range(6)]
    assert found == pytest.approx([0.2] * 6, abs=0.01)
    assert not any(isinstance(told, do.Revoke) for told in node.told)
    assert first.watched


def test_with_nothing_to_move_it_is_immediate() -> None:
    node = SimulatedNode([GpuSpec(0, 120, 100)], Settings(arena_bytes=1000))
    first, other = node.start({0: [30]}), node.start({0: [30]})
    node.feed(ev.ShareSet(first.number, Share(gpu=0.5)))
    node.settle()
    holder, waiting = (first, other) if first.is_open else (other, first)
    waiting.touch()
    node.settle()
    holder.fall_idle()
    node.settle()
    assert waiting.is_open


def test_who_waits_for_memory_is_not_idle() -> None:
    node = SimulatedNode([GpuSpec(0, 120, 100)], Settings(arena_bytes=1000))
    first, other = node.start({0: [40]}), node.start({0: [40]})
    first.allocate(0, [40])
    node.settle()
    assert first.watched or other.watched
    first.fall_idle()
    node.settle()
    assert node.view(first).asks
    assert first.is_open
