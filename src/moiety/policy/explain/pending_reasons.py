"""Why a piece waits: the refusal that its workload is given, true and with numbers."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from moiety.policy.backfill import Reservation
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.decisions import PlacementRefusal, Reason
from moiety.policy.model.queues import UNITS
from moiety.policy.model.snapshot import Task
from moiety.policy.model.workloads import Shape, Workload
from moiety.policy.place.arrays import EmptySlots
from moiety.policy.queue.queue_usage import GPU_MILLI, Excess
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart, next_piece
from moiety.policy.state.gang_start import candidates, required, start_piece
from moiety.policy.state.waiting_lines import WaitingLines

NO_TIME: Final = "the time for this cycle was used up before it was looked at"


class PendingReasons:
    """Finds the reasons in the state after a cycle; equal pieces are looked at once."""

    def __init__(self, state: ClusterState, reserved: Sequence[Reservation]) -> None:
        self._state = state
        self._reserved = reserved
        self._known: dict[int, PlacementRefusal] = {}

    def all(self, without: Container[str]) -> list[PlacementRefusal]:
        """Why each workload waits that is not in `without`, by name."""
        state = self._state
        found: list[PlacementRefusal] = []
        for lines in WaitingLines.current(state).of.values():
            for line in lines.values():
                work = [each for _, _, each in line.entries if each.name not in without]
                found += self._of_line(work)
        found.sort(key=lambda each: each.task.workload)
        return found

    def _of_line(self, workloads: Sequence[Workload]) -> Iterator[PlacementRefusal]:
        """The same reason for each, but that time may be used up before one is looked at."""
        first: PlacementRefusal | None = None
        for workload in workloads:
            if first is None or self._state.budget.is_bounded:
                piece = next_piece(self._state, workload)
                assert piece
                first = self.of(piece)
                yield first
            else:
                task = Task(workload.name, first.task.subgroup, first.task.index)
                yield PlacementRefusal(
                    task, first.reason, first.text, first.is_final, first.numbers
                )

    def of(self, piece: GangPart) -> PlacementRefusal:
        """Why a piece has no place."""
        task, _ = piece.tasks[0]
        if self._state.budget.is_past():
            return PlacementRefusal(task, Reason.NOT_YET, NO_TIME)
        if not piece.workload.is_opportunistic:
            refusal = self._by_queue(piece)
            if refusal:
                return refusal
        refusal = self._known.get(piece.likeness)
        if refusal is None:
            if self._state.budget.is_used_up():
                return PlacementRefusal(task, Reason.NOT_YET, NO_TIME)
            refusal = self._by_size(piece) or self._by_room(piece)
            self._known[piece.likeness] = refusal
        text = refusal.text
        if not refusal.is_final and not piece.workload.is_opportunistic:
            text = f"{text}; {stands(self._state, piece.workload.queue)}"
        return replace(refusal, task=task, text=text)

    def _by_queue(self, piece: GangPart) -> PlacementRefusal | None:
        standing, workload = self._state.standing, piece.workload
        kinds = [(Reason.QUEUE_LIMIT, "limit", standing.over_limit)]
        if not workload.is_preemptible:
            kinds.append((Reason.QUEUE_QUOTA, "quota", standing.over_quota))
        if not self._state.tasks_of.get(workload.name):
            for reason, bound, _ in kinds:
                excess = standing.ever_over(
                    workload.queue, piece.amounts, quota=reason is Reason.QUEUE_QUOTA
                )
                if excess is not None:
                    return _refusal(piece, excess, reason, bound, is_final=True)
        for reason, bound, over in kinds:
            excess = over(workload.queue, piece.amounts)
            if excess is not None:
                return _refusal(piece, excess, reason, bound)
        return None

    def _by_size(self, piece: GangPart) -> PlacementRefusal | None:
        """Whether it is too large for all nodes together, or for each domain, even if empty."""
        state = self._state
        if len(piece.tasks) == 1 or state.tasks_of.get(piece.workload.name):
            return None
        drained: PlacementRefusal | None = None
        for refusal in self._sizes(piece, list(state.pools.open_to(piece.workload))):
            if refusal.is_final:
                return refusal
            drained = drained or refusal
        return drained

    def _sizes(self, piece: GangPart, pools: Sequence[str]) -> Iterator[PlacementRefusal]:
        """Each respect in which it is too large: for ever, or while GPUs are drained or lost."""
        state = self._state
        refusal = self._by_sum(piece, pools)
        if refusal is not None:
            yield refusal
        domain = required(piece)
        clusters = [state.pools.placers[pool].cluster for pool in pools]
        for shape, count in piece.shapes:
            slots = EmptySlots.total([each.slots_when_empty(shape) for each in clusters])
            if slots.installed and slots.healthy < count:
                yield self._too_few(
                    piece,
                    Reason.NODE_SIZE,
                    f"it needs places for {count} tasks at once, each with {shape}: "
                    "all nodes together have",
                    count,
                    slots,
                )
            if domain is None or not slots.installed:
                continue
            areas = state.domains.areas(domain.level)
            found = [state.domains.slots_when_empty(area, shape, pools) for area in areas]
            most = EmptySlots(
                max((each.installed for each in found), default=0),
                max((each.healthy for each in found), default=0),
            )
            if most.healthy < count:
                yield self._too_few(
                    piece,
                    Reason.TOPOLOGY,
                    f"it needs places for {count} tasks in one {domain.level}, each with {shape}: "
                    f"the largest of {len(areas)} has",
                    count,
                    most,
                )

    def _too_few(
        self, piece: GangPart, reason: Reason, text: str, count: int, slots: EmptySlots
    ) -> PlacementRefusal:
        """Why `count` tasks have too few places, how many of which comes after `text`."""
        is_final = slots.installed < count
        places = slots.installed if is_final else slots.healthy
        text = f"{text} {places}, even when empty"
        numbers = {"tasks": count, "places_when_empty": places}
        return self._too_large(piece, reason, text, numbers, is_final=is_final)

    def _too_large(
        self,
        piece: GangPart,
        reason: Reason,
        text: str,
        numbers: dict[str, int],
        *,
        is_final: bool,
    ) -> PlacementRefusal:
        """A piece is too large for empty nodes: for ever, or while GPUs are drained or lost."""
        task, _ = piece.tasks[0]
        if is_final:
            return PlacementRefusal(task, reason, text, True, numbers)
        placers = self._state.pools.placers
        there = [placers[pool].cluster for pool in self._state.pools.open_to(piece.workload)]
        gpus = sum(int((each.installed - each.capacity).sum()) for each in there) // WHOLE_GPU
        text = f"{text}, while {gpus} of their GPUs {'is' if gpus == 1 else 'are'} drained or lost"
        numbers["gpus_drained"] = gpus
        return PlacementRefusal(task, Reason.GPUS_DRAINED, text, numbers=numbers)

    def _by_sum(self, piece: GangPart, pools: Sequence[str]) -> PlacementRefusal | None:
        """Whether all tasks with GPUs together ask for more than all nodes have when empty.

        Each task asks for no less than the smallest of them in each respect: there must be as many
        places for the smallest as there are tasks.
        """
        wanted = [(shape, count) for shape, count in piece.shapes if shape.gpus]
        if len(wanted) < 2:
            return None
        shapes = [shape for shape, _ in wanted]
        least = Shape(
            min(shape.cpu_milli for shape in shapes),
            min(shape.memory_mib for shape in shapes),
            min(shape.gpus for shape in shapes),
            max(min(shape.gpu_milli for shape in shapes), 1),
        )
        tasks = sum(count for _, count in wanted)
        asked = sum(shape.total_milli * count for shape, count in wanted)
        clusters = [self._state.pools.placers[pool].cluster for pool in pools]
        slots = EmptySlots.total([each.slots_when_empty(least) for each in clusters])
        installed = sum(int(each.installed.sum()) for each in clusters)
        healthy = sum(each.gpu_milli_total for each in clusters)
        if slots.healthy >= tasks and healthy >= asked:
            return None
        is_final = slots.installed < tasks or installed < asked
        there = installed if is_final else healthy
        places = slots.installed if is_final else slots.healthy
        text = (
            f"it needs places for {tasks} tasks with GPUs at once, {_gpus(asked)} GPUs in all: all "
            f"nodes together have {_gpus(there)} GPUs and {places} places, even when empty"
        )
        numbers = {"tasks": tasks, "places_when_empty": places, "gpu_milli_when_empty": there}
        return self._too_large(piece, Reason.NODE_SIZE, text, numbers, is_final=is_final)

    def _by_room(self, piece: GangPart) -> PlacementRefusal:
        """Place what can be placed, and ask about the first task that cannot."""
        state = self._state
        mark = state.mark()
        left_to, state.left_to = state.left_to, None
        refusal = None
        has_room = start_piece(state, piece)
        if not has_room:
            for task, shape in piece.tasks:
                if not state.try_start(task, shape, piece.workload):
                    masks = state.masks(task)
                    if state.pools.find(shape, piece.workload, masks) is None:
                        refusal = state.pools.refuse(shape, task, piece.workload, masks)
                    break
            state.back(mark)
            refusal = refusal or self._by_area(piece)
        state.back(mark)
        state.left_to = left_to
        return refusal or self._kept(piece)

    def _by_area(self, piece: GangPart) -> PlacementRefusal | None:
        domain = required(piece)
        if domain is None:
            return None
        state = self._state
        pools = list(state.pools.open_to(piece.workload))
        areas = candidates(state, piece, domain)
        rooms: list[tuple[int, int, str]] = []
        for shape, count in piece.shapes:
            found = [(state.domains.slots(area, shape, pools), area.name) for area in areas]
            most, name = max(found, default=(0, ""))
            rooms.append((count - most, most, name))
        lacking, most, name = max(rooms)
        best = f"the one with most room, {name}, has {most}" if most else "none has any"
        text = (
            f"it needs places for {len(piece.tasks)} tasks in one {domain.level}: "
            f"of {len(areas)}, {best}"
        )
        if lacking <= 0:
            text += ", but not for all of its tasks together"
        numbers = {"tasks": len(piece.tasks), "most_places": most, "domains": len(areas)}
        return PlacementRefusal(piece.tasks[0][0], Reason.TOPOLOGY, text, False, numbers)

    def _in_the_way(self, piece: GangPart) -> Reservation | None:
        """The reservation beside which a piece with room has none."""
        state, workload = self._state, piece.workload
        others = [
            each
            for each in self._reserved
            if each.task.workload != workload.name and each.task not in state.seated
        ]
        mark, left_to = state.mark(), state.left_to
        state.left_to = None
        found = others[-1] if others else None
        for kept in others[:-1]:
            has_room = start_piece(state, piece, kept.left_to(state, workload))
            state.back(mark)
            if not has_room:
                found = kept
                break
        state.left_to = left_to
        return found

    def _kept(self, piece: GangPart) -> PlacementRefusal:
        task, _ = piece.tasks[0]
        kept = self._in_the_way(piece)
        if kept is not None:
            wait_s = kept.start_s - self._state.snapshot.now_s
            text = (
                f"the room that there is is kept for {kept.task.workload}, which is expected to "
                f"begin in {wait_s:.0f} s, and this may run for longer"
            )
            return PlacementRefusal(
                task, Reason.RESERVED, text, numbers={"expected_s": round(wait_s)}
            )
        return PlacementRefusal(task, Reason.NOT_YET, "there is room, and it is next")


def ending(
    state: ClusterState, theirs: Workload, mine: Workload, word: str, had: Mapping[str, int]
) -> str:
    """Why a workload ends for another; `had` has what queues had before."""
    if word == "preempted" and not theirs.is_opportunistic:
        return (
            f"preempted: {mine.name} has priority {mine.priority}, {theirs.name} {theirs.priority}"
        )
    if word == "outranked":
        times = state.worth[mine.name] / max(state.worth[theirs.name], 1e-30)
        return (
            f"outranked: by the run times of work like them, a GPU-second is worth {times:.1f} "
            f"times as much for {mine.name} as for {theirs.name}"
        )
    if theirs.is_opportunistic:
        return f"displaced: {theirs.name} is opportunistic, and {mine.name} wants the room"
    ours = stands(state, mine.queue, had)
    return f"{word}: {stands(state, theirs.queue, had)}; {ours}, and {mine.name} waits"


def stands(state: ClusterState, queue: str, had: Mapping[str, int] | None = None) -> str:
    """What a queue has, and should have, in words; `had` has what queues had at another moment."""
    standing = state.standing
    has = standing.has[queue][GPU_MILLI] if had is None else had[queue]
    fair = standing.fair[queue][GPU_MILLI]
    quota = standing.quota[queue][GPU_MILLI]
    own = "" if quota is None else f", its quota is {_gpus(quota)}"
    credit = standing.credit.get(queue, 0.0) / 3600
    if round(credit, 1):
        of_late = f"{abs(credit):.1f} GPU-hours {'less' if credit > 0 else 'more'} than its part"
        own += f", and it had {of_late} of late"
    return f"queue {queue} has {_gpus(has)} of a fair share of {_gpus(fair)} GPUs{own}"


def _refusal(
    piece: GangPart, excess: Excess, reason: Reason, bound: str, *, is_final: bool = False
) -> PlacementRefusal:
    task, _ = piece.tasks[0]
    of = excess.resource
    what, one = UNITS[of]
    wanted, most = f"{excess.wanted / one:.15g} {what}", f"{excess.bound / one:.15g}"
    own = " that must not be taken away" if reason is Reason.QUEUE_QUOTA else ""
    ever = "by it alone, " if is_final else ""
    text = f"{ever}queue {excess.queue} would have {wanted}{own}, and its {bound} is {most}"
    numbers = {f"wanted_{of}": excess.wanted, f"{bound}_{of}": excess.bound}
    return PlacementRefusal(task, reason, text, is_final, numbers)


def _gpus(milli: int) -> str:
    return f"{milli / WHOLE_GPU:g}"
