"""A gang gives the GPU back as one: its members drain together, and wait for each other."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, OverduePolicy, Settings
from tests.support.gangs import node, open_of, pass_turns, reason, start, touch
from tests.support.simulated_node import handle


@pytest.mark.parametrize("calls", [1, 7])
def test_members_are_let_through_until_all_have_caught_up(calls: int) -> None:
    n = node()
    a, b = start(n, "g", {0: [4]}, {0: [4]})
    c = n.start({0: [8]})
    n.tick(0.2)
    a.launched += calls  # just before its gate was closed
    n.settle()
    n.tick(0.01)
    n.settle()
    steps = [told for told in n.told if isinstance(told, do.AllowOne)]
    assert [step.tenant for step in steps] == [b.number] * calls
    assert a.launched == b.launched
    n.settle()
    assert open_of(a, b, c) == [False, False, True]


def test_nothing_of_a_gang_leaves_before_all_have_drained() -> None:
    n = node()
    a, b = start(n, "g", {0: [4]}, {0: [4]})
    c = n.start({0: [8]})
    b.hung = True
    pass_turns(n)
    touch(n, c)
    pass_turns(n)
    assert not [told for told in n.told if isinstance(told, do.Evict) and told.tenant == a.number]
    b.hung = False
    n.settle()
    assert c.is_open


def test_a_gang_that_cannot_be_drained_is_given_back_as_one_and_named() -> None:
    n = node()
    a, b = start(n, "g", {0: [4]}, {0: [4]})
    touch(n, a, b)
    c = n.start({0: [8]})
    d = n.start({0: [1]})
    a.depends = 1 << 40
    a.touch()
    b.launched = a.launched
    for _ in range(400):
        b.touch()
        pass_turns(n, 0.05)
        assert a.is_open == b.is_open
    granted = [told for told in n.told if isinstance(told, do.Grant) and told.tenant == b.number]
    assert len(granted) >= n.settings.reopen_most
    assert {n.view(a).state, n.view(b).state} <= {"undrainable", "draining"}
    touch(n, c, d)
    assert "cannot be drained" in reason(n, c)
    a.depends = 0
    for _ in range(10):
        pass_turns(n, 70.0)
    assert n.view(c).turns == 1


@pytest.mark.parametrize("turn_s", [0.1, 3.0])
def test_a_member_whose_work_waits_for_a_new_one_keeps_it_company(turn_s: float) -> None:
    """`a` cannot be drained before `b` runs, and `b` fits only once another program made way."""
    n = node(turn_min_s=turn_s)
    c = n.start({0: [4]})
    (a,) = start(n, "g", {0: [4]}, size=1)
    b = n.start({0: [4]})
    n.band(b, "g")
    a.launched += 1  # before it heard of its revoke; it ends once `b` has begun the same
    assert a.is_running
    for _ in range(100):
        touch(n, c, b)
        pass_turns(n)
    assert b.launched == a.launched
    for tenant in (a, b, c):
        turns = n.view(tenant).turns
        assert turns > 2, "they take turns as ever"


def test_a_stopped_member_keeps_its_gang_where_it_is_and_is_named() -> None:
    n = node()
    a, b = start(n, "g", {0: [4]}, {0: [4]})
    c = n.start({0: [8]})
    b.stopped = True
    pass_turns(n, 1.0)
    touch(n, c)
    pass_turns(n, 1.0)
    assert n.view(b).state == "stopped"
    assert a.resident_bytes(0) == 4
    assert f"tenant {b.number}, which is stopped" in reason(n, c)
    b.stopped = False
    n.tick(1.0)
    n.settle()
    assert c.is_open


def test_a_fenced_member_lets_its_gang_go() -> None:
    n = node(overdue=OverduePolicy.FENCE, revoke_deadline_s=1.0)
    a, b = start(n, "g", {0: [4]}, {0: [4]})
    c = n.start({0: [6]})
    b.hung = True
    pass_turns(n, 3.0)
    touch(n, c)
    pass_turns(n, 3.0)
    assert n.view(b).state == "fenced"
    assert c.is_open
    a.touch()
    n.settle()
    assert "of its gang, does not give the GPU back and is fenced" in reason(n, a)


def test_what_a_member_was_admitted_counts_when_its_drain_is_given_back() -> None:
    n = node()
    a, b = start(n, "g", {0: [2]}, {0: [2]})
    b.depends = 1 << 40
    a.allocate(0, [3])
    while n.view(a).gpus[0].resident_bytes < 5:
        n.hear(a)
    n.start({0: [8]})
    pass_turns(n)
    assert n.view(b).state == "draining"
    assert a.resident_bytes(0) == 2, "it has not used the rest when it is counted"
    while not a.is_open:
        b.touch()
        pass_turns(n, 0.05)
    a.touch()
    assert n.view(a).gpus[0].resident_bytes == a.resident_bytes(0) == 5


def test_calls_that_are_let_through_do_not_renew_the_deadline() -> None:
    """Two members that answer by turns, each just in time, have one deadline for the hand-off."""
    arbiter = Arbiter([GpuSpec(0, 120, 100)], Settings(1000, revoke_deadline_s=1.0))
    now_s = 0.0
    answers: dict[int, float] = {}
    """When each member answers next."""
    epochs: dict[int, int] = {}
    revoked_s = late_s = 0.0

    def tell(event: ev.Event) -> None:
        nonlocal revoked_s, late_s
        for told in handle(arbiter, now_s, event):
            if isinstance(told, do.Revoke):
                revoked_s, epochs[told.tenant] = now_s, told.epoch
                answers[told.tenant] = now_s + (0.001 if told.tenant == 1 else 0.45)
            elif isinstance(told, do.AllowOne):
                answers[told.tenant] = now_s + 0.9
            elif isinstance(told, do.Overdue):
                late_s = late_s or now_s

    for number in (1, 2, 3):
        tell(ev.Hello(number))
        if number < 3:
            tell(ev.GangJoined(number, "g", 2))
    for number in (1, 2, 3):
        tell(ev.Attach(number, 0, 1, 0, 100))
        tell(ev.AllocRequest(number, 0, 2, 30 if number < 3 else 60))
    while now_s < 4.0 and not late_s:
        now_s += 0.001
        for number in [n for n, due_s in answers.items() if due_s <= now_s]:
            del answers[number]
            tell(ev.LeaseRequest(number))
            tell(ev.Drained(number, epochs[number], 0, 30))
        if arbiter.deadline_s is not None and arbiter.deadline_s <= now_s:
            tell(ev.Tick())
    assert revoked_s
    assert late_s == pytest.approx(revoked_s + 1.0, abs=0.01)
