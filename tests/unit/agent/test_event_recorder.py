"""The recorder keeps the last steps in constant memory, and what it keeps can be replayed."""

from __future__ import annotations

from random import Random

import pytest

from moiety.agent.core import event_recorder
from moiety.agent.core.event_recorder import StepRecorder
from moiety.agent.core.step_codec import (
    as_document,
    framed,
    from_document,
    pack,
    unpack,
    unpack_checkpoint,
)
from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.checkpoint import Checkpoint, take
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.replay import Replayed, Step, replay
from moiety.arbiter.settings import GpuSpec, OverduePolicy, Settings
from moiety.model.share import Mode, Priority, Share
from tests.support import chaos, virtual_agent

SMALL = 16 << 10
DAYS = range(40)
SEGMENT = 40 << 10


class Recorded:
    """A small arbiter whose steps are recorded."""

    def __init__(self, segment_bytes: int = SMALL) -> None:
        self.arbiter = Arbiter([GpuSpec(0, 1 << 40, 1 << 40)], Settings(1 << 30))
        self.recorder = StepRecorder(lambda: take(self.arbiter), segment_bytes)
        self.steps: list[Step] = []
        self.now_s = 0.0

    def feed(self, event: ev.Event) -> None:
        self.now_s += 0.01
        self.recorder.begin(self.now_s, event)
        told = list(self.arbiter.handle(self.now_s, event))
        for each in told:
            self.recorder.told(each)
        self.recorder.end()
        self.steps.append(Step(self.now_s, event, tuple(told)))

    def churn(self, times: int) -> None:
        for number in range(1, times + 1):
            self.feed(ev.Hello(number, name=f"program (pid {number})"))
            self.feed(ev.Attach(number, 0, 1, 1, 1 << 40))
            self.feed(ev.AllocRequest(number, 0, 2, 5))
            self.feed(ev.LeaseRequest(number))
            if number > 3:
                self.feed(ev.Left(number - 3))


def kept(recorder: StepRecorder) -> tuple[Checkpoint, list[Step]] | None:
    """All that can be replayed, page by page."""
    page = recorder.page()
    if not page.segment:
        return None
    data = bytearray(page.data)
    while page.more:
        page = recorder.page(page.segment, page.offset)
        assert not page.is_lost
        data += page.data
    start, *rest = framed(data)
    return unpack_checkpoint(start), [unpack(each) for each in rest]


def test_what_fits_is_kept_from_the_first_event_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_recorder, "PAGE_BYTES", 100)
    there = Recorded()
    there.churn(20)
    found = kept(there.recorder)
    assert found is not None
    assert found[1] == there.steps
    assert replay(*found).difference is None


def test_memory_is_bounded_and_the_last_events_are_kept() -> None:
    there = Recorded()
    segments = (there.recorder._old.memory, there.recorder._new.memory)
    there.churn(1500)
    assert {id(each) for each in segments} == {
        id(there.recorder._old.memory),
        id(there.recorder._new.memory),
    }
    assert all(len(each) == SMALL for each in segments)
    found = kept(there.recorder)
    assert found is not None
    start, steps = found
    assert steps == there.steps[-len(steps) :]
    assert 100 < len(steps) < len(there.steps)
    assert replay(start, steps) == Replayed(len(steps), sum(len(s.instructions) for s in steps))


def test_who_reads_too_late_is_told_so() -> None:
    there = Recorded()
    page = there.recorder.page()
    there.churn(1500)
    assert there.recorder.page(page.segment, page.offset).is_lost


def test_an_event_that_does_not_fit_is_left_out_with_all_before_it() -> None:
    there = Recorded()
    there.churn(3)
    there.recorder.begin(there.now_s, ev.ArenaSet(5, "x" * SMALL))
    there.recorder.end()
    there.churn(3)
    found = kept(there.recorder)
    assert found is not None
    assert len(found[1]) == len(there.steps) // 2
    assert replay(*found).difference is None


def test_a_state_that_is_too_large_gives_no_starting_point_until_it_shrinks() -> None:
    there = Recorded()
    there.churn(3)
    there.feed(ev.ArenaSet(5, "x" * SMALL))
    assert kept(there.recorder) is None
    there.feed(ev.ArenaSet(5, ""))
    there.churn(100)
    found = kept(there.recorder)
    assert found is not None
    assert replay(*found).difference is None


def test_a_step_that_raised_is_kept_with_what_was_told_before() -> None:
    there = Recorded()
    there.recorder.begin(1.0, ev.Tick())
    there.recorder.told(do.CheckStopped(1))
    there.recorder.begin(2.0, ev.Settled())
    there.recorder.end()
    found = kept(there.recorder)
    assert found is not None
    assert found[1] == [
        Step(1.0, ev.Tick(), (do.CheckStopped(1),)),
        Step(2.0, ev.Settled(), ()),
    ]


ODD = (
    ev.Hello(1, share=Share(gpu=0.5, priority=Priority.HIGH, mode=Mode.MANAGED), name="ä", epoch=7),
    ev.SettingsSet(Settings(5, overdue=OverduePolicy.KILL)),
    ev.UserLimitsSet({1000: (5, "a rule"), 0: (1 << 70, "another")}),
    ev.PromiseSet(0, 1 << 40, 1 << 20),
    ev.AllocRequest(1, 0, 1, 1 << 64, pinned=True),
    ev.DriverOom(1, 0, 1, -(1 << 65)),
    ev.Settled(),
)


@pytest.mark.parametrize("event", ODD)
def test_every_value_survives(event: ev.Event) -> None:
    step = Step(1.5, event, (do.Overdue(1, 0.25, "fenced", kill=True), do.Grant(1 << 66, 2)))
    assert unpack(pack(step.now_s, step.event, step.instructions)) == step
    assert from_document(as_document(event)) == event


def test_a_name_of_any_bytes_is_kept_as_a_likeness() -> None:
    found = unpack(pack(1.0, ev.Hello(1, name="a\udcff"), ())).event
    assert found == ev.Hello(1, name="a?")


@pytest.fixture
def agents(monkeypatch: pytest.MonkeyPatch) -> list[StepRecorder]:
    """The recorders of all agents of some days, which keep less than agents do."""
    found: list[StepRecorder] = []
    start = virtual_agent.World.start_agent

    def started(world: virtual_agent.World) -> object:
        node = start(world)
        found.append(node.recorder)
        return node

    monkeypatch.setattr(virtual_agent.World, "start_agent", started)
    return found


def test_days_on_which_everything_goes_wrong_replay(
    agents: list[StepRecorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments end so soon that many recordings begin with a checkpoint that has tenants."""
    sizes = Random(0)
    init = StepRecorder.__init__

    def small(self: StepRecorder, checkpoint: object) -> None:
        init(self, checkpoint, SEGMENT)  # type: ignore[arg-type]
        self._reserve = SEGMENT - sizes.choice([10 << 10, 12 << 10])

    monkeypatch.setattr(StepRecorder, "__init__", small)
    events = wrapped = 0
    for seed in DAYS:
        agents.clear()
        chaos.live(seed)
        for recorder in agents:
            if (found := kept(recorder)) is None:
                continue
            result = replay(*found)
            assert result.difference is None, f"seed {seed}: {result.difference}"
            events += result.events
            wrapped += recorder._new.number > 2
    assert events > 5000
    assert wrapped
