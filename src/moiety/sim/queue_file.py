"""Reads the tree of queues for a replay of gangs: names, parents, quotas in GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from moiety.model.errors import InvalidValue, TraceInvalid
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import Amounts, Queue, QueueTree
from moiety.policy.queue.queue_usage import QueueUsage
from moiety.sim import schedule
from moiety.sim.gangs import GangTrace
from moiety.sim.reading import COLUMNS_HINT, Complaints, TableRow, check_file, read_table

COLUMNS: Final = ("name", "quota_gpus")


def read_queues(path: Path, complaints: Complaints) -> tuple[Queue, ...]:
    """A CSV or JSONL file of `name`, `parent`, `quota_gpus`, `limit_gpus`, `weight`, `priority`.

    `windows` are times of a week with other quotas, as in `schedule`.

    Raises TraceMissing and TraceInvalid: for a line that makes no sense, a loop, an unknown
    parent, and, unless the complaints are lenient, for quotas that add up to more than the parent
    has.
    """
    check_file(path, "list of queues")
    found: dict[str, Queue] = {}
    lines: dict[str, int] = {}
    for line, queue in read_table(path, COLUMNS, _queue, complaints):
        if queue.name in found:
            problem = f"{queue.name} is in line {lines[queue.name]} already"
            complaints.about(path, line, problem)
            continue
        found[queue.name] = queue
        lines[queue.name] = line
    if not found:
        raise TraceInvalid(path.name, 0, "it has no queues", COLUMNS_HINT)
    try:
        tree = QueueTree(found.values())
    except InvalidValue as error:
        raise TraceInvalid(path.name, 0, error.what, COLUMNS_HINT) from None
    for parent, resource, total, own, when in tree.ever_above_parents():
        if resource == "gpu_milli":
            at = f" on {when}" if when else ""
            problem = (
                f"quotas below {parent} add up to {total / WHOLE_GPU:g} GPUs{at}, "
                f"and its own is {own / WHOLE_GPU:g}"
            )
            complaints.about(path, lines[parent], problem, stays=True)
    return tuple(found.values())


def within_queues(trace: GangTrace, queues: Sequence[Queue]) -> GangTrace:
    """The trace without jobs that no queue could ever let run, which are complained about.

    These jobs name no queue of `queues`, or one that only has queues below it, or want more GPUs
    than a limit. Raises TraceInvalid for the first, unless the complaints are lenient, or if no job
    is left.
    """
    usage = QueueUsage(queues)
    problems: dict[tuple[str, int], str] = {}
    kept = []
    for gang in trace.gangs:
        kind = gang.queue, gang.gpus
        if kind not in problems:
            problems[kind] = _problem(usage, *kind)
        if problems[kind]:
            name = gang.name or "a job"
            trace.complaints.about(
                Path(trace.file or trace.name), gang.line, f"{name} {problems[kind]}"
            )
        else:
            kept.append(gang)
    if not kept:
        raise TraceInvalid(trace.name, 0, "none of its jobs could ever run in these queues")
    return replace(trace, gangs=tuple(kept))


def _problem(usage: QueueUsage, queue: str, gpus: int) -> str:
    """Why a job can never run in a queue; empty if it can."""
    if queue not in usage.paths:
        return f"is of queue {queue or '(none)'}, which is not there"
    if usage.tree.children.get(queue):
        return f"is of queue {queue}, which only has queues below it"
    excess = usage.ever_over(queue, (gpus * WHOLE_GPU, 0, 0, 0), quota=False)
    if excess is None:
        return ""
    most = excess.bound / WHOLE_GPU
    return f"wants {gpus} GPUs, and queue {excess.queue} never has more than {most:g}"


def _queue(row: TableRow) -> Queue:
    limit = row.text("limit_gpus", "")
    return Queue(
        row.text("name"),
        row.text("parent", "") or None,
        Amounts(gpu_milli=round(row.number("quota_gpus") * WHOLE_GPU)),
        Amounts(gpu_milli=round(row.number("limit_gpus") * WHOLE_GPU)) if limit else Amounts(),
        row.number("weight", 1.0),
        row.whole("priority", 0),
        schedule.windows(row.text("windows", "")),
    )
