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
from moiety.policy.state.waiting_lines import SortKey, WaitingLine, WaitingLines, sort_key

Chance = Callable[[GangPart], Callable[[Workload], bool] | bool]
"""After a try in vain: whether pieces of the kind that come later have a chance, or which do."""


def any_has(_: GangPart) -> bool:
    """Each piece has a chance, and is tried."""
    return True


class _Line:
    """Pieces of one kind in one queue that still have to be served; lines sort by their first."""

    __slots__ = ("_at", "_is_whole", "_key", "_line", "_state", "_work", "_worth")

    def __init__(self, state: ClusterState, line: WaitingLine) -> None:
        self._state = state
        self._worth = state.worth
        self._line = line
        self._work = [line.first(state.worth)]
        """What is served, as far as its order is known."""
        self._is_whole = len(line.entries) == 1
        self._at = 0
        self._key: SortKey | None = None

    @classmethod
    def of_one(cls, state: ClusterState, piece: GangPart) -> _Line:
        """A line of a piece that follows another one of its workload."""
        line = WaitingLine(piece.amounts, is_extra=piece.is_extra)
        workload = piece.workload
        line.add((workload.submitted_s, workload.name, workload))
        return cls(state, line)

    def __lt__(self, other: _Line) -> bool:
        return self.key < other.key

    @property
    def key(self) -> SortKey:
        """Where the first piece stands in its queue."""
        key = self._key
        if key is None:
            first = self._work[self._at]
            key = self._key = sort_key(first, self._worth, is_extra=self._line.is_extra)
        return key

    @property
    def first(self) -> GangPart:
        piece = next_piece(self._state, self._work[self._at])
        assert piece
        return piece

    def pop(self) -> GangPart:
        """The first piece, which is not in the line any more; `skip` goes on to the next."""
        piece = self.first
        self._at += 1
        self._key = None
        return piece

    def skip(self, without: Container[str]) -> bool:
        """Go on to the first workload that waits, none of `without`; False: there is none."""
        unmet, at = self._state.unmet, self._at
        work = self._work
        while True:
            while at < len(work):
                name = work[at].name
                if name in unmet and name not in without:
                    break
                at += 1
                self._key = None
            if at < len(work) or self._is_whole:
                break
            work = self._whole()
        self._at = at
        return at < len(work)

    def _whole(self) -> list[Workload]:
        """Find the order of all that is served."""
        self._work = self._line.in_order(self._worth)
        self._is_whole = True
        return self._work

    def keep(self, has_chance: Callable[[Workload], bool]) -> None:
        """Leave out all other pieces."""
        work = self._work if self._is_whole else self._whole()
        self._work = [each for each in work[self._at :] if has_chance(each)]
        self._at = 0
        self._key = None


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
        self._without = frozenset(without) if isinstance(without, set | frozenset) else without
        self._keys: dict[tuple[str, Vector], tuple[object, ...]] = {}
        """By queue and the amounts of its next piece; valid until the usage of a queue changes."""
        self._keys_of = state.standing.version
        self._lines: dict[str, list[_Line]] = {}
        self._aside: list[tuple[str, _Line]] = []
        """Lines that were left out, with their queues; some may have nothing left."""
        self._is_revived = False
        for queue, lines in WaitingLines.current(state).of.items():
            own = [
                line
                for waiting in lines.values()
                if waiting.entries[0][2].is_opportunistic is opportunistic
                and (line := _Line(state, waiting)).skip(self._without)
            ]
            if own:
                heapq.heapify(own)
                self._lines[queue] = own
        self._heaps: dict[str | None, list[tuple[tuple[object, ...], str]]] = {}
        self._open(None)

    def _open(self, parent: str | None) -> None:
        """Order the queues below a queue."""
        heap = []
        children = self._standing.tree.children
        for queue in children.get(parent, []):
            if queue.name in children:
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
        for has, amount, bound in zip(self._standing.has[name], piece.amounts, bounds, strict=True):
            if amount and bound is not None and has + amount > bound:
                return False
        return True

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
            piece = line.pop()
            self._is_revived = False
            following = attempt(piece)
            chance = True if following is not None else has_chance(piece)
            if callable(chance):
                line.keep(chance)
            if not chance:
                self._aside.append((leaf, line))
            elif line.skip(self._without):
                heapq.heappush(lines, line)
            if following is not None:
                heapq.heappush(lines, _Line.of_one(self._state, following))
            yield piece
            if self._is_revived:
                self._open(None)
            else:
                self._moved(leaf)

    def revive(self) -> None:
        """Serve again what is left of lines that were left out, because others have ended."""
        for leaf, line in self._aside:
            if line.skip(self._without):
                heapq.heappush(self._lines[leaf], line)
                self._is_revived = True
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
