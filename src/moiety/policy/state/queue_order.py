"""Waiting workloads, in the order in which they are served.

A workload waits in pieces: first the tasks without which it cannot run, all at once, then its extra
tasks, one at a time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from moiety.policy.model.snapshot import Task
from moiety.policy.model.workloads import Shape, Workload
from moiety.policy.queue.queue_usage import QueueUsage, Vector
from moiety.policy.state.cluster_state import ClusterState


@dataclass(frozen=True, slots=True)
class GangPart:
    """Tasks of a workload that begin together or not at all."""

    workload: Workload
    tasks: tuple[tuple[Task, Shape], ...]
    """The tasks, the largest first."""
    shapes: tuple[tuple[Shape, int], ...]
    """The number of tasks of each shape."""
    amounts: Vector
    is_extra: bool
    """Whether the workload runs without them too."""
    is_tied: bool = False
    """Whether it asks for domains of the topology."""
    ties: tuple[object, ...] = ()
    """What it asks for beside room: equal ties are equally hard."""

    @property
    def likeness(self) -> tuple[object, ...]:
        """Equal for pieces of which one has room exactly if the other has."""
        return self.workload.pools, self.shapes, self.ties

    @property
    def claim(self) -> tuple[object, ...]:
        """Equal for pieces that have the same rights, and need the same room."""
        mine = self.workload
        return mine.queue, mine.is_preemptible, mine.priority, self.likeness

    def is_like(self, other: GangPart) -> bool:
        """Whether one gets room exactly if the other does, in the same queue."""
        mine, theirs = self.workload, other.workload
        return (
            self.shapes == other.shapes
            and mine.priority == theirs.priority
            and mine.is_preemptible is theirs.is_preemptible
            and mine.pools == theirs.pools
            and self.ties == other.ties
        )

    def order(self, worth: Mapping[str, float]) -> tuple[int, bool, float, float, str]:
        """Sort key in its queue: priority, needed before extra tasks, worth, age, name."""
        workload = self.workload
        value = worth.get(workload.name, 0.0)
        return -workload.priority, self.is_extra, -value, workload.submitted_s, workload.name


def next_piece(state: ClusterState, workload: Workload) -> GangPart | None:
    """The piece that a workload waits for next; None: all its tasks run."""
    name = workload.name
    if name not in state.unmet:
        return None
    kept = state.kept.get(name)
    if isinstance(kept, GangPart):
        return kept
    piece = _next_piece(state, workload)
    state.kept[name] = piece
    return piece


def _next_piece(state: ClusterState, workload: Workload) -> GangPart:
    name = workload.name
    if len(workload.subgroups) == 1 and not state.tasks_of.get(name):  # the usual case, and quick
        [only] = workload.subgroups
        if only.tasks_min:
            shape, own = only.shape, only.name
            first = [(Task(name, own, index), shape) for index in range(only.tasks_min)]
            return _piece(state, workload, first, is_extra=False)
    needed: list[tuple[Task, Shape]] = []
    extra: tuple[Task, Shape] | None = None
    for subgroup in workload.subgroups:
        running = state.running[name, subgroup.name]
        if running >= subgroup.tasks:
            continue
        wanted = max(subgroup.tasks_min - running, 0)
        if not wanted and (needed or extra):
            continue
        tasks = (Task(name, subgroup.name, index) for index in range(subgroup.tasks))
        waiting = (task for task in tasks if task not in state.seated)
        if wanted:
            needed += [(task, subgroup.shape) for task in islice(waiting, wanted)]
        else:
            extra = next(waiting), subgroup.shape
    if needed:
        needed.sort(key=lambda each: (-each[1].total_milli, -each[1].cpu_milli))
        return _piece(state, workload, needed, is_extra=False)
    assert extra
    return _piece(state, workload, [extra], is_extra=True)


def _piece(
    state: ClusterState, workload: Workload, tasks: list[tuple[Task, Shape]], *, is_extra: bool
) -> GangPart:
    if len(workload.subgroups) == 1:
        shapes: tuple[tuple[Shape, int], ...] = ((tasks[0][1], len(tasks)),)
        own = list(workload.subgroups)
    else:
        shapes = tuple(Counter(shape for _, shape in tasks).items())
        names = {task.subgroup for task, _ in tasks}
        own = [subgroup for subgroup in workload.subgroups if subgroup.name in names]
    is_tied = bool(workload.domain) or any(subgroup.domain for subgroup in own)
    ties: tuple[object, ...] = ()
    if is_tied or state.companies:
        counts = Counter(task.subgroup for task, _ in tasks)
        ties = (
            workload.domain,
            *((each.domain, each.company, each.shape, counts[each.name]) for each in own),
        )
        if is_tied and state.tasks_of.get(workload.name):
            ties = *ties, workload.name  # it has to go where the rest of it is
    amounts = state.amounts_of(shapes)
    return GangPart(workload, tuple(tasks), shapes, amounts, is_extra, is_tied, ties)


def waiting(state: ClusterState) -> dict[str, Vector]:
    """The amounts that each queue waits for in all."""
    total: dict[str, list[int]] = {}
    for name in state.unmet:
        workload = state.workloads[name]
        if workload.is_opportunistic:
            continue
        lacking = [
            (subgroup.shape, subgroup.tasks - state.running[name, subgroup.name])
            for subgroup in workload.subgroups
        ]
        sums = total.setdefault(workload.queue, [0, 0, 0, 0])
        for at, amount in enumerate(state.amounts_of(lacking)):
            sums[at] += amount
    return {queue: tuple(sums) for queue, sums in total.items()}


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
        self._standing: QueueUsage = state.standing
        self._worth = state.worth
        self._keys: dict[tuple[str, Vector], tuple[object, ...]] = {}
        """By queue and the amounts of its next piece; valid until the usage of a queue changes."""
        self._keys_of = state.standing.version
        self._pieces: dict[str, list[tuple[tuple[object, ...], GangPart]]] = {}
        for name in state.unmet:
            if name in without:
                continue
            workload = state.workloads[name]
            if workload.is_opportunistic is not opportunistic:
                continue
            piece = next_piece(state, workload)
            if piece is not None:
                key = piece.order(self._worth)
                self._pieces.setdefault(workload.queue, []).append((key, piece))
        for pieces in self._pieces.values():
            heapq.heapify(pieces)
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
        pieces = self._pieces.get(name)
        if pieces:
            return pieces[0][1]
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
        self,
        attempt: Callable[[GangPart], GangPart | None],
        is_hopeless: Callable[[GangPart], bool] = lambda _: False,
    ) -> Iterator[GangPart]:
        """Try each piece in turn, by the usage of queues after the earlier tries.

        `attempt` returns the next piece of the workload if it got this one; None: no more. After a
        try in vain, `is_hopeless` says whether pieces of the queue that are alike have none either:
        they are left out until a try succeeds. Yields each piece that was tried.
        """
        in_vain: dict[str, list[GangPart]] = {}
        while self._heaps[None]:
            leaf: str | None = None
            while self._heaps.get(leaf):
                leaf = self._heaps[leaf][0][1]
            assert leaf is not None
            _, piece = heapq.heappop(self._pieces[leaf])
            following = attempt(piece)
            if following is None:
                if is_hopeless(piece):
                    in_vain.setdefault(leaf, []).append(piece)
            else:
                in_vain.clear()
                key = following.order(self._worth)
                heapq.heappush(self._pieces[leaf], (key, following))
            pieces = self._pieces[leaf]
            while pieces and any(pieces[0][1].is_like(each) for each in in_vain.get(leaf, ())):
                heapq.heappop(pieces)
            yield piece
            self._moved(leaf)

    def _moved(self, leaf: str) -> None:
        """Put a queue and the queues above it in their places, after its usage has changed."""
        for name in reversed(self._standing.paths[leaf]):
            parent = self._standing.tree.queues[name].parent
            heap = self._heaps[parent]
            heapq.heappop(heap)  # it was first on each level
            key = self._key(name)
            if key is not None:
                heapq.heappush(heap, (key, name))
