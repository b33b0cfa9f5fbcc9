"""Graphs with NVIDIA's cuda-core: by hand and captured, with conditions, replayed for a while.

core_graphs.py SECONDS BYTES: each replay is checked; BYTES of memory are there besides. Says "ok".
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, ObjectCode, launch
from cuda.core.graph import Graph, GraphDefinition

SECONDS, BYTES = float(sys.argv[1]), int(sys.argv[2])
ONE = LaunchConfig(grid=1, block=1)
WORD = ctypes.c_uint32

device = Device()
device.set_current()
stream = device.create_stream()
large = device.allocate(BYTES, stream=stream)
memory = device.allocate(4096, stream=stream)
at = int(memory.handle)
code = ObjectCode.from_cubin(Path(os.environ["KERNELS"]).read_bytes())
add, count_down, set_condition = (
    code.get_kernel(name) for name in ("add_u32", "count_down", "set_condition")
)
called: list[int] = []


def words() -> list[int]:
    """The first four."""
    copied = (WORD * 4)()
    stream.sync()
    assert driver.cuMemcpyDtoH(ctypes.addressof(copied), at, 16)[0] == 0
    return list(copied)


def by_hand() -> Graph:
    """memset -> add -> while (thrice: add, if_else) -> record -> callback."""
    graph = GraphDefinition()
    event = device.create_event()
    start = graph.memset(at, WORD(3), 1)
    more = start.memset(at + 4, WORD(10), 3)
    loop = graph.create_condition(default_value=1)
    node = more.launch(ONE, add, ctypes.c_uint64(at + 4), WORD(1)).while_loop(loop)
    body = node.body
    choice = body.create_condition(default_value=0)
    inner = body.launch(ONE, count_down, ctypes.c_uint64(at), ctypes.c_uint64(int(loop.handle)))
    inner = inner.launch(ONE, set_condition, ctypes.c_uint64(int(choice.handle)), WORD(1)).if_else(
        choice
    )
    inner.then.launch(ONE, add, ctypes.c_uint64(at + 8), WORD(5))
    inner.else_.launch(ONE, add, ctypes.c_uint64(at + 12), WORD(5))
    node.record(event).callback(lambda: called.append(1))
    assert len(graph.nodes()) == 6
    assert len(graph.edges()) == 5
    return graph.instantiate()


def captured() -> Graph:
    """Two branches that are joined, and one of three ways."""
    builder = device.create_graph_builder().begin_building()
    launch(builder, ONE, add, ctypes.c_uint64(at), WORD(0))
    left, right = builder.split(2)
    launch(left, ONE, add, ctypes.c_uint64(at + 4), WORD(100))
    launch(right, ONE, add, ctypes.c_uint64(at + 8), WORD(100))
    builder = type(builder).join(left, right)
    way = builder.create_condition(default_value=2)
    for number, branch in enumerate(builder.switch(way, 3)):
        branch.begin_building()
        launch(branch, ONE, add, ctypes.c_uint64(at + 12), WORD(1000 * number))
        branch.end_building()
    return builder.end_building().complete()


graphs = by_hand(), captured()
ends_s = time.monotonic() + SECONDS
rounds = 0
while rounds == 0 or time.monotonic() < ends_s:
    rounds += 1
    graphs[0].launch(stream)
    assert words() == [0, 11, 25, 10], words()
    graphs[1].launch(stream)
    assert words() == [0, 111, 125, 2010], words()
    assert len(called) == rounds
large.close()
memory.close()
stream.close()
print("ok")
