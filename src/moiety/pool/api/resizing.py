"""Gives a workload that runs another part of its GPUs."""

from __future__ import annotations

from typing import Any

from moiety.model.errors import BadArgument, WorkStateWrong
from moiety.pool.api.route import ServedPool
from moiety.pool.model.records import WHOLE_MILLI, WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.store import changes, rows


async def resize(pool: ServedPool, row: WorkRow, values: dict[str, int]) -> WorkRow:
    """Give a workload that runs another part of its GPUs, if the engine's books have room.

    What it is promised grows in the store first and in the agent then, and shrinks the other way
    round, so that nothing is ever promised twice. Raises WorkStateWrong, BadArgument, and what the
    agent refuses.
    """
    if row.state is not WorkState.RUNNING:
        raise WorkStateWrong(f"workload {row.id} is {row.state}", "the same once it runs")
    milli = values.get("gpu_milli", row.gpu_milli)
    memory_mib = values.get("gpu_memory_mib", row.gpu_memory_mib)
    if not milli:
        raise BadArgument("it was promised time for its memory alone", "--gpu 0.5 too, say")
    if problem := await pool.loop.may_resize(row.id, milli, memory_mib):
        raise BadArgument(f"workload {row.id} cannot have that: {problem}", "less of it")

    def write(of: dict[str, Any]) -> Any:
        return pool.loop.write(
            lambda connection: changes.update(connection, row.id, WorkState.RUNNING, of)
        )

    before = {name: getattr(row, name) for name in values}
    name = changes.agent_workload(pool.reader, row.id)
    most = max(milli, row.gpu_milli), max(memory_mib, row.gpu_memory_mib)
    await write({"gpu_milli": most[0], "gpu_memory_mib": most[1]})
    try:
        await pool.loop.set_share(name, milli / WHOLE_MILLI, memory_mib << 20)
    except BaseException:
        await write(before)
        raise
    await write({**values, "gpu_milli": milli, "gpu_memory_mib": memory_mib})
    pool.loop.changed()
    return rows.workload(pool.reader, row.id)
