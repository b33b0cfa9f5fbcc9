"""The recent past of a node's GPUs: which tenant held, drained, moved and waited, and when.

A stay is recorded when it ends, with its beginning, so that each record is complete and the oldest
can be dropped at any moment. The arbiter knows the stays that go on now.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import Final

from moiety.agent.core.ring_buffer import Samples, SpanRecord, Spans
from moiety.arbiter.instructions import StateChanged
from moiety.arbiter.states import State

SPANS_MAX: Final = 32_768
"""Spans and samples together take 2 MiB, except for the texts of refusals."""
SAMPLES_MAX: Final = 16_384
TENANTS_MAX: Final = 512
"""Names of ended processes that are kept."""
DETAIL_MAX: Final = 240
AGE_MAX_S: Final = 3600.0

KINDS: Final = {
    State.QUEUED: "waiting",
    State.RESTORING: "restoring",
    State.HOLDING: "held",
    State.UNDRAINABLE: "held",
    State.DRAINING: "draining",
    State.STOPPED: "draining",
    State.FENCED: "draining",
}

Work = Callable[[], tuple[int, int, int]]
"""Returns the nanoseconds that a process has spent draining, evicting and restoring."""
Name = tuple[int, str, str]
"""Pid, program, workload."""
ROOM_IS_MADE: Final = "room is being made for it"
MORE_IS_MADE: Final = "room is being made for more memory"
MESSAGES: Final = "messages are on their way"
WORK: Final = {"draining": 0, "evicting": 1, "restoring": 2}
"""By kind: the place of a process' own count in what `Work` returns."""


class Timeline:
    """What happened, in two rings; `now_s` is the time of the next record."""

    def __init__(self, spans_max: int = SPANS_MAX, samples_max: int = SAMPLES_MAX) -> None:
        """Nothing has happened yet."""
        self.now_s = 0.0
        self.spans = Spans(spans_max)
        self.samples = Samples(samples_max)
        self.on_stay: list[Callable[[int, tuple[int, ...], State, float, float], None]] = []
        """Called with each stay that ended: tenant, GPUs, state, begin, end. The wait of a holder
        for more memory is a stay in QUEUED."""
        self.names: dict[int, Name] = {}
        self.owners: dict[int, int] = {}
        """By tenant that has a name here: its user."""
        self.gangs: dict[int, str] = {}
        self._gone: deque[int] = deque()
        self._refused: dict[int, str] = {}
        """By tenant: the last refusal, so that repeated ones share one text."""
        self._on: dict[tuple[int, int], float] = {}
        """By tenant and GPU: since when it has a context there."""
        self._growing: dict[tuple[int, int], float] = {}
        self._looks: dict[int, Work] = {}
        """By tenant: reads the counters of a process whose message was the last news of it."""
        self._shown: dict[int, tuple[int, int, int]] = {}
        self._counted: dict[int, tuple[int, int, int]] = {}
        """By tenant: the part of its counts that is recorded in spans."""
        self._ended: list[tuple[int, tuple[int, ...], State, float, float]] = []
        """Stays that are not recorded yet: tenant, GPUs, state, begin, end."""
        self._moving_out: dict[tuple[int, int], list[float]] = {}
        """Begin, bytes so far, orders that are not carried out."""
        self._moving_in: dict[tuple[int, int], list[float]] = {}
        """Begin, bytes."""

    def sample(self, tenant: int, gpu: int, resident_bytes: int) -> None:
        """Record a tenant's bytes on a GPU; messages of running programs add no other records."""
        self.samples.append(self.now_s, tenant, gpu, resident_bytes)

    # Who is there

    def name(self, tenant: int, pid: int, program: str, workload: str) -> None:
        """A process introduced itself."""
        self.names[tenant] = (pid, program, workload)

    def forget(self, tenant: int) -> None:
        """A process is gone; its name is kept for a while."""
        self.catch_up()
        for who, gpu in [key for key in self._on if key[0] == tenant]:
            self.left(who, gpu)
        for moves in (self._growing, self._moving_out, self._moving_in):
            for key in [key for key in moves if key[0] == tenant]:  # where it had no context yet
                del moves[key]
        self._looks.pop(tenant, None)
        self._shown.pop(tenant, None)
        self._counted.pop(tenant, None)
        self._refused.pop(tenant, None)
        self._gone.append(tenant)
        if len(self._gone) > TENANTS_MAX:
            gone = self._gone.popleft()
            self.names.pop(gone, None)
            self.owners.pop(gone, None)
            self.gangs.pop(gone, None)

    def joined(self, tenant: int, gpu: int) -> None:
        """A process has, or is about to have, a context on a GPU."""
        self.catch_up()
        if (tenant, gpu) not in self._on:
            self._on[tenant, gpu] = self.now_s
            self._moment("joined", tenant, gpu)

    def left(self, tenant: int, gpu: int) -> None:
        """A process has no context on a GPU any more, and no memory there."""
        self.grown(tenant, gpu)
        if order := self._moving_out.pop((tenant, gpu), None):
            begin_s, moved, _ = order
            self._append(("evicting", tenant, gpu, begin_s, self.now_s, int(moved), "it left"))
        if self._on.pop((tenant, gpu), None) is not None:
            self._moment("left", tenant, gpu)
            self.sample(tenant, gpu, 0)

    # What took time

    def worked(self, tenant: int, look: Work) -> None:
        """A process shows how long it has drained, evicted and restored so far.

        The rest of the time from order to answer went into messages, and into waking up for them.
        `look` is called when a stay is recorded.
        """
        self._looks[tenant] = look

    def _look(self, tenant: int) -> tuple[int, int, int] | None:
        """The times that a process showed last; None: none yet."""
        if look := self._looks.pop(tenant, None):
            self._shown[tenant] = look()
        return self._shown.get(tenant)

    def _divided(self, record: SpanRecord) -> list[SpanRecord]:
        """Divide a stay into the time of messages and the work itself, if both are known."""
        kind, tenant, gpu, begin_s, end_s, moved, detail = record
        shown = self._look(tenant)
        if shown is None:
            return [record]
        which = WORK[kind]
        worked_s = (shown[which] - self._counted.get(tenant, (0, 0, 0))[which]) / 1e9
        if not 0 < worked_s < end_s - begin_s:
            return [record]
        work_s = end_s - worked_s
        return [
            ("telling", tenant, gpu, begin_s, work_s, 0, MESSAGES),
            (kind, tenant, gpu, work_s, end_s, moved, detail),
        ]

    def _count(self, tenant: int, kind: str) -> None:
        """Note that the time shown for this kind is recorded in spans."""
        if shown := self._look(tenant):
            counted = [*self._counted.get(tenant, (0, 0, 0))]
            counted[WORK[kind]] = shown[WORK[kind]]
            self._counted[tenant] = (counted[0], counted[1], counted[2])

    def growing(self, tenant: int, gpu: int) -> None:
        """A holder waits for more memory: whether it could run anything meanwhile is not known."""
        self.catch_up()
        self._growing.setdefault((tenant, gpu), self.now_s)

    def grown(self, tenant: int, gpu: int) -> None:
        """A holder's request for memory is answered, or it holds no more."""
        self.catch_up()
        begin_s = self._growing.pop((tenant, gpu), self.now_s)
        if self.now_s > begin_s:
            self._append(("growing", tenant, gpu, begin_s, self.now_s, 0, MORE_IS_MADE))
            for call in self.on_stay:
                call(tenant, (gpu,), State.QUEUED, begin_s, self.now_s)

    def ended(self, change: StateChanged) -> None:
        """A tenant's stay in a state ends now: `catch_up` writes it down."""
        stay = (change.tenant, change.gpus, change.before, change.since_s, self.now_s)
        self._ended.append(stay)

    def catch_up(self) -> None:
        """Write down the stays that have ended.

        Not at once, since a lease for which a process waits may still be on its way.
        """
        if not self._ended:
            return
        ended, self._ended = self._ended, []
        now_s = self.now_s
        for stay in ended:
            self._write(*stay)
            for call in self.on_stay:
                call(*stay)
        self.now_s = now_s

    def _write(
        self, tenant: int, gpus: tuple[int, ...], state: State, since_s: float, now_s: float
    ) -> None:
        self.now_s = now_s
        for gpu in gpus:
            self.grown(tenant, gpu)
            for record in self.stay(tenant, gpu, state, since_s):
                for part in self._divided(record) if record[0] in WORK else (record,):
                    self._append(part)
            self._moving_in.pop((tenant, gpu), None)
        if state is State.DRAINING or state is State.RESTORING:
            self._count(tenant, KINDS[state])

    def stay(self, tenant: int, gpu: int, state: State, since_s: float) -> list[SpanRecord]:
        """The spans of a stay in a state, up to now, on one GPU."""
        attached_s = self._on.get((tenant, gpu))
        kind = KINDS.get(state)
        if kind is None or attached_s is None:
            return []
        begin_s = max(since_s, attached_s)
        spans: list[SpanRecord] = []
        moved: float = 0
        if state is State.RESTORING:
            room_s, moved = self._moving_in.get((tenant, gpu), (self.now_s, 0))
            room_s = max(begin_s, room_s)
            if room_s > begin_s:
                spans.append(("waiting", tenant, gpu, begin_s, room_s, 0, ROOM_IS_MADE))
            if not moved:
                return spans
            begin_s = room_s
        if self.now_s > begin_s:
            spans.append((kind, tenant, gpu, begin_s, self.now_s, int(moved), ""))
        return spans

    def restoring(self, tenant: int, gpu: int, amount: int) -> None:
        """A process may make this many more bytes resident."""
        self.catch_up()
        self._moving_in.setdefault((tenant, gpu), [self.now_s, 0])[1] += amount

    def evicting(self, tenant: int, gpu: int) -> None:
        """A process was told to move memory out."""
        self._moving_out.setdefault((tenant, gpu), [self.now_s, 0, 0])[2] += 1

    def evicted(self, tenant: int, gpu: int, amount: int, is_last: bool, is_failed: bool) -> bool:
        """A process moved some bytes; `is_last` ends one order. True if it has no order left."""
        self.catch_up()
        order = self._moving_out.get((tenant, gpu))
        if order is None:
            return is_last
        order[1] += amount
        order[2] -= is_last
        if order[2] <= 0:
            del self._moving_out[tenant, gpu]
            begin_s, moved, _ = order
            detail = "less than was asked for" if is_failed else ""
            record = ("evicting", tenant, gpu, begin_s, self.now_s, int(moved), detail)
            for part in self._divided(record):
                self._append(part)
            self._count(tenant, "evicting")
        return order[2] <= 0

    def waiting_for_more(self) -> list[SpanRecord]:
        """The holders that wait for more memory now."""
        return [
            ("growing", tenant, gpu, begin_s, self.now_s, 0, MORE_IS_MADE)
            for (tenant, gpu), begin_s in self._growing.items()
            if self.now_s > begin_s
        ]

    def leaving(self) -> list[SpanRecord]:
        """The evictions that are under way."""
        return [
            ("evicting", tenant, gpu, begin_s, self.now_s, int(moved), "")
            for (tenant, gpu), (begin_s, moved, _) in self._moving_out.items()
        ]

    # Moments

    def refused(self, tenant: int, gpu: int, text: str) -> None:
        """A request was refused."""
        text = text[:DETAIL_MAX]
        if self._refused.get(tenant) != text:
            self._refused[tenant] = text
        self._moment("refused", tenant, gpu, self._refused[tenant])

    def overdue(self, tenant: int, waited_s: float) -> None:
        """A process has not carried out an instruction for `waited_s`."""
        for gpu in [gpu for who, gpu in self._on if who == tenant]:
            self._moment("overdue", tenant, gpu, f"{waited_s:.3f} s late")

    def _moment(self, kind: str, tenant: int, gpu: int, detail: str = "") -> None:
        self.catch_up()
        self._append((kind, tenant, gpu, self.now_s, self.now_s, 0, detail))

    def _append(self, record: SpanRecord) -> None:
        oldest_s = self.now_s - AGE_MAX_S
        while self.spans and self.spans.oldest_end_s < oldest_s:
            self.spans.drop_oldest()
        self.spans.append(record)

    # Reading

    def first_span(self, since_s: float) -> int:
        """The number of the first kept span that ended after `since_s`."""
        kept = bisect_right(self.spans, since_s, key=lambda span: span[4])
        return self.spans.first + kept

    def first_sample(self, since_s: float) -> int:
        """The number of the first kept sample after `since_s`."""
        kept = bisect_right(self.samples, since_s, key=lambda sample: sample[0])
        return self.samples.first + kept
