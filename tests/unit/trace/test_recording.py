"""Pages become a recording, whatever happens to the agent between two of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moiety.agent.control.protocol import Recorded, TimelineRequest
from moiety.agent.control.rows import GpuName, Sample, Span, TenantName
from moiety.model.errors import NoAgent
from moiety.trace.recording import STRIDE, Recording

GPUS = [GpuName(0, "Paper GPU", 100)]


def page(
    spans: list[Span],
    *,
    pid: int = 1,
    now_s: float = 10.0,
    going_on: tuple[Span, ...] = (),
    more: bool = False,
    lost: int = 0,
) -> Recorded:
    return Recorded(
        pid=pid,
        now_s=now_s,
        gpus=GPUS,
        tenants=[TenantName(1, 4711, "train", "w")],
        spans=spans,
        samples=[Sample(now_s, 1, 0, 5)],
        open=list(going_on),
        spans_next=7,
        samples_next=9,
        lost=lost,
        more=more,
    )


def held(begin_s: float, end_s: float) -> Span:
    return Span("held", 1, 0, begin_s, end_s)


def playing(
    *pages: Recorded | Exception,
) -> tuple[Callable[[TimelineRequest], Recorded], list[TimelineRequest]]:
    asked: list[TimelineRequest] = []
    left = list(pages)

    def ask(request: TimelineRequest) -> Recorded:
        asked.append(request)
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    return ask, asked


def test_pages_are_fetched_until_there_are_no_more() -> None:
    first = page([held(1, 2)], more=True)
    ask, asked = playing(first, first, page([held(3, 4)], going_on=(held(4, 10),)))
    recording = Recording()
    recording.fetch(ask)
    recording.close()
    assert recording.all_spans == [held(1, 2), held(3, 4), held(4, 10)]
    assert (recording.begin_s, recording.end_s) == (1, 10)
    assert asked[-1] == TimelineRequest(spans_from=7, samples_from=9)


def test_what_goes_on_counts_once_however_often_it_is_fetched() -> None:
    ask, _ = playing(
        page([], going_on=(held(1, 10),)),
        page([], going_on=(held(1, 10),)),
        page([], now_s=11, going_on=(held(1, 11),)),
    )
    recording = Recording()
    recording.fetch(ask)
    recording.fetch(ask)
    assert recording.all_spans == [held(1, 11)]


def test_a_new_agent_counts_its_tenants_from_one_again() -> None:
    again = page([held(12, 13)], pid=2, now_s=14)
    ask, _ = playing(page([]), page([held(1, 2)], going_on=(held(5, 10),)), again, again)
    recording = Recording()
    recording.fetch(ask)
    recording.fetch(ask)
    assert [(s.tenant, s.end_s) for s in recording.all_spans] == [(1, 2), (1, 10), (1 + STRIDE, 13)]
    assert recording.label(1 + STRIDE) == "train (pid 4711)"
    assert recording.agents == 2


def test_a_recording_ends_well_when_the_agent_does() -> None:
    one = page([held(1, 2)])
    ask, _ = playing(one, one, NoAgent(directory="/d"))
    recording = Recording()
    recording.follow(ask, 5.0, clock=lambda: 0.0, sleep=str)
    assert recording.agent_ended
    assert recording.spans == [held(1, 2)]


def test_a_recording_without_any_agent_says_so() -> None:
    ask, _ = playing(NoAgent(directory="/d"))
    with pytest.raises(NoAgent):
        Recording().follow(ask, 5.0, clock=lambda: 0.0, sleep=str)


def test_following_ends_in_time_and_at_a_key() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if len(asked) > 3:
            raise KeyboardInterrupt

    ask, asked = playing(*[page([])] * 10)
    Recording().follow(ask, 1.2, clock=lambda: now[0], sleep=sleep)
    assert len(asked) == 4

    now[0] = 0.0
    asked.clear()
    Recording().follow(ask, 0.6, clock=lambda: now[0], sleep=sleep)
    assert now[0] == pytest.approx(0.6)


def test_spans_that_were_forgotten_in_between_are_counted() -> None:
    one = page([held(1, 2)])
    ask, _ = playing(page([], lost=50), one, page([], lost=3))
    recording = Recording()
    recording.fetch(ask)
    recording.fetch(ask)
    assert recording.lost == 3
