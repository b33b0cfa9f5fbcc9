"""Projects as the engine knows them: queues with quotas in thousandths of GPUs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Final

from moiety.model.errors import BadArgument
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import Amounts, Queue, Window
from moiety.pool.model.names import NAME
from moiety.pool.model.project_rows import WEIGHT_MAX, ProjectRow
from moiety.sim import schedule

FIRST_MONDAY_S: Final = 4 * 86400.0
"""The first Monday of Unix time, at midnight of UTC."""
_QUEUE: Final = re.compile(r"\bqueue(s?) (\S+)")


def queue_of(row: ProjectRow) -> Queue:
    """The queue of one project; raises InvalidValue for values that contradict."""
    if not NAME.fullmatch(row.name):
        raise BadArgument(f"{row.name[:40]!r} is no name of a project", "letters and digits")
    if not row.weight <= WEIGHT_MAX or abs(row.priority) > WEIGHT_MAX:
        raise BadArgument(f"project {row.name}: a weight or priority is too large", "1 to 100, say")
    return Queue(
        row.name,
        row.parent,
        quota=_amounts(row.quota, row.name),
        limit=_amounts(row.limit, row.name),
        weight=row.weight,
        priority=row.priority,
        windows=tuple(each for text in row.windows for each in _windows(text, row.name)),
    )


def pool_words(text: str) -> str:
    """A sentence of the engine, which has queues and nodes, in the words of a machine's pool."""
    return _QUEUE.sub(r"project\1 \2", text).replace("the only node", "this machine")


def monday_of(now_s: float) -> float:
    """A Monday's midnight on the machine's clock: times of day are those of its time zone."""
    return FIRST_MONDAY_S - time.localtime(now_s).tm_gmtoff


def queues_of(projects: Iterable[ProjectRow]) -> tuple[Queue, ...]:
    """The queues of all projects; raises InvalidValue for values that contradict."""
    return tuple(queue_of(each) for each in projects)


def _windows(text: str, name: str) -> tuple[Window, ...]:
    try:
        return schedule.windows(text)
    except ValueError as error:
        raise BadArgument(f"project {name}: {error}", "mon-fri 20:00-08:00=12") from None


def _amounts(gpus: float | None, name: str) -> Amounts:
    if gpus is None:
        return Amounts()
    if not 0 <= gpus < 1e9:
        raise BadArgument(f"project {name}: {gpus:g} is no number of GPUs", "quota: 4, say")
    return Amounts(gpu_milli=round(gpus * WHOLE_GPU))
