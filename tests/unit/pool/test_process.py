"""The engine's process: it answers, says what failed, and is started again."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from moiety.model.errors import InternalError
from moiety.pool.engine import messages
from moiety.pool.engine.messages import (
    CardView,
    CycleAnswer,
    CycleRequest,
    MachineView,
    ReasonsRequest,
    receive,
    send,
)
from moiety.pool.engine.process import EngineProcess
from tests.support.pool_store import paths_in, store_in, submitted

ONE = MachineView(
    name="box",
    cpu_milli=8000,
    memory_mib=1000,
    cards=[CardView(index=0, model="A", memory_mib=1000)],
)


def test_it_decides_and_comes_back_after_it_was_killed(tmp_path: Path) -> None:
    submitted(store_in(tmp_path))
    engine = EngineProcess(paths_in(tmp_path), sys.stderr.fileno())
    try:
        answer = engine.cycle(CycleRequest(ONE, 1.0))
        assert [(start.number, start.cards) for start in answer.starts] == [(1, [0])]
        assert engine._process is not None
        engine._process.kill()
        assert engine.cycle(CycleRequest(ONE, 2.0)) == answer
        assert engine.reasons(ReasonsRequest(ONE, 2.0, [7])).reasons == {}
    finally:
        engine.close()
    engine.close()  # twice is once


def test_a_failure_of_the_engine_is_told(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    submitted(store)
    store.execute("UPDATE workload SET project = 'default', gpu_milli = 5000")
    log = (tmp_path / "log").open("w")
    engine = EngineProcess(paths_in(tmp_path), log.fileno())
    try:
        with pytest.raises(InternalError, match="gpu_milli is 5000"):
            engine.cycle(CycleRequest(ONE, 1.0))
    finally:
        engine.close()
        log.close()


def test_messages_are_framed_by_their_length() -> None:
    stream = io.BytesIO()
    send(stream, CycleAnswer([], [], None))
    send(stream, CycleAnswer([], [], 5.0))
    whole = stream.getvalue()
    stream.seek(0)
    assert receive(stream) is not None
    assert receive(stream) is not None
    assert receive(stream) is None
    assert receive(io.BytesIO(whole[: messages.LENGTH.size + 1])) is None
