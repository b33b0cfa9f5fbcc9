"""Free GPUs of nodes, and where a gang goes: together, on as few nodes as possible.

A gang of at most a node's GPUs goes to the one node with room that has the fewest GPUs left. A
larger gang takes whole nodes, and for the rest again the node that has the fewest GPUs left. The
publishers of the traces place like that, so that replays can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Seats = tuple[tuple[int, int], ...]
"""Nodes by position, and how many GPUs on each."""


class Nodes:
    """How many GPUs each node has, and how many of them are free. Nodes may go and come."""

    def __init__(self, gpus: Sequence[int]) -> None:
        self.size = list(gpus)
        self.free = list(gpus)
        self.up = [True] * len(self.size)
        self._outages = [0] * len(self.size)
        """How many outages each node has now; it is up without any."""
        self.gpus = sum(self.size)
        """Of all nodes that are up."""
        self.version = 0
        """A number that grows when a node goes or comes."""
        self.lasting = list(gpus)
        """GPUs of each node that is up or will be again; 0: it is gone for good."""
        self.largest = max(self.lasting, default=0)
        """Of `lasting`."""
        self.lasting_version = 0
        """A number that grows when `lasting` changes."""

    def find(self, gpus: int, free: Sequence[int] | None = None) -> Seats | None:
        """The seats that a gang would get; None: there is no room. `free` replaces `self.free`."""
        free = self.free if free is None else free
        if gpus <= self.largest:
            best = _tightest(free, gpus)
            return None if best is None else ((best, gpus),)
        seats: list[tuple[int, int]] = []
        left = gpus
        empty = [at for at, size in enumerate(self.size) if size and free[at] == size]
        empty.sort(key=lambda at: (-self.size[at], at))
        for at in empty:
            if self.size[at] > left:
                break
            seats.append((at, self.size[at]))
            left -= self.size[at]
        if left:
            taken = {at for at, _ in seats}
            best = _tightest([0 if at in taken else has for at, has in enumerate(free)], left)
            if best is None:
                return None
            seats.append((best, left))
        return tuple(seats)

    def could(self, gpus: int) -> bool:
        """Whether a gang would fit if all nodes that are up were empty."""
        empty = [size if up else 0 for size, up in zip(self.size, self.up, strict=True)]
        return self.find(gpus, empty) is not None

    def holds(self, tasks: Iterable[int]) -> bool:
        """Whether tasks of these sizes have room at once if all `lasting` nodes are empty."""
        free = list(self.lasting)
        for gpus in sorted(tasks, reverse=True):
            best = _tightest(free, gpus)
            if best is None:
                return False
            free[best] -= gpus
        return True

    def take(self, seats: Iterable[tuple[int, int]]) -> None:
        """A gang begins in these seats."""
        for at, gpus in seats:
            self.free[at] -= gpus

    def give_back(self, seats: Iterable[tuple[int, int]]) -> None:
        """A gang in these seats ends."""
        for at, gpus in seats:
            self.free[at] += gpus

    def down(self, at: int, *, for_good: bool = False) -> None:
        """An outage of a node begins; the caller has stopped the gangs that ran there.

        `for_good`: it will never be up again.
        """
        self._outages[at] += 1
        if for_good:
            self.lasting[at] = 0
            self._lasting_changed()
        if not self.up[at]:
            return
        self.gpus -= self.size[at]
        self.up[at] = False
        self.free[at] = 0
        self.version += 1

    def back(self, at: int) -> None:
        """An outage of a node ends; it is up again, and empty, if that was the last one."""
        self._outages[at] -= 1
        if self._outages[at]:
            return
        self.gpus += self.size[at]
        self.up[at] = True
        self.free[at] = self.size[at]
        self.version += 1

    def add(self, gpus: int) -> int:
        """A new node; returns its position."""
        self.size.append(gpus)
        self.free.append(gpus)
        self.up.append(True)
        self._outages.append(0)
        self.gpus += gpus
        self.version += 1
        self.lasting.append(gpus)
        self._lasting_changed()
        return len(self.size) - 1

    def _lasting_changed(self) -> None:
        self.largest = max(self.lasting)
        self.lasting_version += 1


def _tightest(free: Sequence[int], gpus: int) -> int | None:
    best, least = None, 1 << 60
    for at, has in enumerate(free):
        if gpus <= has < least:
            best, least = at, has
            if has == gpus:
                break
    return best
