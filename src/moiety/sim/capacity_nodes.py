"""How many nodes a trace of single tasks needs, so that waiting stays within a bound.

The trace says of which kinds nodes are; a smaller cluster has as many of each kind in proportion,
a larger one some of them twice. Each size is a replay in recorded times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from moiety.sim.replay import ReplaySettings, live
from moiety.sim.results import Result
from moiety.sim.trace import Trace

LARGER_MAX: Final = 8
"""The largest cluster that is tried, in times the trace's own cluster."""

Tried = Callable[[Result], None]


def needed_nodes(
    trace: Trace, wait_p95_s: float, setting: ReplaySettings, tried: Tried = lambda _: None
) -> Result | None:
    """The replay on the fewest nodes that keep the 95th percentile of waiting within the bound.

    None: not even the largest that is tried is enough. Where a size has no node of a kind that a
    task needs, the task is refused: such a size is not enough. Raises InvalidValue if the trace
    does not say how long its tasks run.
    """
    known: dict[int, Result] = {}
    own = len(trace.nodes)

    def at(nodes: int) -> Result:
        if nodes not in known:
            known[nodes] = live(sized(trace, nodes), setting)
            tried(known[nodes])
        return known[nodes]

    hopeless = sum(at(own).refused.values())  # on no cluster of this kind

    def is_enough(nodes: int) -> bool:
        found = at(nodes)
        assert found.live
        waits_s = found.live.wait_p95_s
        return sum(found.refused.values()) <= hopeless and waits_s <= wait_p95_s

    low, high = 1, own
    while not is_enough(high):
        low, high = high + 1, high * 2
        if high > LARGER_MAX * own:
            return None
    while low < high:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle + 1
    return at(high)


def sized(trace: Trace, nodes: int) -> Trace:
    """The same jobs on `nodes` nodes, of each kind in proportion to the trace's own nodes."""
    ranked = sorted(
        trace.nodes, key=lambda node: (node.model, len(node.gpus), node.cpu_milli, node.name)
    )
    if nodes == len(ranked):
        return trace
    times: dict[str, int] = {}
    chosen = []
    for at in range(nodes):
        node = ranked[(2 * at + 1) * len(ranked) // (2 * nodes)]
        count = times[node.name] = times.get(node.name, 0) + 1
        chosen.append(replace(node, name=f"{node.name}+{count - 1}") if count > 1 else node)
    return replace(trace, nodes=tuple(chosen), arrivals=None, node_order=None, published={})
