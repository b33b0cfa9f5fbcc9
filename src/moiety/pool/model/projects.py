"""Projects as the engine knows them: queues with quotas in thousandths of GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from moiety.model.errors import BadArgument
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import Amounts, Queue
from moiety.pool.model.names import NAME
from moiety.pool.model.records import WEIGHT_MAX, ProjectRow


def queue_of(row: ProjectRow) -> Queue:
    """The queue of one project; raises InvalidValue for values that contradict."""
    if not NAME.fullmatch(row.name):
        raise BadArgument(f"{row.name[:40]!r} is no name of a project", "letters and digits")
    if row.weight > WEIGHT_MAX or abs(row.priority) > WEIGHT_MAX:
        raise BadArgument(f"project {row.name}: a weight or priority is too large", "1 to 100, say")
    return Queue(
        row.name,
        row.parent,
        quota=_amounts(row.quota, row.name),
        limit=_amounts(row.limit, row.name),
        weight=row.weight,
        priority=row.priority,
    )


def queues_of(projects: Iterable[ProjectRow]) -> tuple[Queue, ...]:
    """The queues of all projects; raises InvalidValue for values that contradict."""
    return tuple(queue_of(each) for each in projects)


def _amounts(gpus: float | None, name: str) -> Amounts:
    if gpus is None:
        return Amounts()
    if not 0 <= gpus < 1e9:
        raise BadArgument(f"project {name}: {gpus:g} is no number of GPUs", "quota: 4, say")
    return Amounts(gpu_milli=round(gpus * WHOLE_GPU))
