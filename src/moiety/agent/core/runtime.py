"""The agent's way to the arbiter: events go in here, and its instructions are carried out.

Every instruction is carried out before the next event is taken in. The arbiter yields a lease while
it still decides what else follows, because a program waits for it. What is written down comes after
that (docs/decisions/0020).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from moiety.agent.core.event_recorder import StepRecorder
from moiety.agent.core.timeline import Timeline
from moiety.agent.system.event_loop import Timer, TimerLoop
from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import Settings

CarryOut = Callable[[do.Instruction], None]


def _nothing() -> None:
    pass


class Runtime:
    """What every component of the agent receives: `feed`, `now`, `call_at` and `log`."""

    def __init__(self, loop: TimerLoop, log: Any) -> None:
        """Components can be made with it at once; `begin` connects it to the arbiter."""
        self.log = log
        self.on_fed: list[Callable[[ev.Event], None]] = []
        """Called after each event, when its instructions are carried out."""
        self.settle: Callable[[], None] = _nothing
        """Called before an event from elsewhere is handled: a message that came first goes first
        (fast_handoff.py)."""
        self._loop = loop
        self._at_s: float | None = None
        self._events: deque[ev.Event] = deque()
        """Events that wait until the instructions of the present one are carried out."""
        self._is_feeding = False
        self._timer: Timer | None = None
        self._timer_s = 0.0
        self._arbiter: Arbiter
        self._timeline: Timeline
        self._recorder: StepRecorder
        self._carry_out: CarryOut

    def begin(
        self,
        arbiter: Arbiter,
        timeline: Timeline,
        recorder: StepRecorder,
        carry_out: CarryOut,
    ) -> None:
        """Connect the arbiter, which decides, and `carry_out`, which does what it decided."""
        self._arbiter = arbiter
        self._timeline = timeline
        self._recorder = recorder
        self._carry_out = carry_out

    def now(self) -> float:
        """Return the time in seconds, on the loop's clock."""
        return self._loop.time() if self._at_s is None else self._at_s

    @contextmanager
    def at(self, when_s: float) -> Iterator[None]:
        """Within it, `now` is this time: something that happened then is told."""
        self._at_s = when_s
        try:
            yield
        finally:
            self._at_s = None

    def call_at(self, when_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call back at that time of `now`."""
        return self._loop.call_at(when_s, callback, *args)

    def feed(self, event: ev.Event) -> None:
        """Tell the arbiter, carry out its instructions, and set the timer for its deadline.

        An event that an instruction brings about is handled after the present one.
        """
        if not self._is_feeding:
            self.settle()
        self._events.append(event)
        if self._is_feeding:
            return
        self._is_feeding = True
        try:
            while self._events:
                self._handle(self._events.popleft())
        finally:
            self._is_feeding = False

    def _handle(self, event: ev.Event) -> None:
        now_s = self._timeline.now_s = self.now()
        self._recorder.begin(now_s, event)
        instructions = self._arbiter.handle(now_s, event)
        try:
            for instruction in instructions:
                self._do(instruction)
        finally:
            for instruction in instructions:  # there is one only if another one failed
                self._do(instruction)
        self._timeline.catch_up()
        self._recorder.end()
        for call in self.on_fed:
            call(event)
        deadline_s = self._arbiter.deadline_s
        if deadline_s is not None and (self._timer is None or deadline_s < self._timer_s):
            self._arm(deadline_s)

    def _do(self, instruction: do.Instruction) -> None:
        self._carry_out(instruction)
        self._recorder.told(instruction)

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer:
            self._timer.cancel()

    def _arm(self, when_s: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer_s = when_s
        self._timer = self.call_at(when_s, self._on_timer)

    def _on_timer(self) -> None:
        """Feed a tick; the timer may be older than the deadline, and is set anew then."""
        self._timer = None
        deadline_s = self._arbiter.deadline_s
        if deadline_s is None:
            return
        if self.now() < deadline_s:
            self._arm(deadline_s)
        else:
            self.feed(ev.Tick())


class LiveSettings:
    """The arbiter's settings as they count now."""

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        self._runtime = runtime
        self.now = settings

    def change(self, settings: Settings) -> None:
        """Decide by these settings from now on."""
        self.now = settings
        self._runtime.feed(ev.SettingsSet(settings))
