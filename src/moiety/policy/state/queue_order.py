"""The order in which waiting pieces are served: by queue, then by priority, worth and age.

Pieces that have the same rights and need the same room are one kind, and stand in one line. A line
is left out as a whole once its first piece has no chance, so that serving all costs kinds of work
and not pieces.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterator

from moiety.policy.model.workloads import Workload
from moiety.policy.queue.queue_usage import QueueUsage, Vector
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart, next_piece
from moiety.policy.state.waiting_lines import Entry, WaitingLines, sort_key

Chance = Callable[[GangPart], Callable[[Workload], bool] | bool]
"""After a try in vain: whether pieces of the kind that come later have a chance, or which do."""


def any_has(_: GangPart) -> bool:
    """Each piece has a chance, and is tried."""
    return True


class _Line:
    """Pieces of one kind in one queue that still have to be served; lines sort by their first."""

    __slots__ = ("at", "entries", "state")

    def __init__(self, state: ClusterState, entries: list[Entry]) -> None:
        self.state = state
        self.entries = entries
        self.at = 0

    def __lt__(self, other: _Line) -> bool:
        return self.entries[self.at][0] < other.entries[other.at][0]

    @property
    def first(self) -> GangPart:
        piece = next_piece(self.state, self.entries[self.at][1])
        assert piece
        return piece

    def skip(self, without: Container[str]) -> bool:
        """Go on to the first workload that waits, none of `without`; False: there is none."""
        entries, at, unmet = self.entries, self.at, self.state.unmet
        while at < len(entries):
            name = entries[at][1].name
            if name in unmet and name not in without:
                break
            at += 1
        self.at = at
        return at < len(entries)

    def keep(self, has_chance: Callable[[Workload], bool]) -> None:
        """Leave out all other pieces."""
        self.entries = [each for each in self.entries[self.at :] if has_chance(each[1])]
        self.at = 0


class QueueOrder:
    """All waiting pieces, served queue by queue: first the queue furthest below its due.

    Among the children of a queue, a queue that stays within quota comes first, then one that stays
    within its fair share, then one with credit for a turn, then the others. Among equals the order
    is by priority, then by what each would have in relation to what it should have, then by age.
    Within a queue it is by priority, then by worth where that is known, then by age.
    """

    def __init__(
        self, state: ClusterState, without: Container[str] = (), *, opportunistic: bool = False
    ) -> None:
        self._state = state
        self._standing: QueueUsage = state.standing
        self._worth = state.worth
        self._without = frozenset(without) if isinstance(without, set | frozenset) else without
        self._keys: dict[tuple[str, Vector], tuple[object, ...]] = {}
        """By queue and the amounts of its next piece; valid until the usage of a queue changes."""
        self._keys_of = state.standing.version
        self._lines: dict[str, list[_Line]] = {}
        self._aside: list[tuple[str, _Line]] = []
        """Lines that were left out, with their queues."""
        for queue, lines in WaitingLines.current(state).of.items():
            own = [
                line
                for entries in lines.values()
                if entries[0][1].is_opportunistic is opportunistic
                and (line := _Line(state, entries)).skip(self._without)
            ]
            if own:
                heapq.heapify(own)
                self._lines[queue] = own
        self._heaps: dict[str | None, list[tuple[tuple[object, ...], str]]] = {}
        self._open(None)

    def _open(self, parent: str | None) -> None:
        """Order the queues below a queue."""
        heap = []
        for queue in self._standing.tree.children.get(parent, []):
            self._open(queue.name)
            key = self._key(queue.name)
            if key is not None:
                heap.append((key, queue.name))
        heapq.heapify(heap)
        self._heaps[parent] = heap

    def _head(self, name: str) -> GangPart | None:
        lines = self._lines.get(name)
        if lines:
            return lines[0].first
        heap = self._heaps.get(name)
        return self._head(heap[0][1]) if heap else None

    def _key(self, name: str) -> tuple[object, ...] | None:
        """The sort key of a queue among its siblings, if its next piece got a place."""
        piece = self._head(name)
        if piece is None:
            return None
        standing = self._standing
        if self._keys_of != standing.version:
            self._keys_of = standing.version
            self._keys.clear()
        key = self._keys.get((name, piece.amounts))
        if key is None:
            key = self._key_of(name, piece)
            self._keys[name, piece.amounts] = key
        return key

    def _key_of(self, name: str, piece: GangPart) -> tuple[object, ...]:
        standing = self._standing
        fits_quota = self._fits(name, piece, quota=True)
        fits_share = fits_quota or self._fits(name, piece, quota=False)
        queue = standing.tree.queues[name]
        return (
            0 if fits_quota else 1 if fits_share else 2 if self._has_turn(name, piece) else 3,
            -queue.priority,
            standing.ratio(name, piece.amounts),
            standing.ratio(name),
            standing.part(name, piece.amounts),
            queue.created_s,
            name,
        )

    def _fits(self, name: str, piece: GangPart, *, quota: bool) -> bool:
        bounds = self._standing.quota[name] if quota else self._standing.fair[name]
        has = self._standing.has[name]
        return all(
            not amount or bound is None or has[at] + amount <= bound
            for at, (amount, bound) in enumerate(zip(piece.amounts, bounds, strict=True))
        )

    def _has_turn(self, name: str, piece: GangPart) -> bool:
        level = len(self._standing.paths[name]) - 1
        return self._standing.has_turn(name, level, piece.amounts)

    def serve(
        self, attempt: Callable[[GangPart], GangPart | None], has_chance: Chance = any_has
    ) -> Iterator[GangPart]:
        """Try each piece in turn, by the usage of queues after the earlier tries.

        `attempt` returns the next piece of the workload if it got this one; None: no more. After a
        try in vain, `has_chance` says what to do with later pieces of the kind: those without a
        chance are left out, until `revive`. Yields each piece that was tried.
        """
        while self._heaps[None]:
            leaf: str | None = None
            while self._heaps.get(leaf):
                leaf = self._heaps[leaf][0][1]
            assert leaf is not None
            lines = self._lines[leaf]
            line = heapq.heappop(lines)
            piece = line.first
            line.at += 1
            aside = len(self._aside)
            following = attempt(piece)
            chance = True if following is not None else has_chance(piece)
            if callable(chance):
                line.keep(chance)
            if line.skip(self._without):
                if chance:
                    heapq.heappush(lines, line)
                else:
                    self._aside.append((leaf, line))
            if following is not None:
                entry = sort_key(following, self._worth), following.workload
                heapq.heappush(lines, _Line(self._state, [entry]))
            yield piece
            if len(self._aside) < aside:  # revived
                self._open(None)
            else:
                self._moved(leaf)

    def revive(self) -> None:
        """Serve again what is left of lines that were left out, because others have ended."""
        for leaf, line in self._aside:
            heapq.heappush(self._lines[leaf], line)
        self._aside.clear()

    def _moved(self, leaf: str) -> None:
        """Put a queue and the queues above it in their places, after its usage has changed."""
        for name in reversed(self._standing.paths[leaf]):
            parent = self._standing.tree.queues[name].parent
            heap = self._heaps[parent]
            heapq.heappop(heap)  # it was first on each level
            key = self._key(name)
            if key is not None:
                heapq.heappush(heap, (key, name))
