"""Errors of GPUs: what the next agent still knows of them, and what rows say."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from random import Random

import pytest
from structlog.testing import CapturingLogger

from moiety.agent.core.journal import Journal
from moiety.agent.monitor import xid_errors
from moiety.arbiter.settings import Settings
from moiety.testing.waiting import until
from tests.support.reports import reports_of
from tests.support.virtual_agent import World


def test_the_next_agent_knows_what_the_one_before_was_told(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    before = Journal(path, wall_s=lambda: time.time() - 100)
    before.note("GpuError", "XID 48: memory of the GPU lost its content", None, 1)
    before.note("GpuError", "XID 31: of a GPU that is none of ours", None, 7)
    before.note("GpuUnreadable", "XID 79 is not what happened", None, 0)
    before.close()
    with World(Random(1), Settings(arena_bytes=100), gpus=2) as world:
        agent = world.start_agent()
        journal = Journal(path)
        now_s = agent.runtime.now()
        xid_errors.remember(agent.gpus, journal, now_s)
        reports = reports_of(agent, journal=journal)
        first, second = reports.gpu_rows({})
        assert first.errors == {}
        assert second.errors == {48: pytest.approx(100, abs=60)}
        journal.close()


def test_errors_are_told_again_after_nvml_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xid_errors, "AGAIN_S", 0.0)
    answers: list[Exception | tuple[int, int]] = [OSError("GPU is lost")] * 2
    answers += [(1, 48), OSError("GPU is lost")]
    told = threading.Event()
    found: list[tuple[int, int]] = []

    def next_error(timeout_s: float) -> tuple[int, int] | None:
        del timeout_s
        answer = answers.pop(0) if answers else None
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            told.wait()
        return answer

    with World(Random(1), Settings(arena_bytes=100), gpus=2) as world:
        agent = world.start_agent()
        log = agent.runtime.log = CapturingLogger()
        agent.devices.next_error = next_error  # type: ignore[method-assign]
        errors = xid_errors.XidErrors(
            agent.runtime,
            agent.loop,
            agent.devices,
            gpus=agent.gpus,
            clients=agent.clients.by_number,
            journal=agent.journal,
        )

        errors._tell = lambda gpu, xid: found.append((gpu, xid))  # type: ignore[method-assign]
        errors._loop.call_soon_threadsafe = lambda call, *a: call(*a)  # type: ignore[method-assign]
        errors.start()
        until(lambda: not answers, "all is asked")
        errors.stop()
        told.set()
        assert found == [(1, 48)]
        until(lambda: len(log.calls) == 2, "each problem is in the log once, until it is over")
