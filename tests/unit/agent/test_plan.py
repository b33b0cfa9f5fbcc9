"""The ledger of the arena: what is made, lent and given back, without any memory."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from moiety.agent.arena.plan import (
    HURRY_S,
    KEEP_S,
    Action,
    AskBack,
    Deny,
    Drop,
    Give,
    Make,
    NoAnswer,
    Segments,
    SegmentState,
)

SIZE = 10
ALL = 1 << 40


def ledger(limit: int = 1000, **needs: int) -> Segments:
    return Segments(SIZE, limit, needs={int(name[1:]): need for name, need in needs.items()})


def settle(segments: Segments, now_s: float = 0.0) -> list[Action]:
    """Plan and do what it says until nothing is left to do; all of it."""
    done: list[Action] = []
    while actions := segments.plan(now_s, may_make=True):
        for action in actions:
            if isinstance(action, Make):
                segments.made(action.number, well=True)
        done += actions
    return done


def test_nothing_is_made_while_nobody_needs_any() -> None:
    assert settle(ledger()) == []


def test_whoever_needs_memory_gets_it_ahead_and_one_is_spare() -> None:
    segments = ledger(t1=25)
    done = settle(segments)
    assert [a.tenant for a in done if isinstance(a, Give)] == [1, 1, 1]
    assert segments.held_bytes(1) == 30
    assert segments.made_bytes == 40


def test_only_two_are_made_at_one_time() -> None:
    segments = ledger(t1=100)
    assert [type(a) for a in segments.plan(0, may_make=True)] == [Make, Make]
    assert segments.plan(0, may_make=True) == []


def test_all_together_stay_within_the_limit() -> None:
    segments = ledger(35, t1=25, t2=25)
    settle(segments)
    assert segments.made_bytes == 30
    assert segments.held_bytes(1) + segments.held_bytes(2) == 30


def test_what_one_process_had_is_never_lent_to_another() -> None:
    segments = ledger(30, t1=25)
    settle(segments)
    had = set(segments.segments)
    segments.needs = {2: 25}
    segments.left(1)
    done = settle(segments)
    assert {a.number for a in done if isinstance(a, Drop)} == had
    given = {a.number for a in done if isinstance(a, Give)}
    assert len(given) == 3
    assert not given & had


def test_what_is_given_back_is_never_lent_again() -> None:
    segments = ledger(t1=25)
    settle(segments)
    back = next(s.number for s in segments.segments.values() if s.state is SegmentState.GIVEN)
    segments.returned(1, back)
    done = settle(segments)
    assert Drop(back) in done
    assert back not in {a.number for a in done if isinstance(a, Give)}


def test_segments_of_an_earlier_agent_count_until_they_are_unmapped() -> None:
    segments = ledger(30, t1=20)
    segments.adopted(1, 77, 20)
    settle(segments)
    assert segments.held_bytes(1) == 20  # as much as it needs, so it gets no more
    assert segments.made_bytes == 30  # and one spare
    segments.returned(1, 77)
    settle(segments)
    assert segments.foreign_bytes == 0
    assert segments.held_bytes(1) == 20


def test_who_waits_in_vain_is_told_so() -> None:
    segments = ledger(10, t1=10)
    settle(segments)
    segments.asked(1, 10, ALL)
    assert settle(segments) == [Deny(1)]


def test_who_waits_gets_what_others_have_empty() -> None:
    segments = ledger(20, t1=20)
    settle(segments)
    segments.asked(2, 10, ALL)
    assert settle(segments) == [AskBack(1, 10)]
    segments.returned(1, next(iter(segments.segments)))
    segments.gave_all(1)
    done = settle(segments)
    assert [a.tenant for a in done if isinstance(a, Give)] == [2]
    assert not any(isinstance(a, Deny) for a in done)


def test_a_tenant_that_has_nothing_empty_lets_the_other_go_on() -> None:
    segments = ledger(20, t1=20)
    settle(segments)
    segments.asked(2, 10, ALL)
    settle(segments)
    segments.gave_all(1)
    assert settle(segments) == [Deny(2)]


def test_who_does_not_answer_keeps_others_waiting_for_one_deadline() -> None:
    segments = ledger(20, t1=20)
    settle(segments)
    segments.asked(2, 10, ALL)
    assert settle(segments) == [AskBack(1, 10)]
    assert segments.due_s == segments.deadline_s
    assert settle(segments, segments.deadline_s - 0.1) == []
    assert settle(segments, segments.deadline_s) == [NoAnswer(1), Deny(2)]
    segments.asked(2, 10, ALL)
    assert settle(segments, 15) == [Deny(2)], "nobody waits for it again"
    segments.asked(1, 10, ALL)
    assert settle(segments, 15) == [Deny(1)], "it gets none before it has answered"
    assert settle(segments, 2 * segments.deadline_s) == [NoAnswer(1)]
    segments.gave_all(1)
    assert settle(segments, 90) == []
    segments.asked(2, 10, ALL)
    assert settle(segments, 91)[0] == AskBack(1, 10)


def test_who_gives_back_one_by_one_is_not_late() -> None:
    segments = ledger(30, t1=30)
    settle(segments)
    segments.asked(2, 30, ALL)
    settle(segments)
    for number, at_s in zip(list(segments.segments), (9, 18, 27), strict=True):
        assert not any(isinstance(a, NoAnswer) for a in settle(segments, at_s))
        segments.returned(1, number)
    segments.gave_all(1)
    assert not any(isinstance(a, NoAnswer) for a in settle(segments, 90))


def test_who_was_asked_is_asked_again_after_its_connection_broke() -> None:
    segments = ledger(20, t1=20)
    settle(segments)
    segments.asked(2, 10, ALL)
    settle(segments)
    segments.moved(1, 3)
    segments.left(1)
    segments.needs = {3: 20}
    assert settle(segments, 5) == [AskBack(3, 10)]
    assert settle(segments, 10) == [NoAnswer(3), Deny(2)]
    segments.moved(3, 4)
    segments.left(3)
    segments.asked(2, 10, ALL)
    assert settle(segments, 11) == [AskBack(4, 10), Deny(2)]


def test_who_gives_back_what_it_needs_is_left_alone_for_a_while() -> None:
    segments = ledger(30, t1=10)
    settle(segments)
    segments.returned(1, next(iter(segments.segments)))
    assert not any(isinstance(a, Give) for a in settle(segments))
    segments.asked(1, 10, ALL)
    assert settle(segments) == [Deny(1)]
    assert any(isinstance(a, Give) for a in settle(segments, KEEP_S + 1))


def test_one_that_cannot_be_made_is_forgotten() -> None:
    segments = ledger(t1=5)
    (first, _) = segments.plan(0, may_make=True)
    assert isinstance(first, Make)
    segments.made(first.number, well=False)
    assert first.number not in segments.segments
    segments.asked(1, 5, ALL)
    segments.made(first.number + 1, well=False)
    assert segments.plan(0, may_make=False) == [Deny(1)]


def test_what_was_not_needed_for_long_goes_back_to_the_system() -> None:
    segments = ledger(t1=25)
    settle(segments)
    segments.needs = {}
    assert settle(segments, 1.0) == []
    done = segments.plan(2.0 + KEEP_S, may_make=True)
    assert [type(a) for a in done] == [AskBack, Drop]
    for number in [s.number for s in segments.segments.values()]:
        segments.returned(1, number)
    settle(segments, 3.0 + KEEP_S)
    settle(segments, 4.0 + 2 * KEEP_S)
    assert segments.segments == {}


def test_where_the_host_is_short_it_goes_back_after_a_second() -> None:
    segments = ledger(t1=25)
    settle(segments)
    segments.needs = {1: 5}
    assert segments.plan(1.0, may_make=False, is_short=True) == []
    done = segments.plan(1.0 + HURRY_S, may_make=False, is_short=True)
    assert done == [AskBack(1, 20), Drop(4)], "and none is kept ready"


def test_a_tenant_waits_for_no_more_than_it_may_have() -> None:
    segments = ledger()
    segments.asked(1, 1 << 50, 25)
    settle(segments)
    assert segments.held_bytes(1) == 30
    segments.asked(1, 1, 25)
    assert settle(segments) == [Deny(1)], "it does not wait for an answer"
    assert segments.held_bytes(1) == 30


def test_a_process_that_connects_anew_keeps_all_that_it_was_given() -> None:
    segments = ledger(t1=25)
    settle(segments)
    had = {s.number for s in segments.segments.values() if s.tenant == 1}
    assert len(had) == 3
    segments.moved(1, 2)
    segments.left(1)
    segments.needs = {2: 25}
    for number in sorted(had)[:2]:
        segments.adopted(2, number, SIZE)
    assert settle(segments) == []
    assert {s.number for s in segments.segments.values() if s.tenant == 2} == had
    assert segments.held_bytes(2) == 30
    assert segments.foreign_bytes == 0
    segments.returned(2, min(had))
    assert [a.number for a in settle(segments) if isinstance(a, Drop)] == [min(had)]


def test_what_an_earlier_agent_lent_moves_with_its_process() -> None:
    segments = ledger()
    segments.adopted(1, 77, SIZE)
    segments.moved(1, 2)
    segments.left(1)
    segments.adopted(2, 77, SIZE)
    assert segments.held_bytes(2) == segments.foreign_bytes == SIZE


def test_what_did_not_arrive_is_given_to_the_next() -> None:
    segments = ledger(10, t1=10)
    (give,) = [a for a in settle(segments) if isinstance(a, Give)]
    segments.refused(give.number)
    segments.needs = {2: 10}
    assert segments.plan(0, may_make=True) == [Give(give.number, 2)]


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens in whatever order: within the limit, and never two tenants in one."""

    def __init__(self) -> None:
        super().__init__()
        self.segments = Segments(SIZE, 65)
        self.now_s = 0.0
        self.working: list[int] = []
        self.mapped: dict[int, int] = {}
        """by number: who has it mapped, as the tenants know it"""
        self.used: set[int] = set()
        """numbers that somebody had"""

    @rule(tenant=st.integers(1, 3), size=st.integers(0, 60))
    def need(self, tenant: int, size: int) -> None:
        self.segments.needs = {**self.segments.needs, tenant: size}

    @rule(tenant=st.integers(1, 3), size=st.integers(0, 30))
    def ask(self, tenant: int, size: int) -> None:
        self.segments.asked(tenant, size, ALL)

    @rule(passed_s=st.sampled_from([0.0, 1.0, KEEP_S + 1]), may_make=st.booleans())
    def plan(self, passed_s: float, may_make: bool) -> None:
        self.now_s += passed_s
        for action in self.segments.plan(self.now_s, may_make=may_make):
            match action:
                case Make(number):
                    assert number not in self.used
                    self.working.append(number)
                case Give(number, tenant):
                    assert number not in self.used
                    self.mapped[number] = tenant
                    self.used.add(number)
                case Drop(number):
                    assert number not in self.mapped
                case AskBack(tenant):
                    self.segments.gave_all(tenant)

    @precondition(lambda self: self.working)
    @rule(well=st.booleans())
    def work_ends(self, well: bool) -> None:
        number = self.working.pop(0)
        self.segments.made(number, well=well)

    @precondition(lambda self: self.mapped)
    @rule()
    def give_back(self) -> None:
        number, tenant = self.mapped.popitem()
        self.segments.returned(tenant, number)

    @rule(tenant=st.integers(1, 3), now=st.integers(1, 3))
    def connect_anew(self, tenant: int, now: int) -> None:
        if tenant == now:
            return
        self.leave(now)
        self.segments.moved(tenant, now)
        self.segments.left(tenant)
        self.mapped = {n: now if t == tenant else t for n, t in self.mapped.items()}
        for number in [n for n, t in self.mapped.items() if t == now]:
            self.segments.adopted(now, number, SIZE)
        needs = {t: n for t, n in self.segments.needs.items() if t not in (tenant, now)}
        if tenant in self.segments.needs:
            needs[now] = self.segments.needs[tenant]
        self.segments.needs = needs

    @rule(tenant=st.integers(1, 3))
    def leave(self, tenant: int) -> None:
        self.mapped = {n: t for n, t in self.mapped.items() if t != tenant}
        self.segments.left(tenant)
        self.segments.needs = {t: n for t, n in self.segments.needs.items() if t != tenant}

    @invariant()
    def within_the_limit(self) -> None:
        assert self.segments.made_bytes <= 65
        assert len(self.segments.segments) * SIZE <= 65


TestAnyOrder = AnyOrder.TestCase
