"""Programs that work on the GPU and then do without it, on a virtual clock: when are they done?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.settings import Settings
from moiety.model.share import NOTHING_ASKED
from tests.support.backlog import GPU_BYTES, Backlog


@dataclass(slots=True)
class Program:
    """One of them. `spell_s` and `pause_s` say how long its next spell of work and pause are."""

    spell_s: Callable[[], float]
    pause_s: Callable[[], float]
    left_s: float = 0.0
    """Of the spell under way."""
    runs_since_s: float | None = None
    pauses: bool = False
    is_open: bool = False
    epoch: int = 0
    watch_s: float = 0.0
    told_idle: bool = False
    changes: int = 0
    """What was foreseen before the last one does not come about."""
    spells: int = 0
    worked_s: float = 0.0


class Alternating(Backlog):
    """One GPU of which each program needs `part`, and moving such a part one way takes `move_s`."""

    def __init__(
        self, programs: Sequence[Program], *, part: float, move_s: float, **settings: float
    ) -> None:
        """Programs 1, 2, ..., which begin with a spell."""
        self.programs = dict(enumerate(programs, start=1))
        for program in programs:
            program.left_s = program.spell_s()
        size = int(GPU_BYTES * part)
        # one after the other here, both at once on a GPU
        link = 2 * size / move_s
        super().__init__(
            [NOTHING_ASKED] * len(programs),
            bytes_each=size,
            link_bytes_per_s=link,
            settings=Settings(arena_bytes=1 << 50, link_bytes_per_s=link, **settings),  # type: ignore[arg-type]
        )
        for number in self.programs:
            self.tell(ev.LeaseRequest(number))

    def run_until(self, spells: int) -> float:
        """Until each program has done so many more; returns the seconds."""
        began_s = self.now_s
        due = {number: p.spells + spells for number, p in self.programs.items()}
        while any(p.spells < due[number] for number, p in self.programs.items()):
            self.run(0.01)
        return self.now_s - began_s

    def _do(self, told: do.Instruction) -> None:
        program = self.programs[told.tenant]
        if isinstance(told, do.Grant):
            program.is_open, program.epoch = True, told.epoch
            if not program.pauses:
                self._work_on(told.tenant)
        elif isinstance(told, do.Revoke):
            self._stop(program)
            program.is_open = program.told_idle = False
            program.watch_s = 0.0
        elif isinstance(told, do.SetIdleTimeout):
            program.watch_s, program.told_idle = told.idle_s, False
            if program.pauses and program.is_open:
                self._foresee(told.tenant, told.idle_s, self._tell_idle)
        super()._do(told)

    def _foresee(self, number: int, after_s: float, what: Callable[[int], None]) -> None:
        program = self.programs[number]
        changes = program.changes

        def come_about() -> None:
            if program.changes == changes:
                what(number)

        self._then(after_s, come_about)

    def _work_on(self, number: int) -> None:
        program = self.programs[number]
        program.changes += 1
        program.runs_since_s = self.now_s
        self._foresee(number, program.left_s, self._pause)

    def _stop(self, program: Program) -> None:
        if program.runs_since_s is not None:
            ran_s = self.now_s - program.runs_since_s
            program.left_s = max(0.0, program.left_s - ran_s)
            program.worked_s += ran_s
            program.runs_since_s = None
            program.changes += 1

    def _pause(self, number: int) -> None:
        program = self.programs[number]
        self._stop(program)
        program.pauses = True
        program.spells += 1
        self._asleep.add(number)
        if program.watch_s:
            self._foresee(number, program.watch_s, self._tell_idle)
        self._foresee(number, program.pause_s(), self._begin)

    def _tell_idle(self, number: int) -> None:
        program = self.programs[number]
        if program.is_open and program.watch_s:
            program.told_idle, program.watch_s = True, 0.0
            self.tell(ev.Idle(number, program.epoch))

    def _begin(self, number: int) -> None:
        program = self.programs[number]
        program.pauses = False
        program.left_s = program.spell_s()
        self._asleep.discard(number)
        if not program.is_open:
            program.changes += 1
            self.tell(ev.LeaseRequest(number))
            return
        self._work_on(number)
        if program.told_idle:
            program.told_idle = False
            self.tell(ev.Busy(number, program.epoch))
