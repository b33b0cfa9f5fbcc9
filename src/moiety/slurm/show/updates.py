"""What `scontrol update` can change of a job, as the pool takes it."""

from __future__ import annotations

import time
from typing import Any, Final, NoReturn

from moiety.slurm import times
from moiety.slurm.labels import PREFIX
from moiety.slurm.show import options
from moiety.slurm.show.options import UsageError

LABELS: Final = {
    "comment": "comment", "account": "account", "partition": "partition", "qos": "qos",
    "wckey": "wckey", "features": "features", "mailtype": "mail_type", "mailuser": "mail_user",
    "admincomment": "comment",
}  # fmt: skip
"""What is only kept and shown."""


def amendment_of(values: dict[str, str]) -> dict[str, Any]:
    """The body of a request; raises UsageError for what cannot be changed."""
    found: dict[str, Any] = {}
    labels: dict[str, str] = {}
    for name, value in values.items():
        if name == "timelimit":
            found["time_limit_s"] = _limit(value)
        elif name in ("jobname", "name"):
            found["name"] = value
        elif name == "nice":
            found["priority"] = -_number(name, value or "100")
        elif name == "priority":
            found["priority"] = _number(name, value)
        elif name in ("starttime", "begintime"):
            found["begin_s"] = _begin(value)
        elif name in LABELS:
            labels[PREFIX + LABELS[name]] = value
        else:
            _refuse(f"{name}={value}")
    if labels:
        found["labels"] = labels
    if not found:
        _refuse("nothing")
    return found


def _refuse(text: str) -> NoReturn:
    raise UsageError(
        f"Update of this parameter is not supported: {options.plain(text)[:80]}", "Request aborted"
    )


def _limit(text: str) -> float | None:
    if text[:1] in ("+", "-") and text != "-1":
        _refuse(f"TimeLimit={text}: a whole time limit is needed")
    try:
        found = times.limit(text)
    except ValueError:
        raise UsageError("Invalid TimeLimit value", "Request aborted") from None
    return found or None


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"Invalid {name} value: {options.plain(text)[:40]}") from None


def _begin(text: str) -> float:
    try:
        found = times.moment(text, time.time())
    except ValueError:
        raise UsageError(f"Invalid time specification: {options.plain(text)[:80]}") from None
    return 0.0 if text.lower() == "now" else found
