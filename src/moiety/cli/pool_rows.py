"""Shows workloads of the pool: tables of what waits, runs and has ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence

from moiety.cli.output import seconds, table
from moiety.policy.explain.durations import duration
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


def expected(row: WorkRow, now_s: float) -> str:
    """When a workload is expected to start, from now, and the bounds: `5 min (2 min to 1 h)`."""
    if row.state is not WorkState.PENDING:
        return "-"
    low_s, high_s = row.expected_low_s, row.expected_high_s
    if row.expected_start_s is None:
        if low_s is None:
            return "not known"
        return f"{duration(max(low_s - now_s, 0.0))} at the earliest"
    text = duration(max(row.expected_start_s - now_s, 0.0))
    if low_s is None or high_s is None:
        return text
    early, late = duration(max(low_s - now_s, 0.0)), duration(max(high_s - now_s, 0.0))
    return text if early == late else f"{text} ({early} to {late})"


def rows_table(
    rows: Sequence[WorkRow], folds: Mapping[int, str] | None = None, *, starts: bool = False
) -> str:
    """A table of workloads; `folds` has the indices of tasks that a row stands for.

    With `starts`, there is a column for when each is expected to start.
    """
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
            *([expected(row, now_s)] if starts else []),
            row.reason if row.state is not WorkState.DONE else "",
        )
        for row in rows
    ]
    titles = (*TITLES[:-1], "STARTS-IN", TITLES[-1]) if starts else TITLES
    return table(titles, lines, less=("USER", "TIME", "ON", "PROJECT"))
