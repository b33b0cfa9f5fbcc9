"""The log of moiety's processes in a cluster: they write to stderr, which pods' logs show."""

from __future__ import annotations

import sys
from typing import Any

from moiety.config.structured_log import structlog_alone, timed_logger
from moiety.config.values import LogFormat


def open_log(form: LogFormat) -> Any:
    """A structlog logger on stderr: lines of `key=value`, or JSON."""
    structlog = structlog_alone()
    render: Any = structlog.processors.LogfmtRenderer(key_order=["time", "level", "event"])
    if form is LogFormat.JSON:
        render = structlog.processors.JSONRenderer(default=str)
    return timed_logger(structlog.PrintLogger(sys.stderr), render)
