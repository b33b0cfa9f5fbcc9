"""A cluster in virtual time: jobs come and end, nodes fail and grow; a planner decides all else.

Nothing here orders work, chooses what ends or counts a quota. The world carries a plan out, at the
moment at which the plan was made: tasks begin, stop and move, nodes start and are given back.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from typing import Final

from moiety.policy.memory import LOOK_S, Began, Divided, Ended, Passed, Stopped, Submitted
from moiety.policy.model.cluster import WHOLE_GPU, Node
from moiety.policy.model.decisions import CyclePlan, Eviction, Growth, Move, Placement, Release
from moiety.policy.model.snapshot import Running, Snapshot, Spot, Starting, Task
from moiety.policy.model.workloads import Shape, Workload
from moiety.sim.cluster_trace import ClusterTrace, NodeChange
from moiety.sim.job_run import JobRun, WorldTimeline
from moiety.sim.planner import Planner
from moiety.sim.runs import QUIET_S, SAME_S, Progress, RestartCost
from moiety.sim.scaling import with_domains

ENDS, CHANGES, NODES, COMES, LOOKS = range(5)
ASKED_MAX: Final = 8
"""How often a planner is asked at one moment, if it asks for that because work has ended."""


class World:
    """A replay; `run` lets it happen."""

    def __init__(
        self,
        trace: ClusterTrace,
        planner: Planner,
        cost: RestartCost,
        progress: Progress = lambda _: None,
        watch: Callable[[World], None] = lambda _: None,
    ) -> None:
        self.trace = trace
        self.planner = planner
        self.cost = cost
        self.now_s = trace.first_s
        self.runs = [JobRun(job) for job in trace.jobs]
        self.timeline = WorldTimeline()
        self.asked = 0
        """How often the planner was asked."""
        self._progress, self._watch = progress, watch
        self._active: dict[str, JobRun] = {}
        self._workloads: dict[str, Workload] = {}
        """What the planner sees of active jobs."""
        self._shapes: dict[tuple[str, str], Shape] = {}
        self._used_milli = 0
        self._tasks_on: Counter[str] = Counter()
        self._up: dict[str, Node] = {node.name: node for node in trace.nodes}
        self._down: dict[str, Node] = {}
        self._outages: Counter[str] = Counter()
        """How many outages each node has now; it is up without any."""
        self._pools = {pool.name: pool for pool in trace.pools}
        self._could: dict[str, list[Node]] = {}
        """The nodes of each dynamic pool that have not been started, the next one last."""
        self._starting: list[Starting] = []
        self._empty_since: dict[str, float] = {}
        self._nodes: tuple[Node, ...] | None = None
        self._exchanged_s: dict[tuple[str, str], float] = {}
        self._touched: dict[str, JobRun] = {}
        self._asked_s = self.now_s
        self._look = 0
        """The number of the look that counts; earlier ones are stale."""
        self._events: list[tuple[float, int, int, Callable[[], bool]]] = []
        self._count = 0
        self._begin()

    def _begin(self) -> None:
        for pool in self.trace.pools:
            own = self.trace.pool_nodes[pool.name]
            for node in own[: pool.nodes_min]:
                self._bring(node)
            self._could[pool.name] = list(own[pool.nodes_min :][::-1])
        for run in self.runs:
            self._at(run.job.workload.submitted_s, COMES, self._coming(run))
        for change in sorted(self.trace.changes, key=lambda each: each.at_s):
            if change.at_s < 0:
                self._changing(change)()
            else:
                self._at(self.trace.first_s + change.at_s, CHANGES, self._changing(change))

    def _at(self, at_s: float, kind: int, happen: Callable[[], bool]) -> None:
        self._count += 1
        heapq.heappush(self._events, (at_s, kind, self._count, happen))

    def run(self) -> None:
        """Let everything happen until each job has ended, or nothing can begin any more."""
        left, quiet_s = len(self.runs), self.now_s
        while left and self._events:
            self.now_s = now_s = self._events[0][0]
            has_news = is_due = False
            while self._events and self._events[0][0] <= now_s + SAME_S:
                _, kind, _, happen = heapq.heappop(self._events)
                happened = happen()
                has_news = has_news or (happened and kind != LOOKS)
                is_due = is_due or happened
            if not is_due:
                continue
            self._refresh()
            if self._ask(has_news=has_news) or has_news:
                quiet_s = now_s
            ended = sum(run.ended_s is not None for run in self._active.values())
            if ended:
                left -= ended
                self._active = {k: run for k, run in self._active.items() if run.ended_s is None}
            self._note()
            self._watch(self)
            if now_s - quiet_s > QUIET_S and not self._has_news_ahead():
                break

    def _has_news_ahead(self) -> bool:
        """Whether anything but looks is due: a job ends or comes, or a node does."""
        return any(run.rate for run in self._active.values()) or any(
            kind not in (ENDS, LOOKS) for _, kind, _, _ in self._events
        )

    @property
    def running(self) -> list[Running]:
        """Every task that has a place."""
        return [each for run in self._active.values() for each in run.tasks.values()]

    @property
    def active(self) -> list[JobRun]:
        """The jobs that wait and run."""
        return [run for run in self._active.values() if run.ended_s is None]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that are up."""
        if self._nodes is None:
            self._nodes = tuple(self._up.values())
            count = sum(len(node.gpus) for node in self._nodes)
            if self.trace.queues:
                self.planner.learn(Divided(count, self.trace.queues, self.trace.monday_s))
        return self._nodes

    def snapshot(self) -> Snapshot:
        """The cluster as it is."""
        return Snapshot(
            self.nodes,
            tuple(self._workloads.values()),
            tuple(self.running),
            queues=self.trace.queues,
            pools=with_domains(self.trace.all_pools, self._could),
            now_s=self.now_s,
            monday_s=self.trace.monday_s,
            exchanged_s=self._exchanged_s,
            starting=tuple(self._starting),
            empty_since=dict(self._empty_since),
        )

    # What happens

    def _coming(self, run: JobRun) -> Callable[[], bool]:
        def come() -> bool:
            workload = run.job.workload
            self._active[run.name] = run
            self._workloads[run.name] = self.planner.shown(workload)
            for each in workload.subgroups:
                self._shapes[run.name, each.name] = each.shape
            self.planner.learn(Passed(self.now_s))
            self.planner.learn(Submitted(workload))
            return True

        return come

    def _ending(self, run: JobRun, epoch: int) -> Callable[[], bool]:
        def end() -> bool:
            if run.epoch != epoch:
                return False
            self._finish(run)
            return True

        return end

    def _finish(self, run: JobRun) -> None:
        run.settle(self.now_s)
        run.epoch += 1
        run.rate, run.ended_s = 0.0, self.now_s
        for task in list(run.tasks):
            self._remove(run, task)
        self._touched.pop(run.name, None)
        del self._workloads[run.name]
        for each in run.job.workload.subgroups:
            del self._shapes[run.name, each.name]
        self.planner.learn(Passed(self.now_s))
        self.planner.learn(Ended(run.name, run.done_s))
        self._progress(1)

    def _changing(self, change: NodeChange) -> Callable[[], bool]:
        def happen() -> bool:
            name = change.node
            if change.what == "up":
                self._outages[name] -= 1
                if not self._outages[name]:
                    self._bring(self._down.pop(name))
                return True
            self._outages[name] += 1
            if self._outages[name] == 1:
                for run in [run for run in self._active.values() if run.is_on(name)]:
                    self._lose(run, name, is_failure=change.what == "down")
                self._down[name] = self._up.pop(name)
                self._nodes = None
            return True

        return happen

    def _lose(self, run: JobRun, node: str, *, is_failure: bool) -> None:
        """A node goes away; a failure also takes the work since the last checkpoint."""
        run.disturb(self.now_s, self.cost.checkpoint_s if is_failure else None)
        for task, has in list(run.tasks.items()):
            if has.spot.node == node:
                self._remove(run, task)

    def _bring(self, node: Node) -> None:
        self._up[node.name] = node
        self._nodes = None
        if node.pool in self._pools:
            self._empty_since[node.name] = self.now_s

    # What a planner decides

    def _ask(self, *, has_news: bool) -> bool:
        """Ask the planner as often as it wants; returns whether anything was begun."""
        is_begun = False
        waits = any(run.ended_s is None and not run.rate for run in self._active.values())
        if not (waits or self._pools or self._is_short() or self._is_overdue()):
            return False
        if not has_news and not self._pools and not self._is_overdue():
            self.planner.learn(Passed(self.now_s))
            later_s = self.planner.next_look_s(self.now_s, self._asked_s)
            if later_s is not None:
                self._look_at(later_s)
                return False
        self._asked_s = self.now_s
        look_s: float | None = None
        for _ in range(ASKED_MAX):
            self.planner.learn(Passed(self.now_s))
            self.asked += 1
            plan = self.planner.plan(self.snapshot())
            is_begun = self._carry_out(plan) or is_begun
            look_s = plan.look_s
            if look_s is None or look_s > self.now_s:
                break
        else:
            look_s = None  # it would take the same room to and fro for ever
        if look_s is None and any(not run.rate for run in self._active.values()):
            look_s = self.planner.next_look_s(self.now_s, self.now_s) or self.now_s + LOOK_S
        self._look_at(look_s)
        return is_begun

    def _is_short(self) -> bool:
        """Whether a job runs with fewer tasks than it wants."""
        return any(0 < run.rate < 1 for run in self._active.values())

    def _is_overdue(self) -> bool:
        return any(
            run.job.workload.max_run_s is not None
            and min(each.since_s for each in run.tasks.values()) + run.job.workload.max_run_s
            <= self.now_s + SAME_S
            for run in self._active.values()
            if run.tasks and run.ended_s is None
        )

    def _look_at(self, look_s: float | None) -> None:
        """Look again at that time, or earlier, when a node has been empty for long enough."""
        due = [
            at_s
            for node, since_s in self._empty_since.items()
            if (at_s := since_s + self._pools[self._up[node].pool].idle_s) > self.now_s + SAME_S
        ]
        if look_s is not None:
            due.append(max(look_s, self.now_s + 2 * SAME_S))
        self._look += 1
        if due:
            self._at(min(due), LOOKS, self._looking(self._look))

    def _looking(self, number: int) -> Callable[[], bool]:
        return lambda: number == self._look

    def _carry_out(self, plan: CyclePlan) -> bool:
        is_begun = False
        for each in plan:
            if isinstance(each, Eviction):
                self._evict(each)
        for run in self._touched.values():
            if run.rate and not run.pace():
                run.stops += 1
        for each in plan:
            if isinstance(each, Move):
                self._move(each)
            elif isinstance(each, Placement):
                is_begun = True
                self._place(self._active[each.task.workload], each.task, each.spot)
            elif isinstance(each, Growth):
                is_begun = True
                self._starting += [Starting(each.pool, each.ready_s)] * each.nodes
                self._at(each.ready_s, NODES, self._arriving(each))
            elif isinstance(each, Release):
                self._could[each.pool].append(self._up.pop(each.node))
                del self._empty_since[each.node]
                self._nodes = None
        self._refresh()
        return is_begun

    def _evict(self, eviction: Eviction) -> None:
        if eviction.exchange:
            self._exchanged_s[eviction.exchange] = self.now_s
        run = self._active[eviction.task.workload]
        if eviction.is_final:
            if run.ended_s is None:
                self._finish(run)
            return
        run.settle(self.now_s)
        self._remove(run, eviction.task)

    def _move(self, move: Move) -> None:
        """A move is a stop and a start elsewhere, and costs as much."""
        run = self._active[move.task.workload]
        run.settle(self.now_s)
        run.stops += not run.is_disturbed
        run.is_disturbed = True
        self._remove(run, move.task)
        self._place(run, move.task, move.target)

    def _arriving(self, growth: Growth) -> Callable[[], bool]:
        def arrive() -> bool:
            for _ in range(growth.nodes):
                self._starting.remove(Starting(growth.pool, growth.ready_s))
                self._bring(self._could[growth.pool].pop())
            return True

        return arrive

    def _place(self, run: JobRun, task: Task, spot: Spot) -> None:
        run.settle(self.now_s)
        shape = self._shapes[run.name, task.subgroup]
        run.tasks[task] = Running(task, shape, spot, self.now_s)
        self._tasks_on[spot.node] += 1
        self._used_milli += len(spot.gpus) * spot.gpu_milli
        self._empty_since.pop(spot.node, None)
        self._touched[run.name] = run

    def _remove(self, run: JobRun, task: Task) -> None:
        spot = run.tasks.pop(task).spot
        self._tasks_on[spot.node] -= 1
        self._used_milli -= len(spot.gpus) * spot.gpu_milli
        if not self._tasks_on[spot.node] and self._up[spot.node].pool in self._pools:
            self._empty_since[spot.node] = self.now_s
        self._touched[run.name] = run

    def _refresh(self) -> None:
        """Find again how fast jobs run whose tasks have changed, and when they will end."""
        touched, self._touched = self._touched, {}
        for run in touched.values():
            before, run.rate = run.rate, run.pace()
            run.epoch += 1
            if not run.rate:
                run.is_disturbed = False
                if before:
                    self.planner.learn(Stopped(run.name, run.received_s))
                continue
            run.nodes = tuple(sorted({each.spot.node for each in run.tasks.values()}))
            if run.is_disturbed or not before:
                again = run.began_s is not None
                run.began_s = run.began_s if again else self.now_s
                run.since_s = self.now_s + (self.cost.restart_s if again else 0.0)
                self.planner.learn(Began(run.name, run.since_s, run.received_s))
                self._bound(run)
            run.is_disturbed = False
            ends_s = run.since_s + max(run.job.duration_s - run.done_s, 0.0) / run.rate
            self._at(ends_s, ENDS, self._ending(run, run.epoch))

    def _bound(self, run: JobRun) -> None:
        most_s = run.job.workload.max_run_s
        if most_s is not None:
            self._at(self.now_s + most_s, LOOKS, lambda: run.ended_s is None)

    def _note(self) -> None:
        waiting = [run for run in self._active.values() if not run.rate]
        used = self._used_milli / WHOLE_GPU
        line = self.timeline
        line.at_s.append(self.now_s)
        line.used.append(used)
        line.there.append(sum(len(node.gpus) for node in self.nodes))
        line.wanted.append(used + sum(run.job.gpus for run in waiting))
        line.waiting.append(len(waiting))
