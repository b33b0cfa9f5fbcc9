"""The processes of one program, held by descriptors."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, Self

import pytest

from moiety.agent.control.protocol import Ps
from moiety.agent.control.rows import ProcessRow
from moiety.cli import living as module
from moiety.cli.living import end, living
from moiety.model.errors import WorkloadUnknown
from tests.unit.top.test_rows import row


class Agent:
    """Answers one list of rows after the other."""

    def __init__(self, *answers: list[ProcessRow]) -> None:
        self._answers = iter(answers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def ask(self, asked: Ps, _: type[Any]) -> Any:
        assert asked.workloads
        return SimpleNamespace(rows=next(self._answers))


@pytest.fixture
def process() -> Iterator[int]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as started:
        yield started.pid


def meant(monkeypatch: pytest.MonkeyPatch, *answers: list[ProcessRow]) -> list[int]:
    monkeypatch.setattr(module, "call", lambda _: Agent(*answers))
    with living("train") as found:
        for pidfd in found:
            os.fstat(pidfd)
        return [each.tenant for each in found.values()]


def test_a_program_that_gets_its_first_gpu_meanwhile_is_still_meant(
    monkeypatch: pytest.MonkeyPatch, process: int
) -> None:
    starting, holding = row(0, pid=process, state="starting"), row(4, pid=process)
    assert meant(monkeypatch, [starting], [holding]) == [0]


def test_another_process_that_got_the_pid_is_not_meant(
    monkeypatch: pytest.MonkeyPatch, process: int
) -> None:
    assert meant(monkeypatch, [row(1, pid=process)], [row(2, pid=process, workload="x")]) == []


def test_only_the_process_that_a_row_named_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    cat = partial(subprocess.Popen, ["cat"], stdin=subprocess.PIPE)
    with cat() as first, cat() as second:
        rows = [row(1, pid=first.pid), row(2, pid=second.pid)]
        monkeypatch.setattr(module, "call", lambda _: Agent(rows, rows))
        assert end(rows[1]) == f"SIGTERM sent to train (pid {second.pid})"
        assert second.wait() == -signal.SIGTERM
        assert first.poll() is None
        with pytest.raises(WorkloadUnknown):
            end(row(2, pid=second.pid))
        first.stdin.close()  # type: ignore[union-attr]
        assert first.wait() == 0
