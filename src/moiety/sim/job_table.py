"""Reads the jobs of a history: gangs, parts of GPUs, priorities, domains, labels."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.workloads import (
    Affinity,
    Domain,
    Shape,
    Strictness,
    Subgroup,
    Workload,
)
from moiety.sim.cluster_trace import HistoryJob
from moiety.sim.reading import Complaints, TableRow, read_table

COLUMNS: Final = ("name", "gpus", "submitted_s", "duration_s")
HISTORY: Final = frozenset(
    {
        *("tasks", "min_tasks", "priority", "preemptible", "opportunistic", "max_run_s"),
        *("domain", "affinity", "anti_affinity", "exclusion", "pools"),
    }
)
"""Columns that only a replay by the engine heeds."""
TASKS_MAX: Final = 100_000
WORDS: Final = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


def read_jobs(path: Path, complaints: Complaints, *, has_queues: bool) -> list[HistoryJob]:
    """The jobs of a table, as they stand there. Raises TraceMissing and TraceInvalid."""
    rows = read_table(path, COLUMNS, lambda row: _job(row, has_queues=has_queues), complaints)
    return [HistoryJob(workload, lasts_s, line) for line, (workload, lasts_s) in rows]


def _job(row: TableRow, *, has_queues: bool) -> tuple[Workload, float]:
    tasks = row.whole("tasks", 1)
    least = row.whole("min_tasks", tasks)
    if not 1 <= tasks <= TASKS_MAX:
        raise ValueError(f"tasks is {tasks}; a job has 1 to {TASKS_MAX} tasks")
    if not 1 <= least <= tasks:
        raise ValueError(f"min_tasks is {least}, and the job has {tasks} tasks: write 1 to {tasks}")
    lasts_s = row.number("duration_s")
    if not lasts_s:
        raise ValueError("duration_s is zero, and a job that did not run needs no replay")
    labels = {each: row.text(each, "") or None for each in _LABELS}
    company = Affinity(labels["affinity"], labels["anti_affinity"], labels["exclusion"])
    most_s = row.number("max_run_s") if row.text("max_run_s", "") else None
    workload = Workload(
        row.text("name"),
        (Subgroup("main", shape_of(row), tasks, least, company=company),),
        row.text("queue", "") if has_queues else row.text("queue", "default"),
        row.names("pools"),
        row.text("user", ""),
        _priority(row),
        _flag(row, "preemptible", default=True),
        _flag(row, "opportunistic", default=False),
        row.number("submitted_s"),
        most_s,
        _domain(row),
    )
    return workload, min(lasts_s, most_s or lasts_s)


_LABELS: Final = ("affinity", "anti_affinity", "exclusion")


def shape_of(row: TableRow) -> Shape:
    """What each task asks of its node."""
    count = row.whole("gpus")
    memory = row.whole("gpu_memory_mib", 0) if count else 0
    milli = row.whole("gpu_milli", 0 if memory else WHOLE_GPU) if count else 0
    return Shape(
        row.whole("cpu_milli", 0),
        row.whole("memory_mib", 0),
        count,
        milli,
        memory,
        row.names("models") if count else frozenset(),
    )


def _priority(row: TableRow) -> int:
    text = row.text("priority", "0")
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"priority is not a whole number: {text!r}") from None


def _flag(row: TableRow, column: str, *, default: bool) -> bool:
    text = row.text(column, "").lower()
    if not text:
        return default
    if text not in WORDS:
        raise ValueError(f"{column} is {text!r}: write yes or no")
    return WORDS[text]


def _domain(row: TableRow) -> Domain | None:
    """`rack`, or `rack:preferred`."""
    text = row.text("domain", "")
    if not text:
        return None
    level, _, word = (each.strip() for each in text.partition(":"))
    if word not in ("", *(each.value for each in Strictness)):
        raise ValueError(
            f"domain is {text!r}: write a level of the topology, as rack, or rack:preferred"
        )
    return Domain(level, Strictness(word or "required"))
