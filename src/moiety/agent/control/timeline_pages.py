"""The timeline as pages for `moiety trace`, which are small, so that programs do not wait."""

from __future__ import annotations

import os

from moiety.agent.control.protocol import Recorded, TimelineRequest
from moiety.agent.control.rows import GpuName, Sample, Span, TenantName
from moiety.agent.core.gpus import Gpus
from moiety.agent.core.timeline import Timeline
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.states import State

PAGE = 500
"""Records of each kind on one page."""


def recorded(
    kept: Timeline, arbiter: Arbiter, gpus: Gpus, now_s: float, asked: TimelineRequest
) -> Recorded:
    """The page that was asked for."""
    kept.now_s = now_s
    spans_from = max(asked.spans_from, kept.first_span(asked.since_s))
    samples_from = max(asked.samples_from, kept.first_sample(asked.since_s))
    i, j = kept.spans.first, kept.samples.first
    skipped = i - asked.spans_from
    spans = [Span(*r) for r in kept.spans[spans_from - i : spans_from - i + PAGE]]
    samples = [Sample(*r) for r in kept.samples[samples_from - j : samples_from - j + PAGE]]
    spans_next, samples_next = spans_from + len(spans), samples_from + len(samples)
    more = spans_next < kept.spans.seen or samples_next < kept.samples.seen
    now = [] if more else going_on(kept, arbiter)
    named = {s.tenant for s in spans} | {s.tenant for s in samples} | {s.tenant for s in now}
    return Recorded(
        pid=os.getpid(),
        now_s=kept.now_s,
        gpus=[
            GpuName(index, gpu.device.name, gpu.budget.capacity_bytes)
            for index, gpu in gpus.items()
        ],
        tenants=[
            TenantName(n, *kept.names[n], kept.gangs.get(n, ""))
            for n in sorted(named)
            if n in kept.names
        ],
        spans=spans,
        samples=samples,
        open=now,
        spans_next=spans_next,
        samples_next=samples_next,
        lost=max(0, skipped),
        more=more,
    )


def going_on(kept: Timeline, arbiter: Arbiter) -> list[Span]:
    """The spans that have begun and not ended, up to now."""
    spans = [Span(*record) for record in kept.leaving() + kept.waiting_for_more()]
    for view in arbiter.tenants():
        for gpu in view.gpus:
            stay = kept.stay(view.tenant, gpu, State(view.state), view.since_s)
            spans += [Span(*record) for record in stay]
    return spans
