"""Who may be made to yield, for whom, and who first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from moiety.policy.pending import Piece
from moiety.policy.snapshot import Task
from moiety.policy.standing import CLOSE
from moiety.policy.state import State
from moiety.policy.workloads import Workload


@dataclass(frozen=True, slots=True)
class Unit:
    """Tasks that end together: one that its workload can do without, or all that it cannot."""

    workload: Workload
    tasks: tuple[Task, ...]
    is_extra: bool
    since_s: float = 0.0
    """when the last of them began: so much work is lost, if it keeps nothing"""

    @property
    def order(self) -> tuple[int, bool, float, float, str, int]:
        """Who yields first: low priority, what can be done without, the youngest."""
        workload = self.workload
        return (
            workload.priority,
            not self.is_extra,
            -self.since_s,
            -workload.submitted_s,
            _backwards(workload.name),
            -self.tasks[0].index,
        )


def _backwards(name: str) -> str:
    """Names in the opposite order: who is served first among equals yields last."""
    return "".join(chr(0x10FFFF - ord(each)) for each in name)


def units(state: State, min_run_s: float = 0.0) -> dict[str, list[Unit]]:
    """All that could be ended, by queue, first who yields first. Nothing that is guaranteed."""
    tasks: dict[tuple[str, str], list[Task]] = {}
    for task in state.seated:
        tasks.setdefault((task.workload, task.subgroup), []).append(task)
    found: dict[str, list[Unit]] = {}
    for name in {workload for workload, _ in tasks}:
        workload = state.workloads[name]
        if not workload.is_preemptible:
            continue
        core: list[Task] = []
        extra: list[Task] = []
        for subgroup in workload.subgroups:
            own = sorted(tasks.get((name, subgroup.name), ()), key=lambda task: task.index)
            core += own[: subgroup.tasks_min]
            extra += own[subgroup.tasks_min :]
        if min_run_s and not _ran_for(state, [*core, *extra], min_run_s):
            continue
        below = found.setdefault(workload.queue, [])
        below += [Unit(workload, (task,), True, _since(state, [task])) for task in extra]
        if core:
            below.append(Unit(workload, tuple(core), False, _since(state, core)))
    for below in found.values():
        below.sort(key=lambda unit: unit.order)
    return found


def _since(state: State, tasks: Iterable[Task]) -> float:
    """When the last of them began; now, for what this cycle itself started."""
    now = state.snapshot.now_s
    return max(state.began[task].since_s if task in state.began else now for task in tasks)


def _ran_for(state: State, tasks: Iterable[Task], min_run_s: float) -> bool:
    return state.snapshot.now_s - _since(state, tasks) >= min_run_s


class Right:
    """By what right a piece takes from other queues; asked before each unit, and in the end.

    Queues are compared where their paths part: there, and below on the side of the piece. It may
    take from who has more than its quota, as long as the piece's side stays within quota. And from
    who has more than its fair share, as long as the piece's side stays within its own and in the
    end neither has more of what it should have than who yielded, nor that one less than its quota.
    """

    def __init__(self, state: State, piece: Piece) -> None:
        self._standing = state.standing
        self._queue = piece.workload.queue
        self._amounts = piece.amounts
        self._taken: dict[str, bool] = {}
        """of whom something was taken, and whether by fair share alone"""

    def _side(self, other: str) -> tuple[int, str, str]:
        level = self._standing.fork(self._queue, other)
        return level, self._standing.paths[self._queue][level], self._standing.paths[other][level]

    def _by_quota(self, other: str) -> bool:
        level, _, theirs = self._side(other)
        standing = self._standing
        if not standing.is_over_quota(theirs):
            return False
        return standing.within(self._queue, level, self._amounts, quota=True)

    def could(self, other: str) -> bool:
        """Whether anything may be taken from that queue now, before the piece has its place."""
        if other == self._queue:
            return False
        if self._by_quota(other):
            return True
        level, _, theirs = self._side(other)
        standing = self._standing
        if not standing.is_over_fair_share(theirs):
            return False
        return standing.within(self._queue, level, self._amounts, quota=False)

    def take(self, other: str) -> None:
        """Something is about to be taken from it."""
        self._taken[other] = not self._by_quota(other) or self._taken.get(other, False)

    def holds(self) -> bool:
        """Whether it was right in the end, when the piece has its place."""
        for other, by_share in self._taken.items():
            level, mine, theirs = self._side(other)
            if not self._standing.is_within(self._queue, level, self._amounts, quota=not by_share):
                return False
            if by_share and self._standing.is_below_quota(theirs):
                return False
            if by_share and self._standing.ratio(mine) > self._standing.ratio(theirs) + CLOSE:
                return False
        return True

    def order(self, other: str) -> tuple[float, float, int]:
        """Which queue yields first: who has most of what it should have."""
        _, _, theirs = self._side(other)
        standing = self._standing
        return (
            -standing.ratio(theirs),
            -standing.ratio(other),
            standing.tree.queues[theirs].priority,
        )


def by_right(
    right: Right, below: dict[str, list[Unit]], only: set[Unit] | None = None
) -> Iterator[Unit]:
    """Units of other queues, one after the other, as long as the right to them lasts.

    Who yields next depends on what those before have left, so each has to end before the next is
    asked for. `only` restricts them.
    """
    left = {
        queue: deque(unit for unit in found if only is None or unit in only)
        for queue, found in below.items()
    }
    while True:
        open_ = [queue for queue, found in left.items() if found and right.could(queue)]
        if not open_:
            return
        queue = min(open_, key=lambda each: (*right.order(each), left[each][0].order))
        right.take(queue)
        yield left[queue].popleft()
