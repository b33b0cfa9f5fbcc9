"""Keeps the state of a cluster from one decision to the next, and changes what is different.

To build a state anew takes time for everything that runs and waits. What is kept gives the same
decisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import ReferenceType, ref

from moiety.model.errors import InvalidValue
from moiety.policy.model.cluster import Choosing, Placing
from moiety.policy.model.decisions import CyclePlan
from moiety.policy.model.snapshot import Running, Snapshot, Task
from moiety.policy.model.work_budget import WorkBudget
from moiety.policy.model.workloads import Workload
from moiety.policy.place.affinity import AffinityIndex
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.state.cluster_state import ClusterState


@dataclass(frozen=True, slots=True)
class Changes:
    """What has changed since the decision before. What it decided and is not here did not happen.

    What ends comes before what begins.
    """

    came: tuple[Workload, ...] = ()
    """Workloads that wait from now on."""
    gone: tuple[str, ...] = ()
    """Workloads that are over, with all of their tasks."""
    began: tuple[Running, ...] = ()
    """Tasks that have a place now, or another one."""
    ended: tuple[Task, ...] = ()
    """Tasks that have lost their places."""


class KeptState:
    """The state after the last decision, if there is one that can be used again."""

    def __init__(self) -> None:
        self._state: ClusterState | None = None
        self._known: WorkloadMix | None = None
        self._plan: ReferenceType[CyclePlan] | None = None

    def planned(self, plan: CyclePlan) -> None:
        """Note the plan of which remarks are found in this state."""
        self._plan = ref(plan)

    def follow(
        self,
        snapshot: Snapshot,
        known: WorkloadMix,
        budget: WorkBudget,
        changes: Changes | None = None,
    ) -> ClusterState:
        """The state of a snapshot. Raises as `ClusterState`.

        With `changes`, it is the state before with these, on the snapshot's nodes, which are the
        same. Raises InvalidValue if there is none.
        """
        plan = None if self._plan is None else self._plan()
        if plan is not None:
            plan.read()  # in the state that it belongs to
        state, self._state = self._state, None
        if changes is not None:
            if state is None or known is not self._known or not _is_same(state.snapshot, snapshot):
                raise InvalidValue("there is no state that could have changed: name all work")
            _change(state, changes)
            state.reset(snapshot, budget)
            self._state = state
            return state
        is_alike = state and known is self._known and _is_alike(state.snapshot, snapshot)
        if not (state and is_alike and _follow(state, snapshot, budget)):
            state = ClusterState(snapshot, known, budget)
        self._state, self._known = state, known
        return state


def _is_alike(before: Snapshot, now: Snapshot) -> bool:
    """Whether the cluster and the queues are the same, and no choice is left to chance."""
    return (
        before.nodes == now.nodes
        and before.pools == now.pools
        and before.queues == now.queues
        and before.seed == now.seed
        and not any(
            pool.placing is Placing.RANDOM or pool.choosing is Choosing.RANDOM for pool in now.pools
        )
    )


def _is_same(before: Snapshot, now: Snapshot) -> bool:
    """Whether the cluster and the queues are the same objects."""
    return before.nodes is now.nodes and before.pools is now.pools and before.queues is now.queues


def _change(state: ClusterState, changes: Changes) -> None:
    """Undo what was planned, and do what has happened."""
    state.back(0)
    for name in changes.gone:
        if name not in state.workloads:
            raise InvalidValue(f"{name} is over, and there is no such workload")
    for task in changes.ended:
        if task not in state.seated:
            raise InvalidValue(f"{task} has lost its place, and had none")
        _unseat(state, task)
    for name in changes.gone:
        for task in list(state.tasks_of.get(name, ())):
            _unseat(state, task)
        _forget(state, name)
    for workload in changes.came:
        if workload.name in state.workloads:
            raise InvalidValue(f"there are two workloads of the name {workload.name}")
        _add(state, workload)
    for each in changes.began:
        if each.task in state.seated:
            _unseat(state, each.task)
    for each in changes.began:
        _seat(state, each)
        state.began[each.task] = each


def _unseat(state: ClusterState, task: Task) -> None:
    state.stop(task)
    del state.began[task]


def _follow(state: ClusterState, snapshot: Snapshot, budget: WorkBudget) -> bool:
    """Change a state into that of a snapshot; False: it cannot be done, and it is of no use now."""
    before = state.workloads
    workloads = {workload.name: workload for workload in snapshot.workloads}
    new = [each for each in snapshot.workloads if before.get(each.name) is not each]
    if state.companies or AffinityIndex.are_asked_for(tuple(new)):
        return False
    if not snapshot.queues and any(each.queue not in state.standing.paths for each in new):
        return False
    gone = {each.name for each in new if each.name in before}
    gone |= before.keys() - workloads.keys()
    running = {each.task: each for each in snapshot.running}
    if len(running) < len(snapshot.running):
        raise InvalidValue("a task runs twice")
    planned = {task for task, _ in state.changed()}
    begun = [each for each in snapshot.running if not _is_there(state, each, gone, planned)]
    leaves = {each.task for each in begun if each.task in state.seated}
    leaves |= state.seated.keys() - running.keys()
    for task, each in running.items():
        if state.began.get(task) is not each:  # its place is the same, but not all else
            state.touch(task.workload)
    state.began = {}
    for task in sorted(leaves):
        state.stop(task)
    for name in gone:
        _forget(state, name)
    for workload in new:
        _add(state, workload)
    for each in begun:
        _seat(state, each)
    state.began = running
    state.reset(snapshot, budget)
    return True


def _is_there(state: ClusterState, each: Running, gone: set[str], planned: set[Task]) -> bool:
    """Whether a task has its place already; `planned` are those that the last plan changed."""
    if each.task.workload in gone:
        return False
    if state.began.get(each.task) is each and each.task not in planned:
        return True
    seated = state.seated.get(each.task)
    return (
        seated is not None
        and seated.shape == each.shape
        and state.pools.spot(seated.place) == each.spot
    )


def _forget(state: ClusterState, name: str) -> None:
    workload = state.workloads.pop(name)
    state.count(workload, -1)
    state.unmet.discard(name)
    state.partial.discard(name)
    state.touch(name)
    state.tasks_of.pop(name, None)
    for subgroup in workload.subgroups:
        del state.sizes[name, subgroup.name]
        state.running.pop((name, subgroup.name), None)


def _add(state: ClusterState, workload: Workload) -> None:
    state.standing.check(workload.queue, workload.name)
    state.workloads[workload.name] = workload
    state.count(workload, 1)
    state.touch(workload.name)
    for subgroup in workload.subgroups:
        state.sizes[workload.name, subgroup.name] = subgroup.tasks
    if any(subgroup.tasks for subgroup in workload.subgroups):
        state.unmet.add(workload.name)


def _seat(state: ClusterState, each: Running) -> None:
    task: Task = each.task
    state.check(task)
    state.start(task, each.shape, state.pools.place_of(each))
