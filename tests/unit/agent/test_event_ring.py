"""The events in memory: bounded, in order, and each user's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moiety.agent.core.event_ring import EventRing
from moiety.agent.core.journal_events import Event


def event(number: int, uid: int | None = None) -> Event:
    return Event(number, 0.0, "normal", "Joined", "", uid=uid)


def numbers(events: list[Event]) -> list[int]:
    return [each.number for each in events]


def test_a_user_with_thousands_of_events_pushes_out_its_own() -> None:
    ring = EventRing([], 10)
    for number, uid in enumerate([1, 1, None, 2]):
        ring.append(event(number, uid))
    for number in range(100, 8100):
        ring.append(event(number, 3))
    assert len(ring) == 10
    assert numbers(list(ring)) == [0, 1, 2, 3, *range(8094, 8100)]


def test_users_have_like_parts() -> None:
    ring = EventRing([], 10)
    for number in range(1000):
        ring.append(event(number, number % 5 if number > 500 else 7))
    users = [each.uid for each in ring]
    assert all(1 <= users.count(uid) <= 3 for uid in range(5))


def test_pages_follow_each_other_over_gaps() -> None:
    ring = EventRing([event(number) for number in (1, 4, 5, 9)], 10)
    assert numbers(ring.after(0, 2)) == [1, 4]
    assert numbers(ring.after(4, 10)) == [5, 9]
    assert numbers(ring.after(2, 10)) == [4, 5, 9]
    assert ring.after(9, 10) == []


@given(st.lists(st.sampled_from([None, 0, 1, 2]), max_size=60), st.integers(1, 12))
def test_the_newest_is_there_and_no_more_than_was_said(users: list[int | None], most: int) -> None:
    ring = EventRing([], most)
    for number, uid in enumerate(users):
        ring.append(event(number, uid))
        assert len(ring) == min(most, number + 1)
        assert next(reversed(ring)).number == number
        kept = numbers(list(ring))
        assert kept == sorted(kept)
        assert sum(map(len, ring._by_user.values())) == len(ring)
