"""Processes that hold together or not at all."""

from __future__ import annotations

from random import Random

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.model.share import Priority, Share
from tests.support.gangs import CAPACITY, node, open_of, pass_turns, reason, start, touch
from tests.support.simulated_node import SimulatedNode

# Taking turns as one


def test_all_of_a_gang_get_their_lease_in_one_step() -> None:
    n = node()
    other = n.start({0: [8]})
    a, b = start(n, "g", {0: [4]}, {0: [4]})
    assert open_of(a, b) == [False, False]
    told: list[do.Instruction] = []
    other.touch()
    while not told:
        n.tick(0.01)
        for tenant in (other, a, b):
            if tenant.has_work:
                tenant.work()
            elif tenant.sent and (heard := n.hear(tenant)) and not told:
                told = [i for i in heard if isinstance(i, do.Grant)]
    assert [grant.tenant for grant in told] == [a.number, b.number]


def test_one_wish_brings_all_and_one_revoke_takes_all() -> None:
    n = node()
    a, b = start(n, "g", {0: [4]}, {0: [4]})
    other = n.start({0: [8]})
    pass_turns(n)
    touch(n, other)
    assert open_of(a, b, other) == [False, False, True]
    touch(n, a)  # b wants nothing
    pass_turns(n)
    assert open_of(a, b, other) == [True, True, False]
    assert a.resident_bytes(0) == b.resident_bytes(0) == 4
    touch(n, other)
    pass_turns(n)
    assert open_of(a, b, other) == [False, False, True]


def test_a_gang_waits_for_those_it_must_not_hold_beside_on_each_of_its_gpus() -> None:
    n = node(2)
    a, b = start(n, "g", {0: [1]}, {1: [6]})
    other = n.start({1: [6]})
    n.feed(ev.ShareSet(other.number, Share(gpu=0.5)))
    pass_turns(n)
    touch(n, other)
    assert open_of(a, b, other) == [False, False, True], "it has a part of the time for itself"
    other.hung = True
    touch(n, a)
    assert open_of(a, b, other) == [False, False, True]
    n.tick(0.2)
    assert n.view(other).state == "draining", "its last work has not ended"
    n.settle()
    assert open_of(a, b) == [False, False]
    other.hung = False
    n.settle()
    assert open_of(a, b, other) == [True, True, False]


def test_a_gang_waits_for_a_latency_program_although_all_of_them_fit() -> None:
    n = node(2)
    a, b = start(n, "g", {0: [1]}, {1: [1]})
    other = n.start({1: [1]})
    n.feed(ev.ShareSet(other.number, Share(latency=True)))
    touch(n, other)
    touch(n, a)
    assert open_of(a, b, other) == [False, False, True]
    other.hung = True
    other.fall_idle()
    n.settle()
    assert n.view(other).state == "draining", "its last work has not ended"
    assert open_of(a, b) == [False, False]
    other.hung = False
    n.settle()
    assert open_of(a, b, other) == [True, True, False]


def test_a_revoke_takes_the_lease_of_each_member() -> None:
    n = node()
    members = start(n, "g", {0: [2]}, {0: [2]}, {0: [2]}, {0: [2]})
    n.told.clear()
    other = n.start({0: [8]})
    pass_turns(n)
    touch(n, other)
    revoked = [told.tenant for told in n.told if isinstance(told, do.Revoke)]
    assert revoked == [member.number for member in members]
    assert open_of(*members, other) == [False, False, False, False, True]


def test_a_gang_is_idle_only_when_all_are() -> None:
    n = node()
    a, b = start(n, "g", {0: [4]}, {0: [4]})
    other = n.start({0: [8]})
    n.tick(0.02)
    a.fall_idle()
    n.settle()
    n.tick(0.03)
    n.settle()
    assert open_of(a, b, other) == [True, True, False]
    b.fall_idle()
    n.settle()
    assert open_of(a, b, other) == [False, False, True]


def test_members_do_not_wait_for_each_other_whatever_they_are_promised() -> None:
    n = node()
    a, b = start(n, "g", {0: [4]}, {0: [4]})
    for member in (a, b):
        n.feed(ev.ShareSet(member.number, Share(gpu=0.25)))
    touch(n, a, b)
    assert open_of(a, b) == [True, True]
    other = n.start({0: [4]})
    assert open_of(a, b, other) == [True, True, False]
    pass_turns(n)
    assert open_of(a, b, other) == [False, False, True]


def test_a_gang_receives_as_much_as_one_process() -> None:
    n = node()
    other = n.start({0: [8]})
    a, b = start(n, "g", {0: [4]}, {0: [4]})
    for _ in range(400):
        touch(n, a, b, other)
        pass_turns(n, 0.05)
    received = [n.view(tenant).received_s for tenant in (a, b, other)]
    assert sum(received[:2]) == pytest.approx(received[2], rel=0.05)


def test_a_gang_is_as_urgent_as_its_most_urgent_member() -> None:
    n = node()
    a, b = start(n, "g", {0: [4]}, {0: [4]})
    other = n.start({0: [8]})
    pass_turns(n)
    touch(n, other)
    n.feed(ev.ShareSet(b.number, Share(priority=Priority.HIGH)))
    touch(n, a)
    assert open_of(a, b, other) == [True, True, False]


def test_a_gang_is_no_more_urgent_once_its_urgent_member_has_left() -> None:
    n = node()
    urgent, a, b = start(n, "g", {0: [2]}, {0: [2]}, {0: [2]})
    n.feed(ev.ShareSet(urgent.number, Share(priority=Priority.HIGH)))
    other = n.start({0: [8]})
    pass_turns(n)
    touch(n, other)
    assert not other.is_open, "the gang goes first"
    n.kill(urgent)
    n.settle()
    pass_turns(n)
    touch(n, other)
    assert open_of(a, b, other) == [False, False, True]


def test_who_waits_for_one_of_a_gang_has_all_of_it_watched() -> None:
    n = node(2)
    a, b = start(n, "g", {0: [4]}, {1: [6]})
    c = n.start({1: [6]})
    n.feed(ev.ShareSet(c.number, Share(gpu=0.5)))
    touch(n, a, b)
    c.touch()
    n.settle()
    assert not c.is_open
    assert f"tenants {a.number}, {b.number} hold the GPU" in reason(n, c)
    assert (a.watched, b.watched) == (True, True)


# Memory


def test_what_could_not_be_held_together_is_refused() -> None:
    n = node()
    _, b = start(n, "g", {0: [4]}, {0: [4]})
    b.allocate(0, [3])
    n.settle()
    (refused,) = b.refusals
    assert "beside what its gang g has there" in refused.text
    b.allocate(0, [2])
    n.settle()
    assert len(b.refusals) == 1


def test_processes_that_do_not_fit_together_cannot_be_a_gang() -> None:
    n = node()
    a, b = n.start({0: [6]}), n.start({0: [6]})
    why = n.arbiter.refuse_gang([a.number, b.number])
    assert "together they have 12 B of 10 B on GPU 0" in why
    assert not n.arbiter.refuse_gang([a.number])


def test_a_context_is_refused_that_a_gang_could_not_be_held_beside() -> None:
    n = SimulatedNode([GpuSpec(0, CAPACITY, CAPACITY)], Settings(arena_bytes=1000))
    start(n, "g", {0: [5]}, {0: [5]})
    late = n.join()
    late.attach(0, 1, CAPACITY)
    n.settle()
    assert "needs 10 B" in late.refusals[0].text


# Beginning and ending


def test_a_gang_begins_once_all_have_started_and_says_so() -> None:
    n = node()
    (a,) = start(n, "g", {0: [4]}, size=2)
    a.touch()
    n.settle()
    assert not a.is_open
    assert reason(n, a) == "its gang g waits for 1 of 2 members, that have not started"
    other = n.start({0: [8]})
    assert other.is_open, "nobody waits behind a gang that has not begun"
    b = n.join("g", 2)
    n.settle()
    pass_turns(n)
    assert open_of(a, b, other) == [True, True, False]
    touch(n, other)
    n.kill(b)
    pass_turns(n)
    touch(n, a)
    pass_turns(n)
    assert a.is_open, "what has begun goes on with those that are left"


def test_who_comes_later_joins_those_who_hold() -> None:
    n = node()
    a, b = start(n, "g", {0: [2]}, {0: [2]})
    c = n.join("g")
    n.settle()
    assert open_of(a, b, c) == [True, True, True]


def test_processes_that_become_a_gang_are_brought_together() -> None:
    n = node()
    a = n.start({0: [4]})
    other = n.start({0: [6]})
    b = n.start({0: [5]})
    pass_turns(n)
    touch(n, a, other)
    n.band(a, "g")
    n.band(b, "g")
    for _ in range(6):
        touch(n, a, b, other)
        pass_turns(n)
        assert a.is_open == b.is_open


def test_a_member_that_dies_in_a_drain_ends_it_for_the_others() -> None:
    n = node()
    a, b = start(n, "g", {0: [4]}, {0: [4]})
    other = n.start({0: [8]})
    b.hung = True
    pass_turns(n)
    touch(n, other)
    assert n.view(a).state == "draining", "it has answered, and waits for the other"
    n.kill(b)
    n.settle()
    assert open_of(a, other) == [False, True]


# Several GPUs


def test_a_member_is_told_for_whom_another_one_waits() -> None:
    n = node(2)
    other = n.start({0: [8]})
    a, b = start(n, "g", {0: [4]}, {1: [4]})
    other.depends = 1
    pass_turns(n)
    assert n.view(b).state == "restoring"
    assert reason(n, a) == reason(n, b) == f"tenant {other.number} is giving the GPU back"


def test_two_gangs_over_two_gpus_never_wait_for_each_other_for_ever() -> None:
    n = node(2)
    first = start(n, "f", {0: [7]}, {1: [7]})
    second = start(n, "s", {1: [7]}, {0: [7]})
    dice = Random(7)
    turns = {"f": 0, "s": 0}
    for _ in range(200):
        for tenant in dice.sample(first + second, 4):
            tenant.touch()
        pass_turns(n, dice.choice([0.001, 0.05, 0.2]))
        assert open_of(*first) in ([True, True], [False, False])
        assert open_of(*second) in ([True, True], [False, False])
        assert not (first[0].is_open and second[0].is_open)
        turns["f"] += first[0].is_open
        turns["s"] += second[0].is_open
    assert min(turns.values()) > 50


def test_a_gang_leaves_a_gpu_that_it_does_not_use_to_others() -> None:
    n = node(3)
    a, b = start(n, "g", {0: [7]}, {1: [7]})
    others = [n.start({gpu: [7]}) for gpu in range(3)]
    for _ in range(20):
        touch(n, a, b, *others)
        pass_turns(n)
        assert a.is_open == b.is_open
        assert others[2].is_open
        assert others[0].is_open or a.is_open


# Agents that end


def test_a_gang_that_has_begun_goes_on_with_the_next_agent_also_without_its_dead() -> None:
    n = node()
    a, b, c = start(n, "g", {0: [2]}, {0: [2]}, {0: [2]})
    other = n.start({0: [8]})
    n.kill(c)
    pass_turns(n)
    touch(n, other)
    assert open_of(a, b, other) == [False, False, True]
    n.restart()
    for tenant in (a, b, other):
        n.resume(tenant)
    n.feed(ev.Settled())
    n.settle()
    touch(n, a)
    pass_turns(n)
    assert open_of(a, b, other) == [True, True, False]


def test_a_gang_that_was_not_whole_still_waits_with_the_next_agent() -> None:
    n = node()
    (a,) = start(n, "g", {0: [4]}, size=2)
    n.restart()
    n.resume(a)
    n.feed(ev.Settled())
    touch(n, a)
    assert not a.is_open
    assert "waits for 1 of 2 members" in reason(n, a)
    b = n.join("g", 2)
    n.settle()
    assert open_of(a, b) == [True, True]
