"""What a viewer demands of a trace in the trace event format, checked without mercy.

The rules are those of the format's description and of Perfetto's importer: what that one drops,
counts as an error or draws in the wrong place is an AssertionError here.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

NAMES = {
    "process_name": "name",
    "thread_name": "name",
    "process_labels": "labels",
    "process_sort_index": "sort_index",
    "thread_sort_index": "sort_index",
}
UINT32 = 1 << 32
FIELDS = {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args", "s"}


def load(text: str | bytes) -> dict[str, Any]:
    """The document; NaN, Infinity and names given twice are no JSON."""

    def constant(name: str) -> object:
        raise AssertionError(f"{name} is no JSON")

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = [key for key, count in Counter(key for key, _ in found).items() if count > 1]
        assert not twice, twice
        return dict(found)

    document = json.loads(text, parse_constant=constant, object_pairs_hook=pairs)
    assert isinstance(document, dict)
    return document


def check(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Raise AssertionError unless every viewer reads all of it; returns the events."""
    assert document.keys() <= {"traceEvents", "displayTimeUnit", "otherData", "metadata"}
    assert document.get("displayTimeUnit", "ms") in ("ms", "ns")
    assert isinstance(document.get("otherData", {}), dict)
    events = document["traceEvents"]
    assert isinstance(events, list)
    for event in events:
        _check_event(event)
    _check_names(events)
    _check_order(events)
    _check_nesting(events)
    _check_counters(events)
    return events


def nanoseconds(microseconds: float) -> int:
    """As the importer counts: a time that lies between two of them is a mistake of the writer."""
    exact = microseconds * 1000
    assert abs(exact - round(exact)) < 0.1, f"{microseconds} us is no whole number of ns"
    return round(exact)


def _check_event(event: Any) -> None:
    assert isinstance(event, dict), event
    assert event.keys() <= FIELDS, event.keys() - FIELDS
    assert event["ph"] in ("X", "i", "C", "M"), event
    assert isinstance(event["name"], str), event
    assert event["name"], event
    _check_number(event["pid"])
    assert isinstance(event.get("args", {}), dict), event
    if event["ph"] == "M":
        assert event["name"] in NAMES, event
        assert "ts" not in event, "a name holds for the whole trace"
        value = event["args"][NAMES[event["name"]]]
        assert isinstance(value, int if event["name"].endswith("index") else str), event
        assert event["name"].startswith("process") or "tid" in event, event
        return
    assert isinstance(event["ts"], int | float), event
    assert math.isfinite(event["ts"]), event
    assert nanoseconds(event["ts"]) >= 0, event
    if event["ph"] == "C":
        assert event["args"], "a counter without a value"
        for value in event["args"].values():
            assert isinstance(value, int | float), event
            assert math.isfinite(value), event
            assert value >= 0, event
        return
    _check_number(event["tid"])
    if event["ph"] == "i":
        assert event.get("s", "t") in ("g", "p", "t"), event
        assert "dur" not in event
        return
    assert isinstance(event["dur"], int | float), event
    assert math.isfinite(event["dur"]), event
    assert nanoseconds(event["dur"]) > 0, event


def _check_number(number: Any) -> None:
    """The importer keeps 32 bits; 0 is the idle task, which it does not show."""
    assert isinstance(number, int), number
    assert not isinstance(number, bool), number
    assert 0 < number < UINT32, number


def _check_names(events: list[dict[str, Any]]) -> None:
    """Every process and thread has one name."""
    processes = Counter(e["pid"] for e in events if e["name"] == "process_name")
    threads = Counter((e["pid"], e["tid"]) for e in events if e["name"] == "thread_name")
    assert set(processes.values()) <= {1}
    assert set(threads.values()) <= {1}
    assert {e["pid"] for e in events} <= processes.keys()
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] in "Xi"} <= threads.keys()


def _check_order(events: list[dict[str, Any]]) -> None:
    """Names first, then everything in order of time."""
    kinds = ["M" if e["ph"] == "M" else "" for e in events]
    assert kinds == sorted(kinds, reverse=True)
    times = [e["ts"] for e in events if e["ph"] != "M"]
    assert times == sorted(times)


def _check_nesting(events: list[dict[str, Any]]) -> None:
    """Of two slices of a thread, one is over before the other begins, or lies wholly inside."""
    open_until: dict[tuple[int, int], list[int]] = {}
    for event in events:
        if event["ph"] != "X":
            continue
        begin = nanoseconds(event["ts"])
        end = begin + nanoseconds(event["dur"])
        stack = open_until.setdefault((event["pid"], event["tid"]), [])
        while stack and stack[-1] <= begin:
            stack.pop()
        assert not stack or end <= stack[-1], f"{event} crosses the end of the one it began in"
        stack.append(end)


def _check_counters(events: list[dict[str, Any]]) -> None:
    """One value a counter and moment: of two, the importer draws any."""
    at = Counter(
        (e["pid"], e["name"], key, e["ts"]) for e in _counters(events) for key in e["args"]
    )
    twice = [key for key, count in at.items() if count > 1]
    assert not twice, twice[:3]


def _counters(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == "C"]
