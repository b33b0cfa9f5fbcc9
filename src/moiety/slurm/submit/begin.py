"""Reads the times of `--begin`: now+1hour, 16:00, tomorrow, 2030-01-31T12:30."""

from __future__ import annotations

from moiety.slurm import times
from moiety.slurm.errors import OptionRefused


def begin_s(text: str, now_s: float) -> float:
    """The time in seconds since the epoch; 0: at once. Raises OptionRefused."""
    if text.strip().lower() == "now":
        return 0.0
    try:
        return times.moment(text, now_s, is_later=True)
    except ValueError:
        raise OptionRefused(f"Invalid --begin specification: {text[:40]!r}") from None
