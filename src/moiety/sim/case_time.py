"""The times in a case of a scenario: quotas by the hour, the present time, and past jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moiety.policy.estimate.runtime_history import PastRun
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import Amounts, Window
from moiety.sim import schedule
from moiety.sim.case_values import BadCase, amount, as_object, number, text


def windows(row: Mapping[str, Any], where: str) -> tuple[Window, ...]:
    """Of a queue: `{"days": "mon-fri", "from": "20:00", "until": "08:00", "quota_gpus": 12}`.

    CPUs and memory have the bounds that are said here, or none while the window is open.
    """
    found = []
    for at, each in enumerate(_list(row, "windows", where)):
        key = f"{where}.windows[{at}]"
        one = as_object(each, key)
        quota = Amounts(
            round(number(one, "quota_gpus", key) * WHOLE_GPU),
            None,
            amount(one, "quota_cpu_milli", key),
            amount(one, "quota_memory_bytes", key),
        )
        days = text(one, "days", key) if one.get("days") is not None else ""
        begin, end = text(one, "from", key), text(one, "until", key)
        try:
            found.append(schedule.window(days, begin, end, quota))
        except ValueError as error:
            raise BadCase(key, str(error)) from None
    return tuple(found)


def monday_s(case: Mapping[str, Any], now_s: float) -> float:
    """Monday's midnight on the case's clock; `"now": "tue 21:30"`. Without that, at time 0."""
    if case.get("now") is None:
        return 0.0
    try:
        return now_s - schedule.moment(text(case, "now", ""))
    except ValueError as error:
        raise BadCase("now", str(error)) from None


def history(case: Mapping[str, Any]) -> tuple[PastRun, ...]:
    """Jobs that have ended: `{"name", "queue", "user", "gpus", "created", "ran_s"}`."""
    found = []
    for at, each in enumerate(_list(case, "history", "")):
        key = f"history[{at}]"
        row = as_object(each, key)
        found.append(
            PastRun(
                text(row, "name", key),
                text(row, "user", key) if row.get("user") is not None else "",
                text(row, "queue", key),
                round(number(row, "gpus", key) * WHOLE_GPU),
                number(row, "created", key, 0),
                number(row, "ran_s", key),
            )
        )
    return tuple(found)


def _list(row: Mapping[str, Any], name: str, where: str) -> list[Any]:
    found = row.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise BadCase(f"{where}.{name}".lstrip("."), "it is not a list")
    return found
