"""New places for all work within quota, when the present places leave some of it no room.

Work within quota gets places first: beside what runs within quota, or else the largest first, each
in its own place if it can. Work beyond quota comes back as far as it has room. If all sizes, the
nodes' too, are powers of two, that finds places if there are enough GPUs.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

from moiety.policy.model.workloads import Workload
from moiety.policy.preempt.preemption_trial import EndedUnit, come_back
from moiety.policy.preempt.victims import Victims, VictimUnit
from moiety.policy.queue.queue_usage import GPU_MILLI, QueueUsage, Vector
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart, next_piece
from moiety.policy.state.gang_start import start_piece
from moiety.policy.state.waiting_lines import WaitingLines, sort_key

MOVES_MAX: Final = 1 << 30


def within_quota(state: ClusterState, without: Container[str]) -> list[GangPart]:
    """The waiting pieces that their queues' quotas would take, in the order of service."""
    found: list[GangPart] = []
    standing = state.standing
    for queue, lines in WaitingLines.current(state).of.items():
        for line in lines.values():
            workload = line.entries[0][2]
            piece = next_piece(state, workload)
            if piece is None or workload.is_opportunistic:
                continue
            if not standing.within(queue, 0, piece.amounts, quota=True):
                continue
            if _is_bounded(standing, queue, piece.amounts) and state.may_start(
                workload, piece.amounts
            ):
                found += _pieces(state, [each for _, _, each in line.entries], without)
    worth = state.worth
    found.sort(key=lambda piece: sort_key(piece.workload, worth, is_extra=piece.is_extra))
    return found


def _pieces(
    state: ClusterState, work: Iterable[Workload], without: Container[str]
) -> Iterator[GangPart]:
    for each in work:
        if each.name not in without:
            piece = next_piece(state, each)
            assert piece
            yield piece


def repack(
    state: ClusterState, leavers: Victims, waits: Sequence[GangPart]
) -> list[EndedUnit] | None:
    """Let all pieces of `waits` begin that stay within quota beside what runs within quota.

    Returns the units that ended or moved; the result then stands in the state. None: there is no
    such piece, or no way; nothing has changed.
    """
    units = [
        unit
        for queue in leavers.queues
        for unit in leavers.of(queue)
        if all(task in state.seated for task in unit.tasks)
    ]
    units.sort(key=lambda unit: (-state.worth.get(unit.workload.name, 0.0), unit.order))
    bound = _QuotaBound(state, units)
    sits = [unit for unit in units if bound.takes(unit.workload.queue, _amounts(state, unit))]
    begin = [piece for piece in waits if bound.takes(piece.workload.queue, piece.amounts)]
    if not begin:
        return None
    chosen = {unit.tasks for unit in sits}
    others = [unit for unit in units if unit.tasks not in chosen]
    begin.sort(key=lambda piece: -piece.amounts[GPU_MILLI])
    mark = state.mark()
    for may_stay, stopped in ((True, others), (True, units), (False, units)):
        ended = {unit.tasks: _stop(state, unit) for unit in stopped}
        must = [ended[unit.tasks] for unit in sits if unit.tasks in ended]
        if _seat(state, must, begin, may_stay=may_stay):
            come_back(state, [ended[unit.tasks] for unit in reversed(others)], MOVES_MAX)
            if not _breaks_priority(state, others, begin):
                return list(ended.values())
        state.back(mark)
    return None


def _breaks_priority(
    state: ClusterState, units: Iterable[VictimUnit], begun: Iterable[GangPart]
) -> bool:
    """Whether a unit has no place any more, and work of its queue with less priority begins.

    It would take the room back by its priority, and so on without end.
    """
    least: dict[str, int] = {}
    for piece in begun:
        queue, priority = piece.workload.queue, piece.workload.priority
        least[queue] = min(priority, least.get(queue, priority))
    return any(
        unit.workload.priority > least.get(unit.workload.queue, unit.workload.priority)
        for unit in units
        if unit.tasks[0] not in state.seated
    )


class _QuotaBound:
    """Counts what fits within quota, on each level, beside what cannot end."""

    def __init__(self, state: ClusterState, units: Iterable[VictimUnit]) -> None:
        self._standing = state.standing
        self._has = {name: list(has) for name, has in state.standing.has.items()}
        for unit in units:
            self._add(unit.workload.queue, _amounts(state, unit), -1)

    def _add(self, queue: str, amounts: Vector, sign: int) -> None:
        for name in self._standing.paths[queue]:
            for at, amount in enumerate(amounts):
                self._has[name][at] += sign * amount

    def takes(self, queue: str, amounts: Vector) -> bool:
        """Whether these amounts more are within quota; then they count.

        What no quota bounds is not promised, so it is not within quota.
        """
        if not _is_bounded(self._standing, queue, amounts):
            return False
        for name in self._standing.paths[queue]:
            bounds = self._standing.quota[name]
            for amount, has, bound in zip(amounts, self._has[name], bounds, strict=True):
                if amount and bound is not None and has + amount > bound:
                    return False
        self._add(queue, amounts, 1)
        return True


def _is_bounded(standing: QueueUsage, queue: str, amounts: Vector) -> bool:
    """Whether a quota, of the queue or one above it, bounds any of these amounts."""
    return any(
        amount and bound is not None
        for name in standing.paths[queue]
        for amount, bound in zip(amounts, standing.quota[name], strict=True)
    )


def _amounts(state: ClusterState, unit: VictimUnit) -> Vector:
    seated = [state.seated[task].amounts for task in unit.tasks]
    return seated[0] if len(seated) == 1 else tuple(map(sum, zip(*seated, strict=True)))


def _stop(state: ClusterState, unit: VictimUnit) -> EndedUnit:
    return EndedUnit(unit, tuple(state.stop(task) for task in unit.tasks))


def _seat(
    state: ClusterState, must: Sequence[EndedUnit], begin: Sequence[GangPart], *, may_stay: bool
) -> bool:
    """Let all of these have places, the largest first, and among equals what ran before."""
    line: list[tuple[int, int, EndedUnit | GangPart]] = [
        (-sum(one.amounts[GPU_MILLI] for one in each.seated), at, each)
        for at, each in enumerate(must)
    ]
    line += [(-each.amounts[GPU_MILLI], len(must) + at, each) for at, each in enumerate(begin)]
    line.sort(key=lambda each: each[:2])
    for _, _, each in line:
        if isinstance(each, GangPart):
            if not start_piece(state, each):
                return False
        elif may_stay:
            if not come_back(state, [each], MOVES_MAX):
                return False
        elif not all(
            state.try_start(task, seated.shape, each.unit.workload)
            for task, seated in zip(each.unit.tasks, each.seated, strict=True)
        ):
            return False
    return True
