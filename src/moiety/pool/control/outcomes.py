"""What becomes of a workload when an attempt is over: by the exit record, or by what remains."""

from __future__ import annotations

import signal
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from moiety.pool.launch.supervised import Remains
from moiety.pool.model import holds
from moiety.pool.model.names import RESTARTED
from moiety.pool.model.records import PREEMPTED, RETRY_MAX_S, WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.starter.records import EndReason, Exit, Exited, FailedToStart, Signaled

FAILURES_MAX: Final = 3
"""So many starts in a row that fail hold a workload."""
BACKOFF_FIRST_S: Final = 1.0
RETRY_FIRST_S: Final = 2.0
"""The time before the second try of a program that failed; it doubles with each try."""
CANCELLED: Final = "cancelled"
REQUEUED: Final = "requeued"
REQUEUED_HELD: Final = "requeued and held"
SUPERVISOR_KILLED: Final = "its supervisor was killed: how its program ended is not known"
"""Reasons to end work that waits again afterwards, as its user wants it."""


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """The state that follows an attempt, a word for it, and columns that change."""

    state: WorkState
    word: str
    values: dict[str, Any] = field(default_factory=dict)


def of_exit(row: WorkRow, record: Exit, now_s: float) -> AttemptOutcome:
    """The outcome of a program that was started, or could not be."""
    ended = record.outcome
    if isinstance(ended, FailedToStart):
        return of_failed_start(row, f"its program could not be started: {ended.text}", now_s)
    if not isinstance(ended, Exited | Signaled):
        return _lost(row, SUPERVISOR_KILLED)
    code = ended.code if isinstance(ended, Exited) else None
    number = ended.signal if isinstance(ended, Signaled) else None
    used = {
        "max_rss_kib": record.max_rss_kib,
        "user_s": record.user_s,
        "system_s": record.system_s,
    }
    values: dict[str, Any] = {"exit_code": code, "exit_signal": number, "failures": 0} | used
    word = f"exited {code}" if number is None else f"signaled {number}"
    if row.intent in (REQUEUED, REQUEUED_HELD):
        return _requeued(row, used)
    if record.reason is EndReason.TIME_LIMIT:
        why = "its time limit was reached"
        return AttemptOutcome(WorkState.TIMED_OUT, word, values | {"reason": why})
    if record.reason is EndReason.CANCELLED:
        if row.intent == PREEMPTED:
            return again(row, row.reason)
        return AttemptOutcome(WorkState.CANCELLED, word, values)
    if code == 0:
        return AttemptOutcome(WorkState.DONE, word, values | {"reason": ""})
    why = f"its program ended with exit code {code}" if number is None else _by_signal(number)
    if row.retried < row.retries:
        return _retry(row, word, why, now_s)
    return AttemptOutcome(WorkState.FAILED, word, values | {"reason": why})


def again(row: WorkRow, word: str, reason: str = "", **values: Any) -> AttemptOutcome:
    """It goes back into the queue, although its program had begun."""
    back: dict[str, Any] = {"failures": 0, "reason": reason, "restarts": row.restarts + 1}
    return AttemptOutcome(WorkState.PENDING, word, back | values)


def _retry(row: WorkRow, word: str, why: str, now_s: float) -> AttemptOutcome:
    """It runs once more, after a pause that doubles each time."""
    pause_s = min(RETRY_FIRST_S * 2.0**row.retried, RETRY_MAX_S)
    reason = f"{why}; try {row.retried + 2} of {row.retries + 1} follows"
    return again(row, word, reason, retried=row.retried + 1, not_before_s=now_s + pause_s)


def _requeued(row: WorkRow, used: dict[str, Any]) -> AttemptOutcome:
    """It waits again, however its program ended: its user wants that."""
    if row.intent == REQUEUED:
        return again(row, row.reason, **used)
    held = again(row, row.reason, holds.BY_ITS_USER, **used)
    return AttemptOutcome(WorkState.HELD, held.word, held.values)


def of_failed_start(row: WorkRow, text: str, now_s: float) -> AttemptOutcome:
    """It is tried again later, and the third failure in a row holds it."""
    if row.intent == CANCELLED:
        return AttemptOutcome(WorkState.CANCELLED, "never started")
    failures = row.failures + 1
    values: dict[str, Any] = {"failures": failures, "reason": text}
    if failures >= FAILURES_MAX:
        values["reason"] = f"{failures} starts in a row failed: {text}"
        return AttemptOutcome(WorkState.HELD, "failed to start", values)
    values["not_before_s"] = now_s + BACKOFF_FIRST_S * 2 ** (failures - 1)
    return AttemptOutcome(WorkState.PENDING, "failed to start", values)


def of_no_starter(row: WorkRow, text: str, now_s: float) -> AttemptOutcome:
    """It waits for the next starter, which is no failure of its own."""
    if row.intent == CANCELLED:
        return AttemptOutcome(WorkState.CANCELLED, "never started")
    values = {"reason": text, "not_before_s": now_s + BACKOFF_FIRST_S}
    return AttemptOutcome(WorkState.PENDING, "never started", values)


def of_remains(
    row: WorkRow, remains: Remains, now_s: float, lost: Collection[int] = ()
) -> AttemptOutcome:
    """The outcome of an attempt of which nothing runs any more; `lost`: GPUs that have failed."""
    found = _of_remains(row, remains, now_s)
    failed = sorted(set(row.cards).intersection(lost))
    if found.state is WorkState.FAILED and row.requeue and failed:
        return again(row, found.word, f"it runs again: GPU {failed[0]} was lost under it")
    return found


def is_bad(remains: Remains) -> bool:
    """Whether an attempt may have ended because something failed under it."""
    return remains.exit is None or remains.exit.outcome != Exited(0)


def _of_remains(row: WorkRow, remains: Remains, now_s: float) -> AttemptOutcome:
    if remains.exit is not None:
        return of_exit(row, remains.exit, now_s)
    if remains.damaged is not None:
        why = f"the record {remains.damaged.name} of its supervisor is damaged"
        return AttemptOutcome(WorkState.FAILED, "lost", {"reason": why})
    if remains.started is None:
        if row.intent == CANCELLED:
            return AttemptOutcome(WorkState.CANCELLED, "never started")
        return AttemptOutcome(WorkState.PENDING, "never started", {"reason": ""})
    if not remains.is_of_this_boot:
        if row.requeue and row.intent != CANCELLED:
            return again(row, "machine restarted", "it runs again: the machine was restarted")
        return _lost(row, RESTARTED)
    return _lost(row, SUPERVISOR_KILLED)


def _lost(row: WorkRow, why: str) -> AttemptOutcome:
    """How its program ended is not known; what was told to give way waits again even so."""
    if row.intent == PREEMPTED:
        return again(row, "lost", row.reason)
    if row.intent in (REQUEUED, REQUEUED_HELD):
        return _requeued(row, {})
    return AttemptOutcome(WorkState.FAILED, "lost", {"reason": why})


def _by_signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:  # one of the real-time signals
        name = f"signal {number}"
    return f"its program was ended by {name}"
