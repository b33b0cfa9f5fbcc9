"""Where the time went: every second of it counted once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.agent.control.rows import GpuName, Span, TenantName
from moiety.trace.recording import Recording
from moiety.trace.summary import gpu_times, sentences, waits


def recording(*spans: Span, begin_s: float = 0.0, end_s: float = 10.0) -> Recording:
    return Recording(
        begin_s=begin_s,
        end_s=end_s,
        gpus={0: GpuName(0, "Paper GPU", 100)},
        tenants={1: TenantName(1, 4711, "train", "w"), 2: TenantName(2, 4712, "serve", "w")},
        spans=list(spans),
    )


HAND_OFF = (
    Span("held", 1, 0, 0, 4),
    Span("waiting", 2, 0, 2, 6),
    Span("draining", 1, 0, 4, 4.5),
    Span("evicting", 1, 0, 4.5, 5.5, 3 << 30),
    Span("restoring", 2, 0, 6, 7, 1 << 30),
    Span("held", 2, 0, 7, 9),
)


def test_a_hand_off_is_split_into_drain_move_and_messages() -> None:
    time = gpu_times(recording(*HAND_OFF))[0]
    assert (time.held_s, time.drain_s, time.move_s, time.messages_s, time.idle_s) == (
        6,
        0.5,
        2,
        0.5,
        1,
    )
    assert (time.out_bytes, time.in_bytes, time.moving_s) == (3 << 30, 1 << 30, 2)


def test_it_is_said_in_three_lines() -> None:
    assert sentences(recording(*HAND_OFF)) == [
        "GPU 0, 10 s: 60 % held, 30 % handed from one to the next "
        "(5 % drain, 20 % move, 5 % messages), 10 % idle",
        "waited most: serve (pid 4712), 4 s, of these 2.5 s while train (pid 4711) held",
        "moved: 3 GiB out, 1 GiB in, at 2 GiB/s while something was on its way",
    ]


def test_nothing_is_said_as_nothing() -> None:
    assert sentences(recording(begin_s=10.0)) == [
        "GPU 0: nothing has happened yet",
        "no program waited",
        "nothing was moved",
    ]


def test_messages_are_what_is_neither_work_nor_moving() -> None:
    told = (
        Span("held", 1, 0, 0, 4),
        Span("telling", 1, 0, 4, 4.25),
        Span("draining", 1, 0, 4.25, 4.5),
        Span("telling", 1, 0, 4.5, 4.6),
        Span("evicting", 1, 0, 4.6, 5.5, 1),
        Span("restoring", 2, 0, 5.0, 6.5, 1),
        Span("held", 2, 0, 6.5, 10),
    )
    time = gpu_times(recording(*told))[0]
    assert (time.drain_s, time.idle_s) == (0.25, 0)
    assert time.messages_s == pytest.approx(0.35)
    assert time.move_s == pytest.approx(1.9)


def test_a_holder_that_waits_for_more_memory_does_not_count_as_holding() -> None:
    grows = (
        Span("held", 1, 0, 0, 10),
        Span("growing", 1, 0, 2, 6),
        Span("held", 2, 0, 0, 3),
        Span("draining", 2, 0, 3, 4),
        Span("evicting", 2, 0, 4, 5, 1),
    )
    made = recording(*grows)
    time = gpu_times(made)[0]
    assert (time.held_s, time.drain_s, time.move_s, time.messages_s) == (7, 1, 1, 1)
    (wait,) = waits(made)
    assert (wait.tenant, wait.waited_s, wait.behind) == (1, 4, {2: 2})


def test_only_the_time_asked_for_counts() -> None:
    part = recording(*HAND_OFF, begin_s=3.0, end_s=6.5)
    time = gpu_times(part)[0]
    assert (time.held_s, time.total_s) == (1, 3.5)
    assert waits(part)[0].waited_s == 3
    assert waits(part)[0].behind == {1: 1.5}


spans = st.lists(
    st.builds(
        lambda kind, tenant, begin, length: Span(kind, tenant, 0, begin, begin + length),
        st.sampled_from(
            ["held", "draining", "evicting", "restoring", "waiting", "joined", "growing", "telling"]
        ),
        st.integers(1, 4),
        st.integers(0, 20),
        st.integers(0, 9),
    )
)


@given(spans, st.integers(0, 20))
def test_every_second_is_counted_once(some: list[Span], begin_s: int) -> None:
    made = recording(*some, begin_s=begin_s, end_s=30.0)
    time = gpu_times(made)[0]
    parts = (time.held_s, time.handing_off_s, time.idle_s)
    assert sum(parts) == pytest.approx(time.total_s)
    assert min(parts) >= 0
    for wait in waits(made):
        for other, both_s in wait.behind.items():
            assert other != wait.tenant
            assert both_s > 0
