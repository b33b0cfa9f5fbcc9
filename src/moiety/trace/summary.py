"""Where the time went: the sums over a recording, and the sentences about them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from moiety.agent.control.rows import Span
from moiety.model.format import format_bytes, format_duration, format_fraction
from moiety.trace.recording import Recording

USES: Final = {
    "held": "held",
    "draining": "drain",
    "evicting": "move",
    "restoring": "move",
    "waiting": "messages",
    "telling": "messages",
    "growing": "messages",
}
"""The use of a GPU's time by the kind of span. The first use of `ORDER` that applies counts; a
holder that waits for more memory does not count as holding."""
ORDER: Final = ("held", "drain", "move", "messages")


@dataclass(slots=True)
class GpuTime:
    """One GPU's time, in seconds: the five uses add up to `total_s`."""

    total_s: float
    held_s: float = 0.0
    drain_s: float = 0.0
    move_s: float = 0.0
    messages_s: float = 0.0
    """A tenant waits while none holds, drains or moves: the GPU is idle until a process has read
    its message."""
    idle_s: float = 0.0
    out_bytes: int = 0
    in_bytes: int = 0
    moving_s: float = 0.0
    """Time with bytes on their way, also while a tenant held."""

    @property
    def handing_off_s(self) -> float:
        """Time in which no tenant held the GPU although one waited for it."""
        return self.drain_s + self.move_s + self.messages_s


@dataclass(slots=True)
class Wait:
    """How long one tenant waited, and which tenants held the GPU meanwhile."""

    tenant: int
    waited_s: float = 0.0
    behind: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds of waiting, by the tenant that held meanwhile."""


def gpu_times(recording: Recording) -> dict[int, GpuTime]:
    """The time of every GPU, within the recording's bounds."""
    begin_s, end_s = recording.begin_s, recording.end_s
    times = {}
    for gpu in recording.gpus:
        spans = [s for s in recording.all_spans if s.gpu == gpu and s.kind in USES]
        time = times[gpu] = GpuTime(total_s=max(0.0, end_s - begin_s))
        for span in spans:
            if span.kind == "evicting":
                time.out_bytes += span.bytes
            elif span.kind == "restoring":
                time.in_bytes += span.bytes
        _sweep(time, spans, begin_s, end_s)
    return times


def _sweep(time: GpuTime, spans: Iterable[Span], begin_s: float, end_s: float) -> None:
    """Go through the time once, and give each stretch to the first use that applies."""
    turns: list[tuple[float, int, str]] = []
    for span in spans:
        first, last = max(span.begin_s, begin_s), min(span.end_s, end_s)
        if last > first:
            turns += [(first, 1, USES[span.kind]), (last, -1, USES[span.kind])]
            if span.kind == "growing":
                turns += [(first, -1, "held"), (last, 1, "held")]
    turns.sort()
    now_s, running = begin_s, Counter[str]()
    for at_s, step, use in [*turns, (end_s, 0, "held")]:
        stretch_s = at_s - now_s
        now = next((u for u in ORDER if running[u] > 0), "idle")
        name = f"{now}_s"
        setattr(time, name, getattr(time, name) + stretch_s)
        if running["move"]:
            time.moving_s += stretch_s
        running[use] += step
        now_s = at_s


def waits(recording: Recording) -> list[Wait]:
    """The tenants that waited, the longest wait first."""
    begin_s, end_s = recording.begin_s, recording.end_s
    found: dict[int, Wait] = {}
    holding: dict[int, list[Span]] = defaultdict(list)
    for span in recording.all_spans:
        if span.kind in ("held", "draining"):
            holding[span.gpu].append(span)
    for spans in holding.values():
        spans.sort(key=lambda s: s.begin_s)
    waiting = [s for s in recording.all_spans if s.kind in ("waiting", "growing")]
    for gpu, spans in holding.items():
        _attribute([s for s in waiting if s.gpu == gpu], spans, begin_s, end_s, found)
    for span in waiting:
        wait = found.setdefault(span.tenant, Wait(span.tenant))
        wait.waited_s += max(0.0, min(span.end_s, end_s) - max(span.begin_s, begin_s))
    return sorted(found.values(), key=lambda w: -w.waited_s)


def _attribute(
    waiting: list[Span],
    holding: list[Span],
    begin_s: float,
    end_s: float,
    found: dict[int, Wait],
) -> None:
    """Add to each wait the tenants that held meanwhile; one pass in order of time."""
    waiting.sort(key=lambda s: s.begin_s)
    alive: list[Span] = []
    following = iter(holding)
    ahead = next(following, None)
    for span in waiting:
        first, last = max(span.begin_s, begin_s), min(span.end_s, end_s)
        while ahead is not None and ahead.begin_s < last:
            alive.append(ahead)
            ahead = next(following, None)
        alive = [s for s in alive if s.end_s > first]
        wait = found.setdefault(span.tenant, Wait(span.tenant))
        for other in alive:
            both_s = min(other.end_s, last) - max(other.begin_s, first)
            if both_s > 0 and other.tenant != span.tenant:
                wait.behind[other.tenant] += both_s


def sentences(recording: Recording) -> list[str]:
    """One line for each GPU, one about the longest wait, one about moved bytes."""
    times = gpu_times(recording)
    lines = [_gpu_line(gpu, time) for gpu, time in times.items()]
    lines.append(_wait_line(recording))
    lines.append(_moved_line(list(times.values())))
    return lines


def _gpu_line(gpu: int, time: GpuTime) -> str:
    if not time.total_s:
        return f"GPU {gpu}: nothing has happened yet"
    parts = (time.drain_s, time.move_s, time.messages_s)
    drain, move, messages = (_part(part_s, time) for part_s in parts)
    return (
        f"GPU {gpu}, {_duration(time.total_s)}: {_part(time.held_s, time)} held, "
        f"{_part(time.handing_off_s, time)} handed from one to the next "
        f"({drain} drain, {move} move, {messages} messages), {_part(time.idle_s, time)} idle"
    )


def _part(part_s: float, time: GpuTime) -> str:
    return format_fraction(round(part_s / time.total_s, 3))


def _duration(seconds: float) -> str:
    return format_duration(round(seconds, 3)) if seconds >= 0.001 else format_duration(seconds)


def _wait_line(recording: Recording) -> str:
    longest = next((w for w in waits(recording) if w.waited_s > 0), None)
    if longest is None:
        return "no program waited"
    line = f"waited most: {recording.label(longest.tenant)}, {_duration(longest.waited_s)}"
    if longest.behind:
        other, both_s = max(longest.behind.items(), key=lambda item: (item[1], -item[0]))
        line += f", of these {_duration(both_s)} while {recording.label(other)} held"
    return line


def _moved_line(times: list[GpuTime]) -> str:
    moved_out = sum(time.out_bytes for time in times)
    moved_in = sum(time.in_bytes for time in times)
    moving_s = sum(time.moving_s for time in times)
    if not moved_out + moved_in:
        return "nothing was moved"
    line = f"moved: {format_bytes(moved_out)} out, {format_bytes(moved_in)} in"
    if moving_s:
        rate = format_bytes(int((moved_out + moved_in) / moving_s))
        line += f", at {rate}/s while something was on its way"
    return line
