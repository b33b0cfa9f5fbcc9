"""The route that changes what a workload asks for, or has."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from moiety.model.errors import BadArgument, WorkStateWrong
from moiety.pool.api.answers import answer, body_of
from moiety.pool.api.peer import Caller
from moiety.pool.api.route import ApiRoute, ServedPool
from moiety.pool.api.routes.acts import own
from moiety.pool.model.records import MEMORY_MAX, WHOLE_MILLI, WorkRow, WorkUpdate
from moiety.pool.model.states import ENDS, WAITING, WorkState
from moiety.pool.store import changes, rows


async def on_update(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """Change what a workload that waits asks for, or the part of its GPUs that one has now."""
    wanted = await body_of(request, WorkUpdate)
    row = await own(pool, request, caller, "update")
    values = _values(row, wanted)
    if (values.get("priority") or 0) > max(row.priority, 0):
        caller.must_be_admin("give work a higher priority")
    if row.state in ENDS:
        raise WorkStateWrong(f"workload {row.id} is {row.state}", "`moiety submit`")
    if row.state not in WAITING and "time_limit_s" in values:
        raise WorkStateWrong(
            f"workload {row.id} is {row.state}: its supervisor has its time limit",
            "the other options; a time limit only while it waits",
        )
    if row.state not in WAITING and {"gpu_milli", "gpu_memory_mib"} & values.keys():
        return answer(caller.shown(await _resize(pool, row, values)))
    found: WorkRow = await pool.loop.write(
        lambda connection: changes.update(connection, row.id, row.state, values)
    )
    pool.loop.changed()
    return answer(caller.shown(found))


async def _resize(pool: ServedPool, row: WorkRow, values: dict[str, Any]) -> WorkRow:
    """Give a workload that runs another part of its GPUs, if the engine's books have room.

    What it is promised grows in the store first and in the agent then, and shrinks the other way
    round, so that nothing is ever promised twice.
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


def _values(row: WorkRow, wanted: WorkUpdate) -> dict[str, Any]:
    """The columns that become different; raises BadArgument for values that make no sense."""
    values: dict[str, Any] = {}
    if (wanted.gpu is not None or wanted.memory_bytes is not None) and not row.gpus:
        raise BadArgument("it has no GPU, so it has no part of one", "another workload")
    if wanted.gpu is not None:
        if not 0.001 <= wanted.gpu <= 1 or row.opportunistic:
            raise BadArgument(f"{wanted.gpu:g} is no part of a GPU for it", "--gpu 0.5, say")
        values["gpu_milli"] = round(wanted.gpu * WHOLE_MILLI)
    if wanted.memory_bytes is not None:
        if not 0 <= wanted.memory_bytes <= MEMORY_MAX or row.opportunistic:
            raise BadArgument(f"{wanted.memory_bytes} is no memory for it", "--memory 10GiB, say")
        values["gpu_memory_mib"] = -(-wanted.memory_bytes // (1 << 20))
        if row.memory_limit_mib and values["gpu_memory_mib"] > row.memory_limit_mib:
            raise BadArgument("the memory is above its memory limit", "less of it")
    if wanted.time_limit_s is not None:
        if not 0 < wanted.time_limit_s < 1e9:
            raise BadArgument(f"{wanted.time_limit_s:g} s is no time limit", "--time 2h, say")
        values["time_limit_s"] = wanted.time_limit_s
    if wanted.priority is not None:
        if abs(wanted.priority) > 1_000_000:
            raise BadArgument(f"{wanted.priority} is no priority", "at most 1000000")
        values["priority"] = wanted.priority
    if not values:
        raise BadArgument("nothing is to be different", "--gpu, --memory, --time or --priority")
    return values


ROUTES: Final = (
    ApiRoute("POST", "/workloads/{target}/update", on_update, WorkRow, body=WorkUpdate),
)
