"""What is kept of the room that units would free: the same as if it were found anew."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from moiety.policy.cycle import Cycle
from moiety.policy.preempt.freed_room import FreedRoom
from moiety.policy.preempt.victims import Victims
from moiety.policy.state.gang_parts import next_piece
from moiety.policy.state.gang_start import start_piece
from tests.unit.policy.clusters import LEAVES, cluster

STEPS = 20
WORTH = {f"w{at:02}": 1.0 + at for at in range(60)}


def rows(room: FreedRoom) -> list[tuple[float, ...]]:
    found = zip(
        room.work.worth(WORTH).tolist(),
        room.priorities.tolist(),
        room.nodes.tolist(),
        room.gpu_milli.tolist(),
        strict=True,
    )
    return sorted(found)


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_those_that_are_found_anew(seed: int) -> None:
    random = Random(seed)
    cycle = Cycle(cluster(seed, jobs=60))
    cycle.run()
    state = cycle.state
    waits = [next_piece(state, state.workloads[name]) for name in sorted(state.unmet)]
    pieces = [piece for piece in waits if piece]
    sizes = set()
    for _ in range(STEPS):
        kept, anew = Victims.current(state, 0.0), Victims(state)
        for queue in LEAVES:
            for pool in state.pools.placers:
                room, other = kept.freed(queue, pool), anew.freed(queue, pool)
                assert rows(room) == rows(other)
                assert np.array_equal(room.in_all, other.in_all)
                assert room.priority == other.priority
                sizes.add(len(room.nodes))
        name = random.choice(sorted(state.seated)).workload
        for task in list(state.tasks_of[name]):
            state.stop(task)
        for piece in random.sample(pieces, 3):
            if piece.workload.name in state.unmet and not state.tasks_of.get(piece.workload.name):
                start_piece(state, piece)
    assert len(sizes) > 3
