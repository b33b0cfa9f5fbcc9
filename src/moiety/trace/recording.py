"""A recording: an agent's records, fetched page by page, also across a restart of the agent."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from moiety.agent.control.protocol import Recorded, TimelineRequest
from moiety.agent.control.rows import GpuName, Sample, Span, TenantName
from moiety.model.errors import AgentError

STRIDE: Final = 1_000_000
"""A new agent counts its tenants from 1 again: n times this is added for the n-th agent."""
POLL_S: Final = 0.5
"""How often a running recording is fetched: long before the agent's memory is full."""

Ask = Callable[[TimelineRequest], Recorded]


@dataclass(slots=True)
class Recording:
    """What happened on the GPUs of a node; times are seconds on its monotonic clock."""

    begin_s: float = float("inf")
    end_s: float = 0.0
    gpus: dict[int, GpuName] = field(default_factory=dict)
    tenants: dict[int, TenantName] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    open: list[Span] = field(default_factory=list)
    """Spans that had not ended when the recording did."""
    lost: int = 0
    """Spans that the agent had dropped before they were fetched."""
    agents: int = 0
    """The number of agents in the recording."""
    agent_ended: bool = False
    """True if no agent followed the last one."""
    _pid: int = 0
    _next: TimelineRequest = field(default_factory=TimelineRequest)

    @property
    def all_spans(self) -> list[Span]:
        """The ended spans, and the spans that the end of the recording cut off."""
        return self.spans + self.open

    def fetch(self, ask: Ask, since_s: float = 0.0) -> None:
        """Fetch all new records, without spans that ended before `since_s`."""
        more = True
        while more:
            page = ask(replace(self._next, since_s=since_s))
            if page.pid != self._pid:
                self._meet(page)
                page = ask(TimelineRequest(since_s=since_s))
            self._add(page)
            more = page.more

    def follow(
        self,
        ask: Ask,
        for_s: float,
        since_s: float = 0.0,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Fetch until `for_s` have passed, or until it is interrupted."""
        end_s = clock() + for_s
        try:
            self.fetch(ask, since_s)
            while (left_s := end_s - clock()) > 0:
                sleep(min(POLL_S, left_s))
                self.fetch(ask, since_s)
        except KeyboardInterrupt:
            pass  # the user wants the records until now
        except AgentError:
            if not self.agents:
                raise
            self.agent_ended = True  # the pages that it sent before are still good

    def close(self, since_s: float = 0.0) -> None:
        """Set the begin of the recording: `since_s`, or the first record."""
        if since_s:
            self.begin_s = since_s
        else:
            self.begin_s = min([s.begin_s for s in self.all_spans], default=self.end_s)

    def label(self, tenant: int) -> str:
        """The name of a tenant in texts."""
        found = self.tenants.get(tenant)
        if found is None:
            return f"tenant {tenant % STRIDE}"
        gang = f", gang {found.gang}" if found.gang else ""
        return f"{found.program} (pid {found.pid}{gang})"

    def _meet(self, page: Recorded) -> None:
        """Another agent answers: the open spans of the last agent ended with it."""
        self.spans += self.open
        self.open = []
        self.agents += 1
        self._pid = page.pid
        self._next = TimelineRequest()

    def _add(self, page: Recorded) -> None:
        shift = (self.agents - 1) * STRIDE
        self.end_s = page.now_s
        self.gpus |= {gpu.gpu: gpu for gpu in page.gpus}
        self.tenants |= {n.tenant + shift: n for n in page.tenants}
        self.spans += [_shifted(span, shift) for span in page.spans]
        self.samples += [
            replace(sample, tenant=sample.tenant + shift) if shift else sample
            for sample in page.samples
        ]
        self.open = [_shifted(span, shift) for span in page.open]
        if self._next.spans_from:
            self.lost += page.lost
        self._next = TimelineRequest(spans_from=page.spans_next, samples_from=page.samples_next)


def _shifted(span: Span, shift: int) -> Span:
    return replace(span, tenant=span.tenant + shift) if shift else span
