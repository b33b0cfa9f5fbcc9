"""What the agent remembers: exact spans for a scripted hand-off, and no more than fits."""

from __future__ import annotations

import gc
import tracemalloc

from moiety.agent.core.ring_buffer import SpanRecord
from moiety.agent.core.timeline import (
    AGE_MAX_S,
    SAMPLES_MAX,
    SPANS_MAX,
    TENANTS_MAX,
    Timeline,
)
from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.arbiter.states import State


class Told:
    """An arbiter and a timeline that is told what the agent tells it."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.arbiter = Arbiter(
            [GpuSpec(0, 120, 100)],
            Settings(arena_bytes=1000, turn_min_s=1.0, turn_factor=0.0),
        )

    def at(self, now_s: float, *events: ev.Event) -> None:
        for event in events:
            self.timeline.now_s = now_s
            for told in self.arbiter.handle(now_s, event):
                if isinstance(told, do.StateChanged):
                    self.timeline.ended(told)
                elif isinstance(told, do.Evict):
                    self.timeline.evicting(told.tenant, told.gpu)
                elif isinstance(told, do.RestoreBudget):
                    self.timeline.restoring(told.tenant, told.gpu, told.bytes)
            match event:
                case ev.Attach():
                    self.timeline.joined(event.tenant, event.gpu)
                case ev.Evicted():
                    moved = (event.bytes, event.last, event.failed)
                    self.timeline.evicted(event.tenant, event.gpu, *moved)
                case ev.Detach():
                    self.timeline.left(event.tenant, event.gpu)
            self.timeline.catch_up()

    def stays(self) -> list[SpanRecord]:
        return [span for span in self.timeline.spans if span[4] > span[3]]


def two_that_do_not_fit() -> Told:
    """Tenant 1 holds from 0 s; tenant 2 wants its 60 bytes from 2 s on, and it is 2 s now."""
    told = Told()
    for tenant in (1, 2):
        told.at(0.0, ev.Hello(tenant), ev.Attach(tenant, 0, 1, 5, 100))
    told.at(0.0, ev.AllocRequest(1, 0, 2, 60))
    told.at(2.0, ev.AllocRequest(2, 0, 2, 60))
    return told


def test_a_hand_off_is_written_down_stay_by_stay() -> None:
    told = two_that_do_not_fit()
    told.at(3.0, ev.Resident(1, 0, 60), ev.Drained(1, 1))
    told.at(5.0, ev.Evicted(1, 0, 20, 20, last=True))
    assert told.stays() == [
        ("held", 1, 0, 0.0, 2.0, 0, ""),
        ("draining", 1, 0, 2.0, 3.0, 0, ""),
        ("waiting", 2, 0, 2.0, 5.0, 0, "room is being made for it"),
        ("evicting", 1, 0, 3.0, 5.0, 20, ""),
    ]


def test_restoring_begins_where_there_is_room() -> None:
    told = two_that_do_not_fit()
    told.at(3.0, ev.Resident(1, 0, 60), ev.Drained(1, 1), ev.LeaseRequest(1))
    told.at(5.0, ev.Evicted(1, 0, 20, 40, last=True))
    told.at(7.0, ev.Resident(2, 0, 60), ev.Tick())
    told.at(8.0, ev.Resident(2, 0, 60), ev.Drained(2, 1))
    told.at(9.0, ev.Evicted(2, 0, 20, 40, last=True))
    told.at(10.0, ev.Restored(1))
    assert ("restoring", 1, 0, 9.0, 10.0, 20, "") in told.stays()


def test_what_was_not_work_was_messages() -> None:
    told = two_that_do_not_fit()
    told.timeline.worked(1, lambda: (750_000_000, 0, 0))
    told.at(3.0, ev.Resident(1, 0, 60), ev.Drained(1, 1))
    told.timeline.worked(1, lambda: (750_000_000, 1_500_000_000, 0))
    told.at(5.0, ev.Evicted(1, 0, 20, 20, last=True))
    assert [span[:6] for span in told.stays() if span[1] == 1] == [
        ("held", 1, 0, 0.0, 2.0, 0),
        ("telling", 1, 0, 2.0, 2.25, 0),
        ("draining", 1, 0, 2.25, 3.0, 0),
        ("telling", 1, 0, 3.0, 3.5, 0),
        ("evicting", 1, 0, 3.5, 5.0, 20),
    ]


def test_what_was_counted_under_an_agent_before_this_one_divides_nothing() -> None:
    told = two_that_do_not_fit()
    told.timeline.worked(1, lambda: (10**12, 10**12, 10**12))
    told.at(3.0, ev.Resident(1, 0, 60), ev.Drained(1, 1))
    assert ("draining", 1, 0, 2.0, 3.0, 0, "") in told.stays()


def test_a_holder_that_waits_for_more_is_told_apart() -> None:
    told = two_that_do_not_fit()
    told.timeline.now_s = 1.0
    told.timeline.growing(1, 0)
    told.timeline.now_s = 1.5
    (open_span,) = told.timeline.waiting_for_more()
    assert open_span[:5] == ("growing", 1, 0, 1.0, 1.5)
    told.timeline.grown(1, 0)
    told.timeline.grown(1, 0)
    told.timeline.growing(1, 0)
    told.timeline.left(1, 0)  # at the same moment
    assert [span[3:5] for span in told.timeline.spans if span[0] == "growing"] == [(1.0, 1.5)]


def test_a_context_that_goes_ends_what_it_did() -> None:
    told = two_that_do_not_fit()
    told.at(3.0, ev.Resident(1, 0, 60), ev.Drained(1, 1))
    told.at(4.0, ev.Detach(1, 0))
    assert ("evicting", 1, 0, 3.0, 4.0, 0, "it left") in told.stays()
    assert [span[0] for span in told.timeline.spans][-1] == "left"
    assert told.timeline.samples[-1] == (4.0, 1, 0, 0)


def test_what_goes_on_is_known_up_to_now() -> None:
    told = two_that_do_not_fit()
    told.timeline.now_s = 2.5
    assert told.timeline.stay(1, 0, State.DRAINING, 2.0) == [("draining", 1, 0, 2.0, 2.5, 0, "")]
    assert told.timeline.stay(1, 0, State.IDLE, 2.0) == []
    assert told.timeline.stay(7, 0, State.HOLDING, 2.0) == []


def test_nothing_is_held_before_there_is_a_context() -> None:
    kept = Timeline()
    kept.now_s = 5.0
    kept.joined(1, 0)
    kept.now_s = 8.0
    assert kept.stay(1, 0, State.HOLDING, 1.0) == [("held", 1, 0, 5.0, 8.0, 0, "")]


def test_all_of_its_memory_is_there_from_the_start() -> None:
    gc.collect()
    tracemalloc.start()
    try:
        kept = Timeline()
        empty, _ = tracemalloc.get_traced_memory()
        for number in range(2 * SPANS_MAX):
            kept.now_s = 1e5 + number / 1000
            kept.evicting(number, 0)
            kept.evicted(number, 0, 1 << 40, True, False)
            kept.sample(number, 0, number << 30)
        full, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(kept.spans) == SPANS_MAX
    assert kept.spans.seen == 2 * SPANS_MAX
    assert len(kept.samples) == SAMPLES_MAX
    assert empty < 2.1 * (1 << 20)
    assert full - empty < 4096, "but for the numbers of those who are there"


def test_it_is_bounded_by_age() -> None:
    kept = Timeline()
    kept.joined(1, 0)
    kept.now_s = AGE_MAX_S + 1
    kept.joined(2, 0)
    assert [span[1] for span in kept.spans] == [2]
    assert kept.first_span(0.0) == 1


def test_names_outlive_their_processes_for_a_while() -> None:
    kept = Timeline()
    for number in range(5000):
        kept.name(number, number, "program", "w")
        kept.forget(number)
    assert len(kept.names) == TENANTS_MAX
    assert kept.names[4999] == (4999, "program", "w")


def test_a_page_begins_where_it_was_asked_to() -> None:
    kept = Timeline()
    for second in range(10):
        kept.now_s = float(second)
        kept.joined(second, 0)
        kept.sample(second, 0, 1)
    assert kept.first_span(4.0) == 5
    assert kept.first_sample(-1.0) == 0
    assert kept.first_sample(9.0) == 10
