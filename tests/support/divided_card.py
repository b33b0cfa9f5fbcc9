"""A card that divides its time equally among processes with work, and the truth of what each got.

`DividedCard` counts what the arbiter cannot see: which processes had work and an open gate, or
work that was still draining. A process may lie about its silences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.model.share import Share
from tests.support.backlog import Backlog


class DividedCard(Backlog):
    """One GPU; by number, `used_s` is the GPU-seconds in which a process' work really ran."""

    def __init__(self, shares: Sequence[Share], **more: object) -> None:
        """Tenants 1, 2, ... that always have work."""
        self._running: set[int] = set()
        self.open: set[int] = set()
        """The processes with an open gate."""
        self._watches: dict[int, tuple[int, float]] = {}
        self._epochs: dict[int, int] = {}
        self.used_s: dict[int, float] = {}
        self.unused_s = 0.0
        """Time in which a process wanted the card and none used it."""
        self.always_idle: set[int] = set()
        """These say at once that they are silent, and work on."""
        self.never_idle: set[int] = set()
        """These never say that they are silent."""
        self.counts: dict[int, float] = {}
        """How much of a slice each process gets, where the card is not fair; 1 by default."""
        self._charged_s = 0.0
        super().__init__(shares, **more)  # type: ignore[arg-type]

    def part(self, number: int, seconds: float) -> float:
        """The part of the card that one process really gets while so much time passes."""
        return self.parts(seconds)[number - 1]

    def parts(self, seconds: float) -> list[float]:
        """The same for all, by number."""
        self.run(0.0)
        before = dict(self.used_s)
        self.run(seconds)
        return [(self.used_s[n] - before.get(n, 0.0)) / seconds for n in sorted(self.used_s)]

    def of_all(self, seconds: float) -> list[float]:
        """The parts of the time in which the card works for any of them, by number."""
        found = self.parts(seconds)
        return [part / sum(found) for part in found]

    def nap(self, number: int, seconds: float) -> None:
        """Have no work for a while, with or without the lease, and then have work again."""
        self._charge()
        self._asleep.add(number)
        if number in self.open and number in self._watches:
            epoch, idle_s = self._watches[number]
            self._then(idle_s, lambda: self._say_idle(number, epoch))
        self._then(seconds, lambda: self.wake(number))

    def wake(self, number: int) -> None:
        """Have work again; ask for the lease where it was given back."""
        self._charge()
        self._asleep.discard(number)
        if number in self.open:
            self.tell(ev.Busy(number, self._epochs[number]))
        else:
            self.tell(ev.LeaseRequest(number))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        super().run(seconds)
        self._charge()

    def tell(self, event: ev.Event) -> None:
        """Let the arbiter know at once, and do what it says."""
        self._charge()
        if isinstance(event, ev.Drained):
            self._running.discard(event.tenant)
        super().tell(event)

    def add(
        self,
        number: int,
        share: Share,
        bytes_each: int | None = None,
        *,
        owner: str = "",
        workload: str = "",
    ) -> None:
        """One more tenant."""
        self.used_s[number] = 0.0
        super().add(number, share, bytes_each, owner=owner, workload=workload)

    def end(self, number: int) -> None:
        """It is gone, and its work with it."""
        self._charge()
        self._running.discard(number)
        self.open.discard(number)
        self._watches.pop(number, None)
        super().end(number)

    def _working(self) -> Iterable[int]:
        return self._running - self._asleep

    def _charge(self) -> None:
        elapsed_s, self._charged_s = self.now_s - self._charged_s, self.now_s
        if elapsed_s <= 0:
            return
        working = list(self._working())
        whole = sum(self.counts.get(number, 1.0) for number in working)
        for number in working:
            self.used_s[number] += elapsed_s * self.counts.get(number, 1.0) / whole
        if not working and set(self.used_s) - self._asleep:
            self.unused_s += elapsed_s

    def _do(self, told: do.Instruction) -> None:
        number = told.tenant
        if isinstance(told, do.Grant):
            self._running.add(number)
            self.open.add(number)
            self._epochs[number] = told.epoch
        elif isinstance(told, do.Revoke):
            self.open.discard(number)
            self._watches.pop(number, None)
        elif isinstance(told, do.SetIdleTimeout):
            self._watch(number, told.idle_s)
            return
        super()._do(told)

    def _watch(self, number: int, idle_s: float) -> None:
        epoch = self._epochs.get(number, 0)
        if idle_s <= 0:
            self._watches.pop(number, None)
            return
        self._watches[number] = epoch, idle_s
        if number in self.always_idle:
            self._then(self._message_s, lambda: self._say_idle(number, epoch, lies=True))
        elif number in self._asleep:
            self._then(idle_s, lambda: self._say_idle(number, epoch))

    def _say_idle(self, number: int, epoch: int, *, lies: bool = False) -> None:
        is_silent = number in self._asleep and number not in self.never_idle
        is_known = number in self.open and self._epochs[number] == epoch
        if is_known and (is_silent or lies) and number in self._watches:
            del self._watches[number]
            self.tell(ev.Idle(number, epoch))
