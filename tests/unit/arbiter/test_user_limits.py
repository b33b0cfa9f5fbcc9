"""What one user may have, and why not."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.arbiter import events as ev
from moiety.arbiter.admission.user_limits import Entitlement, Rule, divide, entitle, refuse, within
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.model.share import Mode, Priority, Share
from moiety.model.units import AllocationLimit
from tests.support.simulated_node import SimulatedNode

GIB = 1 << 30


def rules(line: int, **values: Any) -> dict[str, Rule[Any]]:
    return {field: Rule(value, f"/etc/f:{line}") for field, value in values.items()}


def alice(**values: Any) -> Entitlement:
    return Entitlement("alice", **rules(1, **values))


def size(most: int) -> AllocationLimit:
    return AllocationLimit(most, None)


def part(most: float) -> AllocationLimit:
    return AllocationLimit(None, most)


def test_a_users_own_rules_count_before_those_of_groups_and_defaults() -> None:
    found = entitle(
        "alice",
        rules(1, gpu=0.5),
        [rules(2, gpu=0.9, memory=size(4)), rules(3, memory=size(8), latency=False)],
        rules(4, memory=size(1), workloads=3),
    )
    assert found.gpu == Rule(0.5, "/etc/f:1")
    assert found.memory == Rule(size(8), "/etc/f:3")  # the most generous group
    assert found.latency == Rule(False, "/etc/f:3")
    assert found.workloads == Rule(3, "/etc/f:4")
    assert found.priority is None


def test_a_member_of_two_groups_may_use_the_gpus_of_both() -> None:
    groups = [rules(1, gpus=(0, 1)), rules(2, gpus=(1, 5))]
    found = entitle("alice", {}, groups, rules(3, gpus=(7,)))
    assert found.gpus == Rule((0, 1, 5), "/etc/f:1")
    assert entitle("alice", rules(4, gpus=(3,)), groups, {}).gpus == Rule((3,), "/etc/f:4")


@pytest.mark.parametrize(
    ("may", "share", "others", "says"),
    [
        (alice(workloads=0), Share(), [], "no programs at one time"),
        (alice(workloads=2), Share(), [Share(), Share()], "2 programs at one time"),
        (alice(priority=Priority.NORMAL), Share(priority=Priority.HIGH), [], "normal at most"),
        (alice(latency=False), Share(latency=True), [], "latency class"),
        (alice(quantum_s=10.0), Share(quantum_s=11.0), [], "turns of 10 s at most, not 11 s"),
        (alice(quantum_s=0.0), Share(quantum_s=0.1), [], "no turns of its own"),
        (alice(gpu=0.5), Share(gpu=0.6), [], "60 % of a GPU cannot be guaranteed to alice"),
        (alice(gpu=0.5), Share(gpu=0.3), [Share(gpu=0.3)], "30 % of it are guaranteed already"),
        (alice(memory=size(GIB)), Share(memory_limit_bytes=2 * GIB), [], "more than alice may"),
        (
            alice(memory=size(GIB)),
            Share(memory_bytes=GIB // 2 + 1),
            [Share(memory_bytes=GIB // 2)],
            "512 MiB are kept already",
        ),
    ],
)
def test_a_refusal_names_the_user_the_rule_and_its_place(
    may: Entitlement, share: Share, others: list[Share], says: str
) -> None:
    refusal = refuse(may, share, others)
    assert refusal is not None
    assert says in refusal[0]
    assert refusal[0].count("alice") >= 1
    assert refusal[1] == "/etc/f:1"


def test_what_is_within_the_rules_is_let_in() -> None:
    may = alice(gpu=0.5, memory=size(GIB), priority=Priority.NORMAL, latency=True, workloads=2)
    assert (
        refuse(may, Share(gpu=0.3, memory_bytes=GIB // 2, latency=True), [Share(gpu=0.2)]) is None
    )
    assert (
        refuse(Entitlement("bob"), Share(gpu=1.0, priority=Priority.HIGH), [Share()] * 99) is None
    )


def test_nothing_is_left_of_a_share_that_may_not_be_had() -> None:
    may = alice(memory=size(GIB), priority=Priority.LOW, latency=False)
    asked = Share(0.8, 1.0, 2 * GIB, None, Priority.HIGH, latency=True)
    assert within(may, asked, 0.5) == Share(0.5, 0.5, GIB, GIB, Priority.LOW, latency=False)
    managed = Share(mode=Mode.MANAGED)
    assert within(Entitlement("bob"), managed) == managed


SHARES = st.builds(
    lambda gpu, extra: Share(gpu=gpu or None, gpu_limit=min(1.0, gpu + extra)),
    st.floats(0.0, 0.5),
    st.floats(0.01, 1.0),
)


@given(st.floats(0.01, 1.0), st.lists(SHARES, min_size=1, max_size=8))
def test_together_they_never_have_more_than_their_user_may(
    most: float, shares: list[Share]
) -> None:
    caps = divide(most, shares)
    least = 0.001 * len(shares)  # for those of whom there are too many
    assert sum(caps) <= most + least + 1e-6
    assert all(0 < cap <= 1 for cap in caps)
    floors = [share.gpu or 0.0 for share in shares]
    if sum(floors) <= most:
        assert all(cap >= floor - 1e-9 for cap, floor in zip(caps, floors, strict=True))
        wanted = sum(share.gpu_limit for share in shares)
        assert sum(caps) >= min(most, wanted) - 1e-6  # nothing is left over that one could have
    for share, cap in zip(shares, caps, strict=True):
        within(alice(gpu=most), share, cap)  # it makes sense in itself


def test_equals_have_equal_parts_and_what_one_may_not_have_goes_to_the_others() -> None:
    assert divide(0.6, [Share(), Share()]) == [0.3, 0.3]
    found = divide(0.6, [Share(gpu_limit=0.1), Share(), Share(gpu=0.2)])
    assert found[0] == 0.1
    assert math.isclose(sum(found), 0.6)
    assert found[2] > found[1] > 0.1


def test_all_programs_of_a_user_together_are_held_to_its_memory(node: SimulatedNode) -> None:
    node.feed(ev.UserLimitsSet({1: (50, "alice may have there, 50 B (/etc/f:1)")}))
    first, second = node.start({0: [30]}, uid=1), node.start({0: [10]}, uid=1)
    other = node.start({0: [30]}, uid=2)
    second.allocate(0, [20])
    node.settle()
    (refused,) = second.refusals
    assert refused.code == "limit"
    assert "exceed what alice may have there, 50 B (/etc/f:1)" in refused.text
    assert "40 B in use" in refused.text
    # What one gives back the other may have, and who is somebody else is not asked.
    first.free(first.blocks[0])
    node.settle()
    second.allocate(0, [20])
    other.allocate(0, [30])
    node.settle()
    assert len(second.refusals) == 1
    assert other.refusals == []


@pytest.mark.parametrize("quantum_s", [0.0, 0.05])
def test_a_limit_of_turns_is_none_for_who_asks_for_no_turns(quantum_s: float) -> None:
    assert refuse(alice(quantum_s=quantum_s), Share(), []) is None


def test_a_part_of_the_memory_is_as_much_as_that_is_of_each_gpu() -> None:
    gpus = [GpuSpec(0, total_bytes=120, capacity_bytes=100), GpuSpec(1, 60, capacity_bytes=40)]
    node = SimulatedNode(gpus, Settings(arena_bytes=1000))
    node.feed(ev.UserLimitsSet({}, {1: (0.5, "alice may have there, 50 % (/etc/f:1)")}))
    large, small = node.start({0: [50]}, uid=1), node.start({1: [20]}, uid=1)
    assert not large.refusals
    assert not small.refusals
    small.allocate(1, [1])
    node.settle()
    (refused,) = small.refusals
    assert "exceed what alice may have there, 50 % (/etc/f:1) (20 B in use)" in refused.text
    # of an amount and a part the larger counts, and a rule that is gone counts no more
    node.feed(ev.UserLimitsSet({1: (30, "30 B")}, {1: (0.5, "50 %")}))
    small.allocate(1, [10])
    large.allocate(0, [1])
    node.settle()
    assert len(small.refusals) == 1
    assert "50 %" in large.refusals[0].text
    node.feed(ev.UserLimitsSet({}))
    large.allocate(0, [40])
    node.settle()
    assert len(large.refusals) == 1


def test_shares_are_compared_with_a_part_of_the_gpu_that_they_are_on() -> None:
    may = alice(memory=part(0.5))
    assert refuse(may, Share(memory_bytes=5, memory_limit_bytes=5), [], 10) is None
    for share, others in (
        (Share(memory_limit_bytes=6), []),
        (Share(memory_bytes=3), [Share(memory_bytes=3)]),
    ):
        refusal = refuse(may, share, others, 10)
        assert refusal is not None
        assert "alice may have" in refusal[0]
        assert refuse(may, share, others) is None, "how large the GPU is is unknown"


def test_a_share_has_no_larger_part_than_its_user_may_have() -> None:
    may = alice(memory=part(0.5))
    found = within(may, Share(memory_bytes=8), capacity=10)
    assert found == Share(memory_bytes=5, memory_limit_part=0.5)
    assert found.limit_bytes(4) == 2
    assert within(may, Share(memory_limit_part=0.3)).memory_limit_part == 0.3
    assert within(may, Share(memory_limit_part=0.8)).memory_limit_part == 0.5
    beyond = alice(memory=part(1.5))
    assert within(beyond, Share()).memory_limit_part == 1.0
    assert within(beyond, Share(mode=Mode.MANAGED)).memory_limit_part == 1.5


def test_members_of_groups_have_the_largest_amount_and_the_largest_part() -> None:
    groups = [rules(1, memory=size(4)), rules(2, memory=part(0.2)), rules(3, memory=part(0.5))]
    found = entitle("alice", {}, groups, {})
    assert found.memory == Rule(AllocationLimit(4, 0.5), "/etc/f:1, /etc/f:3")
    assert entitle("alice", {}, groups[1:], {}).memory == groups[2]["memory"]
    for capacity, most in ((6, 4), (10, 5)):
        assert within(found, Share(), capacity=capacity).memory_limit_bytes == most
        assert refuse(found, Share(memory_bytes=most), [], capacity) is None
        assert refuse(found, Share(memory_bytes=most + 1), [], capacity) is not None
