"""What became of each job of a replay, as a table: CSV, or JSONL (an object a line)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from moiety.model.errors import BadArgument, FileNotWritable
from moiety.sim.runs import GpuPool, Order, Run
from moiety.sim.seats import Seats

COLUMNS: Final = (
    *("name", "order", "queue", "user", "gpus", "submitted_s", "started_s", "ended_s"),
    *("wait_s", "stops", "failures", "nodes"),
)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job."""

    name: str
    order: str
    queue: str
    user: str
    gpus: float
    submitted_s: float
    started_s: float | None
    """None: it never began."""
    ended_s: float | None
    """None: it never ended."""
    duration_s: float
    stops: int
    """How often it was stopped for other jobs, or because a node was drained."""
    failures: int
    nodes: Sequence[str]
    """Where it ran last."""

    def values(self) -> dict[str, Any]:
        """By column; the wait is the whole time without the work itself."""
        wait_s = None
        if self.ended_s is not None:
            wait_s = max(0.0, self.ended_s - self.submitted_s - self.duration_s)
        row = {name: getattr(self, name) for name in COLUMNS if name != "wait_s"}
        row |= {"wait_s": wait_s, "nodes": list(self.nodes)}
        return {name: _rounded(row[name]) for name in COLUMNS}


def _rounded(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value


def check_target(path: Path) -> None:
    """Raises BadArgument unless the name of the file tells its format."""
    if path.suffix not in (".csv", ".jsonl"):
        raise BadArgument(
            f"{path.name} is neither a .csv nor a .jsonl", "--jobs jobs.csv, or jobs.jsonl"
        )


def write_records(path: Path, records: Iterable[JobRecord]) -> None:
    """Write a line for each job. Raises FileNotWritable."""
    text = io.StringIO()
    if path.suffix == ".jsonl":
        for each in records:
            text.write(json.dumps(each.values()) + "\n")
    else:
        table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        table.writeheader()
        for each in records:
            row = each.values()
            table.writerow(row | {"nodes": "|".join(row["nodes"])})
    try:
        path.write_text(text.getvalue(), encoding="utf-8")
    except OSError as error:
        raise FileNotWritable(str(path), error.strerror or str(error)) from None


class SeatNotes:
    """An order that also notes where gangs begin."""

    def __init__(self, order: Order) -> None:
        self.name = order.name
        self.seats: dict[int, Seats] = {}
        """Of each gang, by its number."""
        self._order = order

    def came(self, run: Run, pool: GpuPool) -> None:
        """As the order."""
        self._order.came(run, pool)

    def ended(self, run: Run, pool: GpuPool) -> None:
        """As the order."""
        self._order.ended(run, pool)

    def decide(self, pool: GpuPool) -> float | None:
        """As the order."""
        again = self._order.decide(pool)
        for run in pool.newly:
            if run.seats:
                self.seats[run.number] = run.seats
        return again

    def records(self, runs: Iterable[Run]) -> list[JobRecord]:
        """What became of each gang; nodes are numbered from 0."""
        return [
            JobRecord(
                run.gang.name or f"{run.number}",
                self.name,
                run.gang.queue,
                run.gang.user,
                run.gang.gpus,
                run.gang.submitted_s,
                run.began_s,
                run.ended_s,
                run.gang.duration_s,
                run.preemptions,
                run.failures,
                [str(node) for node, _ in self.seats.get(run.number, ())],
            )
            for run in runs
        ]
