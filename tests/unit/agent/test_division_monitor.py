"""The agent compares what it counts with what NVML sees, and says who takes turns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control.visibility import events_for
from moiety.agent.core.journal import Journal
from moiety.agent.monitor.division_monitor import DivisionMonitor
from moiety.arbiter import events as ev
from moiety.arbiter.states import Apart
from moiety.config.values import Visible
from moiety.devices.interface import GpuProcess
from moiety.model.share import Share
from tests.support.divided_card import DividedCard

LOOK_S = 5.0


class Watched:
    """A card that prefers its first process, and the monitor that sees its true figures."""

    def __init__(self, *, prefers: float = 1.0, mps: frozenset[int] = frozenset()) -> None:
        self.card = DividedCard([Share(), Share()])
        self.card.counts[1] = prefers
        self.mps = mps
        self.journal = Journal()
        self.fed: list[ev.Event] = []
        log = SimpleNamespace(info=lambda *_, **__: None)
        runtime: Any = SimpleNamespace(feed=self._feed, log=log)
        self.monitor = DivisionMonitor(runtime, self.card.arbiter, self.journal)
        self.card.run(1)

    def _feed(self, event: ev.Event) -> None:
        self.fed.append(event)
        self.card.tell(event)

    def look(self, times: int = 1, *, answers: bool = True) -> list[float]:
        """The parts that the processes really had in the last look's time."""
        parts: list[float] = []
        for _ in range(times):
            parts = self.card.parts(LOOK_S)
            users = [
                GpuProcess(100 + n, 0, part, n in self.mps) for n, part in enumerate(parts, start=1)
            ]
            clients: Any = {100 + n: SimpleNamespace(number=n) for n in (1, 2)}
            views = {view.tenant: view for view in self.card.arbiter.tenants()}
            found = {0: users if answers else None}
            self.monitor.look(self.card.now_s, found, clients, views)
        return parts

    def reasons(self) -> list[str]:
        return [event.reason for event in self.journal.ring]


def test_a_preferred_process_takes_turns_and_both_get_their_half() -> None:
    there = Watched(prefers=4.0)
    assert there.look(3) == pytest.approx([0.8, 0.2], abs=0.03)
    assert there.fed == [ev.DivisionSet(1, Apart.OF_ALL)]
    assert there.look(2) == pytest.approx([0.5, 0.5], abs=0.03)
    assert there.look(4) == pytest.approx([0.5, 0.5], abs=0.03)
    assert there.reasons() == ["UnequalDivision"]


def test_a_card_that_divides_equally_is_left_alone() -> None:
    there = Watched()
    there.look(40)
    assert there.fed == []


def test_clients_of_mps_take_turns_until_it_ends() -> None:
    there = Watched(mps=frozenset({1, 2}), prefers=3.0)
    there.look(1)
    assert there.fed == [ev.DivisionSet(n, Apart.OF_MPS) for n in (1, 2)]
    assert there.look(2) == pytest.approx([0.5, 0.5], abs=0.03)
    there.mps = frozenset()
    there.look(1)
    assert there.fed[2:] == [ev.DivisionSet(n, Apart.NO) for n in (1, 2)]
    assert there.reasons() == ["UnequalDivision"] * 2 + ["EqualDivision"] * 2


def test_a_card_that_does_not_answer_changes_nothing() -> None:
    there = Watched(mps=frozenset({1, 2}))
    there.look(1)
    there.look(2, answers=False)
    assert len(there.fed) == 2


def test_what_was_set_is_taken_back_at_the_end() -> None:
    there = Watched(mps=frozenset({1, 2}))
    there.look(1)
    there.monitor.stop()
    assert there.fed[2:] == [ev.DivisionSet(n, Apart.NO) for n in (1, 2)]
    assert there.look(1) == pytest.approx([0.5, 0.5], abs=0.03)


def test_every_user_may_see_it_and_no_program_is_named() -> None:
    there = Watched(mps=frozenset({1, 2}))
    there.look(1)
    seen = events_for(there.journal.ring, 4321, Visible.SIZES)
    assert [event.gpu for event in seen] == [0, 0]
    assert seen[0].message.startswith("tenant 1 takes turns on GPU 0")
