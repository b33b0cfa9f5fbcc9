"""A recording in the trace event format, which Perfetto and Chrome's viewer read.

Each GPU is a process, and each tenant a thread in it, named by program and process id. Spans are
complete events (`X`), with `idle` where a program wanted nothing. Refusals, and tenants' begins and
ends, are instant events (`i`); resident bytes are counters (`C`). Times are microseconds from the
beginning of the recording.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from moiety.agent.control.rows import Span
from moiety.trace.recording import Recording

Event = dict[str, Any]


def trace(recording: Recording, wall_s: float) -> dict[str, Any]:
    """The whole document; `wall_s` is the time of day at which the recording ended."""
    zero_s = min([s.begin_s for s in recording.all_spans], default=recording.end_s)
    zero_s = min([zero_s, *(sample.at_s for sample in recording.samples)])
    timed = [*_complete(recording, zero_s), *_instants(recording, zero_s)]
    timed += _counters(recording, zero_s)
    timed.sort(key=lambda event: (event["ts"], -event.get("dur", 0.0)))
    return {
        "traceEvents": _names(recording) + timed,
        "displayTimeUnit": "ms",
        "otherData": {
            "began_unix_s": round(wall_s - (recording.end_s - zero_s), 6),
            "agents": recording.agents,
            "spans_lost": recording.lost,
        },
    }


def _names(recording: Recording) -> list[Event]:
    """The events that name processes and threads."""
    events: list[Event] = []
    for gpu in recording.gpus.values():
        name = {"name": f"GPU {gpu.gpu}: {gpu.name}"}
        events.append({"ph": "M", "name": "process_name", "pid": gpu.gpu + 1, "args": name})
        order = {"sort_index": gpu.gpu}
        events.append({"ph": "M", "name": "process_sort_index", "pid": gpu.gpu + 1, "args": order})
    tracks = {
        (span.gpu + 1, _thread(recording, span.tenant)): recording.label(span.tenant)
        for span in recording.all_spans
    }
    for (process, thread), label in tracks.items():
        where = {"pid": process, "tid": thread, "args": {"name": label}}
        events.append({"ph": "M", "name": "thread_name", **where})
    return events


def _thread(recording: Recording, tenant: int) -> int:
    """A tenant's thread: its process id, so that it keeps its track when the agent restarts."""
    found = recording.tenants.get(tenant)
    return found.pid if found else tenant


def _us(seconds: float, zero_s: float) -> float:
    return round((seconds - zero_s) * 1e6, 3)


def _complete(recording: Recording, zero_s: float) -> Iterable[Event]:
    tracks: dict[tuple[int, int], list[Span]] = defaultdict(list)
    for span in recording.all_spans + gaps(recording):
        if span.end_s > span.begin_s:
            tracks[span.gpu + 1, _thread(recording, span.tenant)].append(span)
    for (process, thread), spans in tracks.items():
        for span, begin_s, end_s in nested(spans):
            args = {"bytes": span.bytes} if span.bytes else {}
            begin_us = _us(begin_s, zero_s)
            length_us = round(_us(end_s, zero_s) - begin_us, 3)
            if length_us <= 0:
                continue  # below the resolution of viewers
            yield {
                "ph": "X",
                "name": span.kind,
                "cat": "gpu",
                "pid": process,
                "tid": thread,
                "ts": begin_us,
                "dur": length_us,
                "args": args | ({"detail": span.detail} if span.detail else {}),
            }


def gaps(recording: Recording) -> list[Span]:
    """The idle times of tenants: on a GPU without holding it, waiting for it, or moving bytes.

    They begin after a tenant's first span there, and end when it left or the recording ended.
    """
    known: dict[tuple[int, int], list[Span]] = defaultdict(list)
    for span in recording.all_spans:
        known[_thread(recording, span.tenant), span.gpu].append(span)
    found = []
    for (_, gpu), spans in known.items():
        tenant = spans[0].tenant
        spans.sort(key=lambda s: s.begin_s)
        until_s = spans[0].begin_s
        is_there = True
        for span in spans:
            if is_there and span.begin_s > until_s:
                found.append(Span("idle", tenant, gpu, until_s, span.begin_s))
            is_there = span.kind != "left"
            until_s = max(until_s, span.end_s)
        if is_there and recording.end_s > until_s:
            found.append(Span("idle", tenant, gpu, until_s, recording.end_s))
    return found


def nested(spans: Iterable[Span]) -> Iterable[tuple[Span, float, float]]:
    """Spans of one track, cut so that no piece crosses the end of another, as viewers need.

    A program can be waiting for its turn before its last bytes have left: such a wait is cut in
    two where the eviction ends.
    """
    todo = sorted(((s.begin_s, -s.end_s, n, s) for n, s in enumerate(spans)), reverse=True)
    inside: list[float] = []
    while todo:
        begin_s, negative_end_s, number, span = todo.pop()
        end_s = -negative_end_s
        while inside and inside[-1] <= begin_s:
            inside.pop()
        if inside and end_s > inside[-1]:
            todo.append((inside[-1], negative_end_s, number, span))
            todo.sort(reverse=True)
            end_s = inside[-1]
        inside.append(end_s)
        yield span, begin_s, end_s


def _instants(recording: Recording, zero_s: float) -> Iterable[Event]:
    for span in recording.spans:
        if span.end_s == span.begin_s:
            yield {
                "ph": "i",
                "s": "t",
                "name": span.kind,
                "cat": "gpu",
                "pid": span.gpu + 1,
                "tid": _thread(recording, span.tenant),
                "ts": _us(span.begin_s, zero_s),
                "args": {"detail": span.detail} if span.detail else {},
            }


def _counters(recording: Recording, zero_s: float) -> Iterable[Event]:
    """One counter for each tenant, and one for all tenants; each with one value at a time."""
    there: dict[int, dict[int, int]] = defaultdict(dict)
    found: dict[tuple[int, str, float], Event] = {}
    for sample in recording.samples:
        on = there[sample.gpu]
        if on.get(sample.tenant) == sample.resident_bytes:
            continue
        on[sample.tenant] = sample.resident_bytes
        process, at_us = sample.gpu + 1, _us(sample.at_s, zero_s)
        label = recording.label(sample.tenant)
        for name, amount in (
            (f"resident: {label}", sample.resident_bytes),
            ("resident", sum(on.values())),
        ):
            at = {"ph": "C", "pid": process, "ts": at_us, "name": name}
            found[process, name, at_us] = at | {"args": {"bytes": amount}}
    return found.values()
