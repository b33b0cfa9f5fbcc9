"""The trace is what viewers read: every event well-formed, in order, and nested."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.agent.control.rows import GpuName, Sample, Span, TenantName
from moiety.trace.perfetto import gaps, nested, trace
from moiety.trace.recording import Recording
from tests.support.chrome_trace import check, load


def recording(*spans: Span, samples: tuple[Sample, ...] = (), end_s: float = 10.0) -> Recording:
    return Recording(
        begin_s=0.0,
        end_s=end_s,
        gpus={0: GpuName(0, "Paper GPU", 100), 1: GpuName(1, "Paper GPU", 100)},
        tenants={1: TenantName(1, 4711, "train", "w"), 2: TenantName(2, 4712, "serve", "w")},
        spans=list(spans),
        samples=list(samples),
        agents=1,
    )


def events(made: Recording, phase: str) -> list[dict[str, Any]]:
    document = json.loads(json.dumps(trace(made, wall_s=1e9)))
    return [event for event in document["traceEvents"] if event["ph"] == phase]


def test_a_span_is_a_complete_event_in_microseconds() -> None:
    made = recording(Span("joined", 1, 1, 2.0, 2.0), Span("evicting", 1, 1, 3.0, 3.5, 64))
    (event,) = [e for e in events(made, "X") if e["name"] != "idle"]
    assert event == {
        "ph": "X",
        "name": "evicting",
        "cat": "gpu",
        "pid": 2,
        "tid": 4711,
        "ts": 1e6,
        "dur": 5e5,
        "args": {"bytes": 64},
    }


def test_gpus_are_processes_and_tenants_are_threads() -> None:
    names = events(recording(Span("held", 2, 0, 1, 2)), "M")
    named = {(e["name"], e["pid"], e.get("tid")): e["args"].get("name") for e in names}
    assert named["process_name", 1, None] == "GPU 0: Paper GPU"
    assert named["process_name", 2, None] == "GPU 1: Paper GPU"
    assert named["thread_name", 1, 4712] == "serve (pid 4712)"


def test_a_refusal_is_an_instant_with_its_sentence() -> None:
    (event,) = events(recording(Span("refused", 1, 0, 2, 2, 0, "too much")), "i")
    assert (event["name"], event["s"], event["args"]) == ("refused", "t", {"detail": "too much"})


def test_resident_bytes_are_counted_for_each_and_for_all() -> None:
    samples = (Sample(1, 1, 0, 5), Sample(2, 2, 0, 7), Sample(3, 2, 0, 7), Sample(4, 1, 0, 0))
    counted = [
        (e["ts"], e["name"], e["args"]["bytes"]) for e in events(recording(samples=samples), "C")
    ]
    assert counted == [
        (0.0, "resident: train (pid 4711)", 5),
        (0.0, "resident", 5),
        (1e6, "resident: serve (pid 4712)", 7),
        (1e6, "resident", 12),
        (3e6, "resident: train (pid 4711)", 0),
        (3e6, "resident", 7),
    ]


def test_a_wait_that_begins_in_an_eviction_is_cut_where_that_ends() -> None:
    evicting, waiting = Span("evicting", 1, 0, 1, 3), Span("waiting", 1, 0, 2, 5)
    assert list(nested([waiting, evicting])) == [
        (evicting, 1, 3),
        (waiting, 2, 3),
        (waiting, 3, 5),
    ]


def test_an_empty_recording_is_a_trace() -> None:
    document = trace(recording(), wall_s=1e9)
    assert {event["ph"] for event in document["traceEvents"]} == {"M"}


times = st.integers(0, 20)
some_spans = st.lists(
    st.builds(
        lambda kind, tenant, gpu, begin, length: Span(kind, tenant, gpu, begin, begin + length),
        st.sampled_from(["held", "draining", "evicting", "waiting", "growing", "joined"]),
        st.integers(1, 3),
        st.integers(0, 1),
        times,
        st.integers(0, 6),
    ),
    max_size=12,
)


@given(some_spans, st.lists(st.builds(Sample, times, st.integers(1, 3), st.just(0), times)))
def test_whatever_happened_a_viewer_can_read_it(spans: list[Span], samples: list[Sample]) -> None:
    samples.sort(key=lambda s: s.at_s)
    document = load(json.dumps(trace(recording(*spans, samples=tuple(samples), end_s=30), 1e9)))
    found = [event for event in check(document) if event["ph"] == "X"]
    length = sum(event["dur"] for event in found if event["name"] != "idle")
    assert round(length) == sum(s.end_s - s.begin_s for s in spans) * 1e6


def test_who_wants_nothing_is_idle_until_it_leaves() -> None:
    made = recording(
        Span("joined", 1, 0, 1, 1),
        Span("held", 1, 0, 2, 4),
        Span("evicting", 1, 0, 4, 5),
        Span("left", 1, 0, 8, 8),
        Span("joined", 2, 0, 9, 9),
    )
    found = [(s.tenant, s.begin_s, s.end_s) for s in gaps(made)]
    assert found == [(1, 1, 2), (1, 5, 8), (2, 9, 10)]


BROKEN: list[dict[str, Any]] = [
    {"ts": -1.0},
    {"ts": float("inf")},
    {"ts": 0.0005},
    {"dur": 0},
    {"dur": None},
    {"ph": "B"},
    {"pid": "GPU 0"},
    {"tid": 0},
    {"tid": 1 << 32},
    {"tid": 4713},
    {"name": ""},
    {"args": []},
    {"tts": 1},
]


@pytest.mark.parametrize("broken", BROKEN)
def test_the_check_finds_what_viewers_would_drop(broken: dict[str, Any]) -> None:
    document = trace(recording(Span("held", 1, 0, 2, 4), Span("waiting", 1, 0, 3, 4)), 1e9)
    check(document)
    index = next(i for i, e in enumerate(document["traceEvents"]) if e["ph"] == "X")
    document["traceEvents"][index] |= broken
    with pytest.raises((AssertionError, KeyError)):
        check(document)


def test_the_check_finds_slices_that_cross_and_counters_that_contradict_each_other() -> None:
    document = trace(recording(Span("held", 1, 0, 2, 4), Span("held", 1, 0, 4, 6)), 1e9)
    slices = [e for e in document["traceEvents"] if e["ph"] == "X"]
    slices[0]["dur"] += 1
    with pytest.raises(AssertionError, match="crosses"):
        check(document)
    document = trace(recording(samples=(Sample(1, 1, 0, 5),)), 1e9)
    document["traceEvents"].append(document["traceEvents"][-1])
    with pytest.raises(AssertionError, match="resident"):
        check(document)
    with pytest.raises(AssertionError, match="no JSON"):
        load('{"traceEvents": [NaN]}')
