"""Shows workloads of the pool: tables of what waits, runs and has ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence

from moiety.cli.output import seconds, table
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import ENDS, WorkState

TITLES = ("ID", "NAME", "PROJECT", "USER", "STATE", "TIME", "GPUS", "ON", "REASON")


def asked_of(row: WorkRow) -> str:
    """The GPUs that a workload asks for: `2`, `0.5`, `2 x 0.5`, `20480 MiB`."""
    if not row.gpus:
        return "-"
    if row.gpu_milli == 1000:
        return str(row.gpus)
    part = f"{row.gpu_milli / 1000:g}" if row.gpu_milli else f"{row.gpu_memory_mib} MiB"
    return part if row.gpus == 1 else f"{row.gpus} x {part}"


def lasted(row: WorkRow, now_s: float) -> float | None:
    """How long it waits, runs or ran."""
    begin_s = row.submitted_s if row.began_s is None else row.began_s
    return max((now_s if row.ended_s is None else row.ended_s) - begin_s, 0.0)


def ended(row: WorkRow) -> str:
    """How a workload ended, in words."""
    if row.exit_signal is not None:
        try:
            name = signal.Signals(row.exit_signal).name
        except ValueError:  # one of the real-time signals
            name = f"signal {row.exit_signal}"
        return f"{row.state}, by {name}"
    if row.exit_code is not None and row.state is not WorkState.DONE:
        return f"{row.state}, exit code {row.exit_code}"
    return str(row.state)


def rows_table(rows: Sequence[WorkRow], folds: Mapping[int, str] | None = None) -> str:
    """A table of workloads; `folds` has the indices of tasks that a row stands for."""
    folded = folds or {}
    now_s = time.time()
    lines = [
        (
            f"{row.array_id}_[{folded[row.id]}]" if row.id in folded else row.shown_id,
            row.name or "-",
            row.project,
            row.user,
            ended(row) if row.state in ENDS else str(row.state),
            seconds(lasted(row, now_s)),
            asked_of(row),
            ",".join(map(str, row.cards)) or "-",
            row.reason if row.state is not WorkState.DONE else "",
        )
        for row in rows
    ]
    return table(TITLES, lines, less=("USER", "TIME", "ON", "PROJECT"))
