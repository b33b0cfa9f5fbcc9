"""The log of moiety's processes in a cluster: they write to stderr, which pods' logs show."""

from __future__ import annotations

import sys
from typing import Any

from moiety.config.values import LogFormat


def open_log(form: LogFormat) -> Any:
    """A structlog logger on stderr: lines of `key=value`, or JSON."""
    import structlog

    render: Any = structlog.processors.LogfmtRenderer(key_order=["time", "level", "event"])
    if form is LogFormat.JSON:
        render = structlog.processors.JSONRenderer(default=str)
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            render,
        ],
    )
