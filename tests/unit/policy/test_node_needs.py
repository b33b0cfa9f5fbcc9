"""Nodes for a piece from what is kept: the same as if all units were looked at, at each step."""

from __future__ import annotations

from operator import itemgetter
from random import Random

import pytest

from moiety.policy.cycle import Cycle
from moiety.policy.preempt.reclaim_nodes import by_need, by_node
from moiety.policy.preempt.victims import OPPORTUNISTS, Victims
from moiety.policy.state.gang_parts import GangPart, next_piece
from moiety.policy.state.gang_start import start_piece
from tests.unit.policy.clusters import cluster

STEPS = 25


@pytest.mark.parametrize("seed", range(8))
def test_nodes_are_those_of_all_units(seed: int) -> None:
    random = Random(seed)
    cycle = Cycle(cluster(seed, jobs=60))
    cycle.run()
    state = cycle.state
    leavers = Victims.current(state, 0.0)
    found = 0

    def is_right(piece: GangPart) -> int:
        others = [queue for queue in leavers.queues if queue != piece.workload.queue]
        units = [unit for queue in others for unit in leavers.of(queue)]
        units.sort(key=itemgetter(0))
        units = [*leavers.of(OPPORTUNISTS), *units]
        nodes = list(by_need(state, piece, leavers))
        assert nodes == list(by_node(state, piece, units, leavers))
        return len(nodes)

    for _ in range(STEPS):
        waits = [next_piece(state, state.workloads[name]) for name in sorted(state.unmet)]
        pieces = [piece for piece in waits if piece is not None]
        for piece in random.sample(pieces, min(3, len(pieces))):
            found += is_right(piece)
            mark = state.mark()
            for unit in list(leavers.of(random.choice(list(leavers.queues))))[:2]:
                for task in unit.tasks:
                    state.stop(task)
            state.back(mark)
            found += is_right(piece)
        names = {random.choice(sorted(state.seated)).workload}
        for task in list(state.tasks_of[names.copy().pop()]):
            state.stop(task)
        for piece in random.sample(pieces, min(2, len(pieces))):
            if start_piece(state, piece):
                names.add(piece.workload.name)
        if random.random() < 0.5:
            leavers.changed(names)
        else:
            leavers = Victims.current(state, 0.0)
    assert found > STEPS
