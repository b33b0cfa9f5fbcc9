"""The common part of moiety's logs: structlog, with the time and the level in each line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def structlog_alone() -> ModuleType:
    """Return structlog, loaded without rich.

    It would load rich, and pygments with it, to draw exceptions on terminals: three times as long
    as all the rest of structlog, and at each start of an agent.
    """
    if "structlog" not in sys.modules and "rich" not in sys.modules:
        sys.modules["rich"] = None  # type: ignore[assignment]  # its import fails, as if not there
        try:
            import structlog
        finally:
            del sys.modules["rich"]
    import structlog

    return structlog


def timed_logger(end: Any, render: Callable[..., Any], **more: Any) -> Any:
    """A logger whose lines have time (UTC) and level, and go as `render` makes them to `end`.

    `more` are further arguments of structlog's `wrap_logger`.
    """
    structlog = structlog_alone()
    processors = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        render,
    ]
    return structlog.wrap_logger(end, processors=processors, **more)
