from __future__ import annotations

from dataclasses import replace

from moiety.policy.model.cluster import Pool
from moiety.policy.model.decisions import Growth, Release
from moiety.policy.model.snapshot import Snapshot
from moiety.sim.scaling import free_name, scaled, with_domains
from tests.unit.policy.build import node

POOL = Pool("burst", is_dynamic=True, nodes_max=4, template=node("template"))


def test_a_node_comes_when_it_is_ready_and_not_before() -> None:
    grown = Growth("burst", 2, ("w",), 60.0, "", {})
    asked = scaled(Snapshot((), pools=(POOL,), now_s=10.0), [grown])
    assert [each.ready_s for each in asked.starting] == [60.0, 60.0]
    assert asked.nodes == ()
    there = scaled(replace(asked, now_s=60.0), [])
    assert [each.name for each in there.nodes] == ["burst-1", "burst-2"]
    assert there.starting == ()
    assert there.empty_since == {"burst-1": 60.0, "burst-2": 60.0}


def test_a_node_that_is_given_back_is_gone() -> None:
    held = replace(node("burst-1"), pool="burst")
    snapshot = Snapshot(nodes=(held,), pools=(POOL,))
    assert scaled(snapshot, [Release("burst", "burst-1", "", {})]).nodes == ()
    assert scaled(snapshot, []).nodes == (held,)


def test_a_new_node_has_the_first_free_number() -> None:
    assert free_name("burst", ["burst-1", "burst-3"]) == "burst-2"


def test_domains_of_nodes_that_come_are_told_where_the_template_is_in_others() -> None:
    alike, other = node("a"), node("b", rack="r2")
    assert with_domains([POOL], {"burst": [alike]}) == (POOL,)
    assert with_domains([POOL], {}) == (POOL,)
    [told] = with_domains([POOL], {"burst": [alike, other]})
    assert told.domains == (other.topology, alike.topology)
