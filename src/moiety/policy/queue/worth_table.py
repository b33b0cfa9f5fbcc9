"""The worth of all active work: kept in arrays, so that time passes for all of it at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moiety.policy.estimate.runtime_estimator import Floats, Rows
from moiety.policy.place.arrays import Bools
from moiety.policy.queue.gittins_order import aged, yields

SLOTS_MIN: Final = 64
UNKNOWN: Final = 0
"""The slot of all work that is not known; it is worth nothing."""
ARRAYS: Final = ("_value", "_submitted_s", "_attained_s", "_since_s", "_queue", "_row", "_gpus")
"""What a table has of each slot."""
Slots = NDArray[np.int64]
NEW: Final[Slots] = np.array([UNKNOWN], np.int64)


class WorkFacts(NamedTuple):
    """What is known of several pieces of active work at a moment, beside their past."""

    rows: Rows
    """Of the estimator."""
    attained_s: Floats
    gpus: Floats
    is_running: Bools


class WorthTable:
    """A slot for each piece of active work, with its worth and what its age is found from."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._used = UNKNOWN + 1
        """How many slots have been given out; those of work that is over are not given again."""
        self._value: Floats = np.zeros(SLOTS_MIN)
        self._submitted_s: Floats = np.zeros(SLOTS_MIN)
        self._attained_s: Floats = np.zeros(SLOTS_MIN)
        self._since_s: Floats = np.full(SLOTS_MIN, math.inf)
        self._queue: Floats = np.zeros(SLOTS_MIN)
        self._row: Floats = np.zeros(SLOTS_MIN)
        """The row of the estimator."""
        self._gpus: Floats = np.ones(SLOTS_MIN)
        self._queues: dict[str, int] = {}
        """A number for each queue."""
        self._epoch = object()
        self._over: set[str] = set()
        """Work that has ended in this epoch: its slot may still be known."""

    def copy(self) -> WorthTable:
        """A table that knows the same."""
        twin = WorthTable()
        twin._slots, twin._used = dict(self._slots), self._used
        twin._value, twin._submitted_s = self._value.copy(), self._submitted_s.copy()
        twin._attained_s, twin._since_s = self._attained_s.copy(), self._since_s.copy()
        twin._queue, twin._queues = self._queue.copy(), dict(self._queues)
        twin._row, twin._gpus = self._row.copy(), self._gpus.copy()
        return twin

    def came(
        self, name: str, queue: str, submitted_s: float, row: int = 0, gpus: float = 1.0
    ) -> None:
        """Work waits in a queue, for the first time; `row` is its row in the estimator."""
        if self._used == len(self._value):
            self._make_room()
        if name in self._slots or name in self._over:
            self._new_epoch()
        slot = self._slots[name] = self._used
        self._used += 1
        self._value[slot], self._submitted_s[slot] = 0.0, submitted_s
        self._attained_s[slot], self._since_s[slot] = 0.0, math.inf
        self._queue[slot] = self._queues.setdefault(queue, len(self._queues))
        self._row[slot], self._gpus[slot] = row, gpus

    def has(self, name: str, attained_s: float, since_s: float | None) -> None:
        """Work had attained so much when it last began (`since_s`) or stopped (None)."""
        slot = self._slots[name]
        self._attained_s[slot] = attained_s
        self._since_s[slot] = math.inf if since_s is None else since_s

    def over(self, name: str) -> None:
        """Work has ended."""
        slot = self._slots.pop(name)
        self._over.add(name)
        self._value[slot] = 0.0
        if self._since_s[slot] == math.inf:  # it may stand in a line that knows its slot
            self._new_epoch()
        self._since_s[slot] = math.inf

    def facts(self, names: Sequence[str], now_s: float) -> WorkFacts:
        """What the worth of work is found from."""
        slots = [self._slots[name] for name in names]
        since_s = self._since_s[slots]
        return WorkFacts(
            self._row[slots].astype(np.int64),
            self._attained_s[slots] + np.maximum(now_s - since_s, 0.0),
            self._gpus[slots],
            since_s < math.inf,
        )

    def worth(self, names: Sequence[str], values: Floats) -> None:
        """Set what work is worth without its age."""
        self._value[[self._slots[name] for name in names]] = values

    def at(self, now_s: float) -> Worth:
        """The worth of all work at a moment."""
        used = slice(0, self._used)
        ran = np.maximum(now_s - self._since_s[used], 0.0)
        waited = now_s - self._submitted_s[used] - (self._attained_s[used] + ran)
        return Worth(self._slots, self._epoch, aged(self._value[used], waited))

    def any_yields(self, now_s: float) -> bool:
        """Whether work that runs yields to work that waits in its queue, by worth alone."""
        used = slice(UNKNOWN + 1, self._used)
        worth, queue = self.at(now_s).by_slot[used], self._queue[used].astype(np.int64)
        is_running = self._since_s[used] < math.inf
        runs, waits = np.full(len(self._queues), math.inf), np.zeros(len(self._queues))
        np.minimum.at(runs, queue[is_running], worth[is_running])
        np.maximum.at(waits, queue[~is_running], worth[~is_running])
        return bool(yields(runs, waits).any())

    def _make_room(self) -> None:
        """Give up the slots of work that is over; make the arrays larger if they are half full."""
        old = [UNKNOWN, *self._slots.values()]
        size = max(SLOTS_MIN, 2 * len(old))
        for array in ARRAYS:
            before = getattr(self, array)
            now = np.zeros(size)
            now[: len(old)] = before[old]
            setattr(self, array, now)
        self._slots = {name: slot for slot, name in enumerate(self._slots, start=UNKNOWN + 1)}
        self._used = len(old)
        self._new_epoch()

    def _new_epoch(self) -> None:
        """All slots have to be looked up again."""
        self._epoch = object()
        self._over.clear()


class Worth(Mapping[str, float]):
    """What a GPU-second of each piece of active work is worth, at one moment."""

    __slots__ = ("_slots", "by_slot", "epoch")

    def __init__(self, slots: Mapping[str, int], epoch: object, values: Floats) -> None:
        self._slots = slots
        self.epoch = epoch
        """The slots of work do not change as long as it is the same."""
        self.by_slot = values

    def __getitem__(self, name: str) -> float:
        return self.by_slot.item(self._slots[name])

    def get(self, name: str, default: Any = None) -> Any:
        """The worth of a piece of work, or `default` if it is not active."""
        slot = self._slots.get(name)
        return default if slot is None else self.by_slot.item(slot)

    def __contains__(self, name: object) -> bool:
        return name in self._slots

    def __iter__(self) -> Iterator[str]:
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    def keys(self) -> KeysView[str]:
        """The names of all active work."""
        return self._slots.keys()

    def slot(self, name: str) -> int:
        """The slot of a piece of work; `UNKNOWN` if it is not active."""
        return self._slots.get(name, UNKNOWN)


class WorkNames:
    """Names of work in an order, whose worth is found at once."""

    __slots__ = ("_epoch", "_is_known", "_names", "_slots")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = list(names)
        self._slots: Slots = np.zeros(len(self._names), np.int64)
        """`UNKNOWN` where the slot has to be looked up."""
        self._is_known = False
        self._epoch: object = None

    def insert(self, at: int, name: str) -> None:
        """Put a name in a place."""
        self._names.insert(at, name)
        self._slots = np.concatenate([self._slots[:at], NEW, self._slots[at:]])
        self._is_known = False

    def remove(self, at: int, count: int = 1) -> None:
        """Take out the name in a place, and those after it if there are several."""
        del self._names[at : at + count]
        self._slots = np.concatenate([self._slots[:at], self._slots[at + count :]])

    def append(self, name: str, count: int) -> None:
        """Put a name behind all others, `count` times."""
        self._names += [name] * count
        self._slots = np.concatenate([self._slots, np.zeros(count, np.int64)])
        self._is_known = False

    def find(self, name: str) -> int:
        """The first place of a name. Raises ValueError if there is none."""
        return self._names.index(name)

    def worth(self, of: Mapping[str, float]) -> Floats:
        """The worth of each; what is not known is worth nothing."""
        if isinstance(of, Worth):
            return of.by_slot[self._slots_in(of)]
        return np.array([of.get(name, 0.0) for name in self._names])

    def are_in(self, of: Mapping[str, float]) -> bool:
        """Whether the worth of all is known."""
        if isinstance(of, Worth):
            self._slots_in(of)
            return self._is_known
        return all(name in of for name in self._names)

    def _slots_in(self, of: Worth) -> Slots:
        """The slots of all; those of work that is known do not change."""
        if self._epoch is not of.epoch:
            self._epoch = of.epoch
            self._slots[:] = UNKNOWN
            self._is_known = False
        if not self._is_known:
            for at in np.flatnonzero(self._slots == UNKNOWN).tolist():
                self._slots[at] = of.slot(self._names[at])
            self._is_known = bool(self._slots.all())
        return self._slots
