"""The common part of the logs."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from moiety.config.structured_log import structlog_alone, timed_logger

LOADED = """
import sys
from moiety.config.structured_log import structlog_alone
structlog_alone()
print("rich" in sys.modules, "structlog" in sys.modules)
import rich.text
"""


def test_a_line_has_the_time_and_the_level() -> None:
    there = io.StringIO()
    structlog = structlog_alone()
    log = timed_logger(structlog.WriteLogger(there), structlog.processors.JSONRenderer())
    log.warning("arena_set", size_bytes=3)
    line = json.loads(there.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {"level": "warning", "event": "arena_set", "size_bytes": 3}


def test_an_exception_is_written_with_its_trace() -> None:
    there = io.StringIO()
    structlog = structlog_alone()
    log = timed_logger(structlog.WriteLogger(there), structlog.processors.JSONRenderer())
    try:
        raise ValueError("nothing fits")
    except ValueError:
        log.exception("failed")
    assert "ValueError: nothing fits" in json.loads(there.getvalue())["exception"]


@pytest.mark.slow
def test_it_is_loaded_without_rich_which_can_be_loaded_later() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]
