"""How tests wait: for what stays true once it is, with a deadline that is never near."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

DEADLINE_S: Final = 120.0
"""a test that waits longer hangs; nothing is ever this slow"""
STEP_S: Final = 0.01


def until(condition: Callable[[], Any], what: str = "", deadline_s: float = DEADLINE_S) -> Any:
    """Wait for what `condition` returns to be true, and return it; else AssertionError."""
    end_s = time.monotonic() + deadline_s
    while not (found := condition()):
        if time.monotonic() > end_s:
            raise AssertionError(f"waited in vain: {what or condition}")
        time.sleep(STEP_S)
    return found
