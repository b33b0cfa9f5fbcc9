"""A live replay on pools that grow and shrink: the policy decides, nodes come and go here.

The cluster is built with all nodes that the pools could ever have; tasks are placed only on nodes
that have been started. After a change, but at most once in `LOOK_S`, the replay asks the policy
how large the pools should be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

import numpy as np

from moiety.policy.model.cluster import Node, Pool
from moiety.policy.model.decisions import Growth
from moiety.policy.model.snapshot import Starting
from moiety.policy.place.arrays import Bools, Mask, Seat
from moiety.sim.replay import LiveRun, Progress, ReplaySettings, ordered
from moiety.sim.results import PoolUse, Result
from moiety.sim.scaling import free_names
from moiety.sim.task_engine import TaskEngine
from moiety.sim.trace import Trace

LOOK_S: Final = 30.0
LOOKS: Final = 2
"""The rank of a look: after the tasks that begin and end at the same moment."""
HOUR_S: Final = 3600.0


def live_on_pools(
    trace: Trace,
    pools: Sequence[Pool],
    always: Sequence[Node],
    setting: ReplaySettings,
    progress: Progress = lambda _: None,
) -> Result:
    """Tasks come and go at their times; dynamic pools begin with as few nodes as they may.

    `always` are the nodes of no dynamic pool. Raises InvalidValue as `live` does.
    """
    trace.check_timed()
    nodes = list(always)
    for pool in pools:
        assert pool.template
        names = free_names(pool.name, {node.name for node in nodes})
        nodes += [replace(pool.template, name=name) for name in islice(names, pool.nodes_max)]
    whole = ordered(replace(trace, nodes=tuple(nodes), node_order=None), setting)
    run = _PoolsRun(whole, pools, setting, progress)
    run.clock.run()
    return run.result(setting)


class _PoolsRun(LiveRun):
    """The state of such a replay."""

    def __init__(
        self, trace: Trace, pools: Sequence[Pool], setting: ReplaySettings, progress: Progress
    ) -> None:
        self._pools = {pool.name: pool for pool in pools}
        others = sorted({node.pool for node in trace.nodes} - self._pools.keys())
        by_rule = (
            replace(pool, placing=setting.placing, choosing=setting.choosing)
            for pool in (*map(Pool, others), *pools)
        )
        engine = TaskEngine((), tuple(by_rule), trace.typical, setting.seed)
        super().__init__(trace, engine, progress)
        self._of = {
            name: [at for at, node in enumerate(trace.nodes) if node.pool == name]
            for name in self._pools
        }
        self._there: Bools = np.ones(len(trace.nodes), np.bool_)
        for name, own in self._of.items():
            self._there[own[self._pools[name].nodes_min :]] = False
        self._open = Mask(self._there)
        self._tell_nodes()
        self._tasks_on = [0] * len(trace.nodes)
        self._empty_since = dict.fromkeys(
            (at for own in self._of.values() for at in own), self.began_s
        )
        self._starting: list[Starting] = []
        self._looked_s = -LOOK_S
        self._look_at_s: float | None = None
        self._nodes_s = dict.fromkeys(self._pools, 0.0)
        self._most = {name: self._pools[name].nodes_min for name in self._pools}
        self._started = dict.fromkeys(self._pools, 0)
        self._gpus_s = 0.0
        self._paid_s = self._gpus_until_s = self.began_s
        self._cost = dict(self._nodes_s)
        self._cost_until_s = self.began_s

    def open(self) -> Mask | None:
        """The nodes that have been started."""
        return self._open

    def began(self, at: int, seat: Seat) -> None:
        """A task begins to run."""
        self._tasks_on[seat.node] += 1

    def ended(self, at: int, seat: Seat) -> None:
        """A task has ended."""
        self._tasks_on[seat.node] -= 1
        self._pay()
        self._cost, self._cost_until_s = dict(self._nodes_s), self._paid_s
        if not self._tasks_on[seat.node]:
            self._empty_since[seat.node] = self.clock.now_s

    def changed(self) -> None:
        """A task arrived or ended: ask the policy soon."""
        self._look_by(self.clock.now_s)

    def _look_by(self, when_s: float) -> None:
        when_s = max(when_s, self._looked_s + LOOK_S)
        if self._look_at_s is not None and self._look_at_s <= when_s:
            return
        self._look_at_s = when_s
        self.clock.at(when_s, self._looking(when_s), LOOKS)

    def _looking(self, when_s: float) -> Callable[[], None]:
        def look() -> None:
            if self._look_at_s == when_s:  # else it was brought forward
                self._look_at_s, self._looked_s = None, when_s
                self._scale()

        return look

    def _idle(self) -> dict[int, float]:
        """The nodes of dynamic pools on which nothing runs, and since when."""
        return {
            at: self._empty_since[at]
            for own in self._of.values()
            for at in own
            if self._there[at] and not self._tasks_on[at]
        }

    def _scale(self) -> None:
        """Ask the policy, and carry out its decisions."""
        now_s, idle = self.clock.now_s, self._idle()
        nodes = self.trace.nodes
        due = [each + self._pools[nodes[at].pool].idle_s for at, each in idle.items()]
        if not self.waiting and not any(when_s <= now_s for when_s in due):
            self._look_later(due)
            return
        self._pay()
        empty_since = {nodes[at].name: since_s for at, since_s in idle.items()}
        begun, scaling = self.engine.scale(now_s, self._starting, empty_since)
        self.start(begun)
        for decision in scaling:
            if isinstance(decision, Growth):
                self._start_nodes(decision)
            else:
                at = next(each for each in idle if nodes[each].name == decision.node)
                self._there[at] = False
                self._tell_nodes()
        self._look_later(due)

    def _look_later(self, due: Sequence[float]) -> None:
        later = [when_s for when_s in due if when_s > self.clock.now_s]
        if later:
            self._look_by(min(later))

    def _tell_nodes(self) -> None:
        """Tell the engine which nodes are there."""
        there = zip(self.trace.nodes, self._there.tolist(), strict=True)
        self.engine.nodes_are([node for node, up in there if up])

    def _start_nodes(self, growth: Growth) -> None:
        self._started[growth.pool] += growth.nodes
        coming = [Starting(growth.pool, growth.ready_s)] * growth.nodes
        self._starting += coming
        there = int(self._there[self._of[growth.pool]].sum())
        whole = there + sum(each.pool == growth.pool for each in self._starting)
        self._most[growth.pool] = max(self._most[growth.pool], whole)
        self.clock.at(growth.ready_s, self._arriving(coming))

    def _arriving(self, coming: Sequence[Starting]) -> Callable[[], None]:
        def arrive() -> None:
            self._pay()
            for each in coming:
                self._starting.remove(each)
                at = next(at for at in self._of[each.pool] if not self._there[at])
                self._there[at] = True
                self._empty_since[at] = self.clock.now_s
            self._tell_nodes()
            self.serve_waiting()
            self.changed()

        return arrive

    def _pay(self) -> None:
        """Count node hours until now: those that start cost as much as those that are there."""
        now_s = self.clock.now_s
        for name, own in self._of.items():
            count = int(self._there[own].sum())
            count += sum(each.pool == name for each in self._starting)
            self._nodes_s[name] += count * (now_s - self._paid_s)
        self._paid_s = now_s
        until_s = min(now_s, self.last_s)
        there = int(self.cluster.capacity[self._there].sum())
        self._gpus_s += there * max(until_s - self._gpus_until_s, 0.0)
        self._gpus_until_s = max(until_s, self._gpus_until_s)

    def result(self, setting: ReplaySettings) -> Result:
        """The result, with the cost of the pools until the last task has ended."""
        found = super().result(setting)
        assert found.live
        lasted_s = self._cost_until_s - self.began_s
        uses = []
        for name, pool in self._pools.items():
            assert pool.nodes_max is not None
            hours = self._cost[name] / HOUR_S
            static = pool.nodes_max * lasted_s / HOUR_S
            uses.append(
                PoolUse(
                    name,
                    pool.nodes_min,
                    pool.nodes_max,
                    self._most[name],
                    self._started[name],
                    hours,
                    static,
                )
            )
        allocation = 100 * self.milli_s / self._gpus_s if self._gpus_s else 0.0
        live = replace(found.live, lasted_s=lasted_s, allocation_percent=allocation, pools=uses)
        return replace(found, live=live)
