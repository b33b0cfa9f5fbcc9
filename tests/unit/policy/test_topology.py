"""What belongs together comes into one rack, one node, or onto GPUs with fast links."""

from __future__ import annotations

import pytest

from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.model.decisions import Reason
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Domain, Shape, Strictness, Subgroup, Workload
from tests.unit.policy.build import A, B, evicted, node, pairs, placed, refused, runs, work

RACK = Domain("rack")
RATHER = Domain("rack", Strictness.PREFERRED)
STILL = CycleSettings(moves_max=0)
RACKS = tuple(node(f"{rack}{at}", 2, rack) for rack in ("r", "s") for at in range(2))


def racks_of(decisions: dict[str, object]) -> set[str]:
    return {str(spot.node)[0] for spot in decisions.values()}  # type: ignore[attr-defined]


@pytest.mark.parametrize("whole", [True, False])
def test_a_gang_comes_into_one_rack(whole: bool) -> None:
    first = work("first", tasks=1)
    gang = work("gang", tasks=4, **{"whole" if whole else "domain": RACK})  # type: ignore[arg-type]
    snapshot = Snapshot(RACKS, (first, gang), tuple(runs(first, (0,), on="r0")))
    found = placed(decide(snapshot))
    assert len(found) == 4
    assert racks_of(found) == {"s"}  # type: ignore[arg-type]


def test_the_tightest_rack_that_will_do_is_taken() -> None:
    first = work("first")
    gang = work("gang", tasks=3, whole=RACK)
    snapshot = Snapshot(RACKS, (first, gang), tuple(runs(first, (0,), on="s1")))
    assert racks_of(placed(decide(snapshot))) == {"s"}  # type: ignore[arg-type]


def test_without_a_rack_that_will_do_it_waits_and_is_told_so() -> None:
    others = [work(f"o{at}") for at in range(2)]
    running = (*runs(others[0], (0,), on="r0"), *runs(others[1], (0,), on="s0"))
    gang = work("gang", tasks=4, whole=RACK)
    [refusal] = refused(decide(Snapshot(RACKS, (*others, gang), running), settings=STILL)).values()
    assert (refusal.reason, refusal.is_final) == (Reason.TOPOLOGY, False)
    assert refusal.text.startswith(
        "it needs places for 4 tasks in one rack: of 2, the one with most room, s, has 3"
    )
    rather = work("gang", tasks=4, whole=RATHER)
    assert len(placed(decide(Snapshot(RACKS, (*others, rather), running)))) == 4


def test_what_no_rack_could_ever_hold_is_told_for_good() -> None:
    [refusal] = refused(decide(Snapshot(RACKS, (work("gang", tasks=5, whole=RACK),)))).values()
    assert (refusal.reason, refusal.is_final) == (Reason.TOPOLOGY, True)
    assert refusal.numbers["places_when_empty"] == 4
    rather = work("gang", tasks=5, whole=RATHER)
    assert len(placed(decide(Snapshot(RACKS, (rather,))))) == 5


def test_preferred_domains_are_as_few_as_possible() -> None:
    nodes = (node("a", 1, "x"), node("b", 3, "y"), node("c", 2, "z"))
    gang = work("gang", tasks=5, domain=RATHER)
    found = placed(decide(Snapshot(nodes, (gang,))))
    assert sorted(spot.node for spot in found.values()) == ["b", "b", "b", "c", "c"]


def test_who_comes_later_goes_where_the_others_are() -> None:
    gang = work("gang", tasks=3, least=1, whole=RACK)
    other = work("other", tasks=2)
    running = (*runs(gang, (0,), on="s0"), *runs(other, (0,), (1,), on="s1"))
    decisions = decide(Snapshot(RACKS, (gang, other), running), settings=STILL)
    assert [spot.node for spot in placed(decisions).values()] == ["s0"]
    assert refused(decisions)["gang"].reason is Reason.TOPOLOGY


def test_subgroups_have_domains_of_their_own() -> None:
    one = Shape(0, 0, 1, 1000)
    gang = Workload(
        "gang",
        tuple(Subgroup(name, one, 2, 2, Domain("node")) for name in ("left", "right")),
        domain=RACK,
    )
    found = placed(decide(Snapshot(RACKS, (gang,))))
    assert found["gang/left/0"].node == found["gang/left/1"].node
    assert found["gang/right/0"].node == found["gang/right/1"].node
    assert racks_of(found) in ({"r"}, {"s"})  # type: ignore[arg-type]


def test_linked_gpus_are_taken_together_or_not_at_all() -> None:
    linked = node("n", gpus=pairs())
    pair = work("pair", count=2, domain=Domain("nvlink"))
    first = work("first")
    found = placed(decide(Snapshot((linked,), (pair, first), tuple(runs(first, (1,))))))
    assert found["pair/main/0"].gpus == (2, 3)
    both = [work("x"), work("y")]
    running = (*runs(both[0], (1,)), *runs(both[1], (2,)))
    decisions = decide(Snapshot((linked,), (pair, *both), running), settings=STILL)
    assert placed(decisions) == {}
    assert refused(decisions)["pair"].reason is Reason.TOPOLOGY


def test_room_is_made_in_one_rack() -> None:
    old = [work(f"o{at}", "b", submitted_s=at) for at in range(8)]
    spots = [(rack + str(at), gpu) for gpu in range(2) for at in range(2) for rack in "rs"]
    running = [
        each
        for at, (job, (on, gpu)) in enumerate(zip(old, spots, strict=True))
        for each in runs(job, (gpu,), on=on, since_s=float(at))
    ]
    gang = work("gang", tasks=2, whole=RACK)
    decisions = decide(Snapshot(RACKS, (*old, gang), tuple(running), (A, B), now_s=99))
    assert len(placed(decisions)) == len(evicted(decisions)) == 2
    assert len(racks_of(placed(decisions))) == 1  # type: ignore[arg-type]


def test_who_moves_stays_in_its_rack() -> None:
    tied = work("tied", "b", whole=RACK)
    wide = work("wide", count=2)
    nodes = (node("r0", 2, "r"), node("s0", 2, "s"))
    kept = work("kept", "b", is_preemptible=False)
    running = (*runs(tied, (0,), on="r0"), *runs(kept, (0,), on="s0"))
    decisions = decide(Snapshot(nodes, (tied, kept, wide), running, (A, B)))
    assert placed(decisions) == {}
    free = work("tied", "b")
    decisions = decide(Snapshot(nodes, (free, kept, wide), running, (A, B)))
    assert len(placed(decisions)) == 1
