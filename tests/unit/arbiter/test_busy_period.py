"""A turn that ends just before its holder falls silent anyway lasts until then."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.arbiter.state.busy_period import BusyPeriods
from moiety.model.share import Share
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant

LEAST_S = 0.02
LONG_S = 100.0


def test_a_spell_is_known_from_two_on() -> None:
    spells = BusyPeriods()
    for began_s in (0.0, 20.0):
        spells.begin(began_s, holding=True)
        assert spells.rest_s(began_s + 9.0, LONG_S) == 0
        spells.end(began_s + 10.0)
    spells.begin(40.0, holding=True)
    assert spells.rest_s(49.0, LONG_S) == pytest.approx(2.0)
    assert spells.rest_s(49.0, 0.9) == 0  # too late
    assert spells.rest_s(51.1, LONG_S) == 0  # longer than any: nobody knows


def test_of_several_ends_the_last_one_that_is_near_counts() -> None:
    spells = BusyPeriods()
    for length_s in (8.0, 10.0, 30.0):
        spells.begin(0.0, holding=True)
        spells.end(length_s)
    spells.begin(0.0, holding=True)
    assert spells.rest_s(8.0, 5.0) == pytest.approx(3.0)


def test_only_the_time_with_a_lease_counts() -> None:
    spells = BusyPeriods()
    for began_s in (0.0, 50.0):
        spells.begin(began_s, holding=False)
        spells.go_on(began_s + 5.0)
        spells.pause(began_s + 9.0)
        spells.go_on(began_s + 20.0)
        spells.end(began_s + 26.0)
    spells.begin(100.0, holding=False)
    assert spells.rest_s(100.0, LONG_S) == 0  # it holds nothing
    spells.go_on(100.0)
    assert spells.rest_s(109.0, LONG_S) == pytest.approx(2.0)


def test_a_spell_whose_beginning_nobody_saw_teaches_nothing() -> None:
    spells = BusyPeriods()
    for _ in range(3):
        spells.go_on(0.0)
        spells.end(10.0)
    spells.begin(20.0, holding=True)
    assert spells.rest_s(29.0, LONG_S) == 0


# In the arbiter


@pytest.fixture
def pair() -> tuple[SimulatedNode, SimulatedTenant, SimulatedTenant]:
    """Two that do not fit, with turns of 9 s, and a second to move there and back."""
    settings = Settings(arena_bytes=1000, link_bytes_per_s=120.0, turn_min_s=9.0, turn_factor=0)
    node = SimulatedNode([GpuSpec(0, total_bytes=60, capacity_bytes=60)], settings)
    holder, waiting = node.start({0: [10] * 6}), node.start({0: [10] * 6})
    return node, holder, waiting


def work(
    node: SimulatedNode, tenant: SimulatedTenant, other: SimulatedTenant, for_s: float
) -> None:
    """It works for so long, from its coming on, while the other one waits."""
    tenant.touch()
    node.settle()
    assert tenant.is_open
    other.touch()
    node.settle()
    for _ in range(round(for_s * 10)):
        node.tick(0.1)
        node.settle()


def fall_silent(node: SimulatedNode, tenant: SimulatedTenant) -> None:
    """It submits nothing more, until it is told to go."""
    node.tick(LEAST_S)
    tenant.fall_idle()
    node.settle()
    while tenant.is_open:
        node.tick(0.01)
        node.settle()


def learn(node: SimulatedNode, one: SimulatedTenant, two: SimulatedTenant) -> None:
    """Both work in phases of 8.8 s, a few times; then it is the turn of the first."""
    for _ in range(3):
        for tenant, other in ((one, two), (two, one)):
            work(node, tenant, other, 8.8)
            fall_silent(node, tenant)
    node.told.clear()


def test_a_phase_that_ends_soon_after_the_turn_is_not_cut(
    pair: tuple[SimulatedNode, SimulatedTenant, SimulatedTenant],
) -> None:
    node, one, two = pair
    learn(node, one, two)
    work(node, one, two, 9.1)
    assert one.is_open
    watch = [told for told in node.told if isinstance(told, do.SetIdleTimeout)][-1]
    assert watch.idle_s == node.settings.idle_free_s  # now any pause will do
    one.fall_idle()
    node.settle()
    assert not one.is_open


def test_but_not_for_longer_than_spells_have_been(
    pair: tuple[SimulatedNode, SimulatedTenant, SimulatedTenant],
) -> None:
    node, one, two = pair
    learn(node, one, two)
    work(node, one, two, 9.8)
    assert not one.is_open


def test_nor_if_somebody_said_how_long_turns_are(
    pair: tuple[SimulatedNode, SimulatedTenant, SimulatedTenant],
) -> None:
    node, one, two = pair
    learn(node, one, two)
    node.feed(ev.ShareSet(one.number, Share(quantum_s=9.0)))
    work(node, one, two, 9.1)
    assert not one.is_open
