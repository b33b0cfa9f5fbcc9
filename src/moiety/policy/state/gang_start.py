"""Lets a piece begin: all of its tasks, in the domains that they ask for, or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from moiety.policy.model.snapshot import Task
from moiety.policy.model.workloads import Domain, Shape, Strictness, Subgroup
from moiety.policy.place.pools import Masks, Place, both
from moiety.policy.place.topology import Area
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart

AREAS_TRIED_MAX: Final = 64
"""The most domains in which a piece is tried, the tightest first."""

Tasks = list[tuple[Task, Shape]]


def start_piece(state: ClusterState, piece: GangPart, masks: Masks | None = None) -> bool:
    """Begin all tasks of a piece, or none. `masks` restricts where."""
    mark = state.mark()
    if not piece.is_tied:
        started = _start(state, piece, piece.tasks, masks)
    else:
        started = _start_tied(state, piece, masks)
    if not started:
        state.back(mark)
    return started


def _start(
    state: ClusterState, piece: GangPart, tasks: Iterable[tuple[Task, Shape]], masks: Masks | None
) -> bool:
    return all(state.try_start(task, shape, piece.workload, masks) for task, shape in tasks)


def _start_tied(state: ClusterState, piece: GangPart, masks: Masks | None) -> bool:
    domain = piece.workload.domain
    if domain is None:
        return _start_subgroups(state, piece, masks)
    mark = state.mark()
    for area in areas(state, piece, domain, piece.tasks):
        if _start_subgroups(state, piece, both(masks, area.masks)):
            return True
        state.back(mark)
    return domain.strictness is Strictness.PREFERRED and _start_subgroups(state, piece, masks)


def _start_subgroups(state: ClusterState, piece: GangPart, masks: Masks | None) -> bool:
    return all(
        _start_subgroup(state, piece, subgroup, tasks, masks)
        for subgroup, tasks in subgroups(piece)
    )


def subgroups(piece: GangPart) -> Iterator[tuple[Subgroup, Tasks]]:
    """The tasks of a piece by subgroup, in the order of the piece: the largest first."""
    parts: dict[str, Tasks] = {}
    for task, shape in piece.tasks:
        parts.setdefault(task.subgroup, []).append((task, shape))
    by_name = {subgroup.name: subgroup for subgroup in piece.workload.subgroups}
    for name, tasks in parts.items():
        yield by_name[name], tasks


def _start_subgroup(
    state: ClusterState, piece: GangPart, subgroup: Subgroup, tasks: Tasks, masks: Masks | None
) -> bool:
    domain = subgroup.domain
    if domain is None:
        return _start(state, piece, tasks, masks)
    mark = state.mark()
    found = areas(state, piece, domain, tasks)
    for area in found:
        if _start(state, piece, tasks, both(masks, area.masks)):
            return True
        state.back(mark)
    if domain.strictness is Strictness.REQUIRED:
        return False
    return _spread(state, piece, domain, tasks, masks)


def _spread(
    state: ClusterState, piece: GangPart, domain: Domain, tasks: Tasks, masks: Masks | None
) -> bool:
    """Begin tasks in as few domains as possible, the one with the most room first."""
    shape = tasks[0][1]
    pools = list(state.pools.open_to(piece.workload))
    sized = [
        (state.domains.slots(area, shape, pools), area)
        for area in state.domains.areas(domain.level)
    ]
    sized.sort(key=lambda each: (-each[0], each[1].name))
    left = list(tasks)
    for slots, area in sized:
        if not slots or not left:
            break
        within = both(masks, area.masks)
        while left and state.try_start(*left[0], piece.workload, within):
            left.pop(0)
    return _start(state, piece, left, masks)


def areas(
    state: ClusterState, piece: GangPart, domain: Domain, tasks: Iterable[tuple[Task, Shape]]
) -> list[Area]:
    """The domains that could take all of these tasks, the tightest first.

    If other tasks of the gang (or of the subgroup) run, only their domain will do.
    """
    found = candidates(state, piece, domain)
    counts: dict[Shape, int] = {}
    for _, shape in tasks:
        counts[shape] = counts.get(shape, 0) + 1
    pools = list(state.pools.open_to(piece.workload))
    enough = [
        area
        for area in found
        if all(state.domains.slots(area, shape, pools) >= count for shape, count in counts.items())
    ]
    enough.sort(key=lambda area: (state.domains.free(area), area.name))
    return enough[:AREAS_TRIED_MAX]


def _theirs(state: ClusterState, piece: GangPart, domain: Domain) -> list[Area]:
    """The domain in which other tasks of the workload run; empty: none run."""
    workload = piece.workload
    whose = {
        subgroup.name
        for subgroup in workload.subgroups
        if domain is workload.domain or domain is subgroup.domain
    }
    for task in state.tasks_of.get(workload.name, ()):
        if task.subgroup not in whose:
            continue
        place = state.seated[task].place
        return [area for area in state.domains.areas(domain.level) if area.has(place)]
    return []


def stay(state: ClusterState, task: Task, place: Place) -> Masks | None:
    """Where a running task may move: it stays in its domains; None: anywhere."""
    workload = state.workloads[task.workload]
    own = next(each.domain for each in workload.subgroups if each.name == task.subgroup)
    masks: Masks | None = None
    for domain in (workload.domain, own):
        if domain is not None:
            for area in state.domains.areas(domain.level):
                if area.has(place):
                    masks = both(masks, area.masks)
    return masks


def required(piece: GangPart) -> Domain | None:
    """The domain into which all of the piece must go, if there is one."""
    domains = [piece.workload.domain]
    names = {task.subgroup for task, _ in piece.tasks}
    if len(names) == 1:
        domains += [each.domain for each in piece.workload.subgroups if each.name in names]
    found = [domain for domain in domains if domain and domain.strictness is Strictness.REQUIRED]
    return found[0] if found else None


def candidates(state: ClusterState, piece: GangPart, domain: Domain) -> list[Area]:
    """All domains that a piece could begin in, whether they have room or not."""
    return _theirs(state, piece, domain) or state.domains.areas(domain.level)
